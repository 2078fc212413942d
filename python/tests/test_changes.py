"""Links that change during a simulation."""

import pytest

import windward as ww

# A window of 300 packets keeps something in the queue all the time, whatever the rate.
FULL = """
duration = "30s"

[dumbbell]
bottleneck = { rate = "10Mbit", delay = "20ms", queue = "2000p" }
access = { rate = "100Mbit", delay = "5ms", queue = "2000p" }

[[flows]]
group = "bulk"
protocol = "newreno"
rwnd = 300
initial_window = 200
"""

# 1000 packets a second, on a link that has room for them.
STEADY = """
duration = "60s"

[dumbbell]
bottleneck = { rate = "10Mbit", delay = "20ms" }
access = { rate = "100Mbit", delay = "5ms" }

[[flows]]
group = "voice"
cbr = { rate = "8Mbit", packet_size = 1000 }
"""


def carried(simulation, until):
    """Bytes that the bottleneck transmits from now on."""
    before = simulation.link("bottleneck")["sent_bytes"]
    simulation.advance(until)
    return simulation.link("bottleneck")["sent_bytes"] - before


@pytest.mark.parametrize("half", ["5Mbit", 5 * ww.Mbit, "5000kbit/s"])
def test_half_the_rate_is_half_the_throughput(half):
    simulation = ww.Simulation(ww.Scenario(FULL), changes=True)
    simulation.advance(5)
    packet = 1040
    # 10 Mbit/s are 1.25 MB/s; what is in transmission at the change keeps its old rate.
    assert carried(simulation, 10) == pytest.approx(6_250_000, abs=packet)
    simulation.change_link("bottleneck", rate=half)
    assert carried(simulation, 20) == pytest.approx(6_250_000, abs=packet)
    simulation.change_link("bottleneck", rate="20Mbit")
    assert carried(simulation, 30) == pytest.approx(25_000_000, abs=packet)
    assert simulation.finish().links["utilization"][0] > 0.99


@pytest.mark.parametrize("loss", [0.1, "10%", "0.1"])
def test_a_loss_begins_and_ends(loss):
    simulation = ww.Simulation(ww.Scenario(STEADY), seed=4, changes=True)
    simulation.advance(20)
    assert simulation.link("bottleneck")["corrupted"] == 0
    simulation.change_link("bottleneck", loss=loss)
    simulation.advance(40)
    lost = simulation.link("bottleneck")["corrupted"]
    # 20 000 packets: five standard errors are 5 sqrt(20 000 * 0.1 * 0.9) = 212.
    assert lost == pytest.approx(2000, abs=212)
    simulation.change_link("bottleneck", loss=0)
    run = simulation.finish()
    # One packet may have been in transmission.
    assert run.links["corrupted"][0] - lost <= 1


def test_a_shorter_delay_lets_packets_overtake():
    simulation = ww.Simulation(ww.Scenario(STEADY).with_(duration="3s"), changes=True)
    simulation.advance(1)
    simulation.change_link("bottleneck", delay="5ms")
    simulation.advance(2)
    # Longer again: no packet overtakes.
    simulation.change_link("bottleneck", delay=0.03)
    run = simulation.finish()
    # A packet a millisecond: those that set out in the last 15 ms come after the first of the new way.
    assert run.links["reordered"][0] in (14, 15)
    for wrong in ["-5ms", "25h", "soon", -1]:
        with pytest.raises(ValueError, match="delay"):
            ww.Simulation(ww.Scenario(STEADY), changes=True).change_link("bottleneck", delay=wrong)


def test_links_that_could_change_and_do_not_are_the_same():
    for text in [FULL, STEADY]:
        scenario = ww.Scenario(text).with_(duration="5s")
        simulation = ww.Simulation(scenario, seed=2, changes=True)
        simulation.advance(1)
        # A change to the current value has no effect either.
        simulation.change_link("bottleneck", rate="10Mbit", loss=0)
        run = simulation.finish()
        assert run.fingerprint == scenario.run(seed=2).fingerprint
        assert run.flows.to_pydict() == scenario.run(seed=2).flows.to_pydict()


def changed(steps):
    simulation = ww.Simulation(ww.Scenario(FULL).with_(duration="6s"), seed=3, changes=True)
    for step in range(1, steps + 1):
        simulation.advance(2 * step / steps)
    simulation.change_link("bottleneck", rate="1Mbit", loss="1%")
    return simulation.finish().fingerprint


def test_steps_do_not_show_in_changes():
    assert changed(1) == changed(100)
    assert changed(1) != ww.Scenario(FULL).with_(duration="6s").run(seed=3).fingerprint


def test_xcp_routers_know_the_new_rate():
    text = FULL.replace("2000p", "200p").replace('"newreno"', '"xcp"').replace("rwnd = 300", "")
    text = text.replace("initial_window = 200", "count = 3")
    simulation = ww.Simulation(ww.Scenario(text).with_(duration="60s"), changes=True)
    for begin, mbit in [(0, 10), (20, 5), (40, 20)]:
        simulation.change_link("bottleneck", rate=mbit * ww.Mbit)
        simulation.advance(begin + 10)
        dropped = simulation.link("bottleneck")["dropped"]
        # All of the link, no loss and next to no queue, which a router that takes the link for twice
        # as fast does not reach.
        assert carried(simulation, begin + 20) > 0.95 * 10 * mbit * 125_000
        link = simulation.link("bottleneck")
        assert link["dropped"] == dropped and link["queue_packets"] < 40


class Hears:
    """AQM that is told of rate changes."""

    heard = []  # noqa: RUF012 (of all objects)

    def __init__(self, place):
        self.heard.append(place.rate_bps)

    def on_enqueue(self, queue, packet):
        return "pass"

    def on_rate(self, rate_bps, share_bps):
        self.heard.append((rate_bps, share_bps))
        if rate_bps == 1:
            raise LookupError("too slow")


def test_queue_management_in_python_hears_of_it():
    Hears.heard.clear()
    scenario = ww.Scenario(STEADY).with_parts(aqm={"bottleneck": Hears})
    simulation = ww.Simulation(scenario, changes=True)
    simulation.advance(1)
    simulation.change_link("bottleneck", rate="9Mbit")
    assert Hears.heard == [10_000_000, (9_000_000, 9_000_000)]
    with pytest.raises(LookupError, match="too slow"):
        simulation.change_link("bottleneck", rate="1bit")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(rate="-5Mbit"), ValueError, "rate: .*it is negative"),
        (dict(rate="0bit"), ValueError, "at least 1 bit/s"),
        (dict(rate="5Mb"), ValueError, "5Mbit"),
        (dict(rate="101Tbit"), ValueError, "between 1bit and 100Tbit"),
        (dict(rate=5e6), TypeError, "a rate needs a unit"),
        (dict(loss=1.5), ValueError, "loss = 1.5: must lie between 0 and 1"),
        (dict(loss=-0.1), ValueError, "between 0 and 1"),
        (dict(loss=float("nan")), ValueError, "between 0 and 1"),
        (dict(loss="101%"), ValueError, "between 0 and 1"),
        (dict(loss=[]), TypeError, "a number from 0 to 1"),
        (dict(), TypeError, "nothing to change"),
    ],
)
def test_what_is_no_change_is_refused_and_changes_nothing(change, error, message):
    scenario = ww.Scenario(STEADY).with_(duration="2s")
    simulation = ww.Simulation(scenario, changes=True)
    simulation.advance(1)
    with pytest.raises(error, match=message):
        simulation.change_link("bottleneck", **change)
    assert simulation.finish().fingerprint == scenario.run().fingerprint


def test_where_nothing_can_change_is_said():
    scenario = ww.Scenario(STEADY).with_(duration="2s")
    with pytest.raises(KeyError, match='did you mean "bottleneck"'):
        ww.Simulation(scenario, changes=True).change_link("botleneck", loss=0.1)
    with pytest.raises(ValueError, match="changes=True"):
        ww.Simulation(scenario).change_link("bottleneck", loss=0.1)
    simulation = ww.Simulation(scenario, changes=True)
    simulation.finish()
    with pytest.raises(RuntimeError, match="finished"):
        simulation.change_link("bottleneck", loss=0.1)
    traced = scenario.with_({"dumbbell.bottleneck.rate": {"opportunities": [1, 2, 3]}})
    simulation = ww.Simulation(traced, changes=True)
    with pytest.raises(ValueError, match="trace"):
        simulation.change_link("bottleneck", rate="5Mbit", loss=0.5)
    simulation.change_link("bottleneck", loss=1)
    assert simulation.finish().links["corrupted"][0] > 0
