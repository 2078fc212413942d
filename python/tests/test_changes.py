"""Links that change during a simulation."""

from datetime import timedelta

import pytest

import windward as ww

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


def after(**change):
    """Fingerprint of a run in which the bottleneck changes after a second."""
    simulation = ww.Simulation(ww.Scenario(STEADY).with_(duration="3s"), seed=4, changes=True)
    simulation.advance(1)
    simulation.change_link("bottleneck", **change)
    return simulation.finish().fingerprint


@pytest.mark.parametrize(
    ("key", "notations"),
    [
        ("rate", ["5Mbit", 5 * ww.Mbit, "5000kbit/s"]),
        ("loss", [0.1, "10%", "0.1"]),
        ("delay", ["5ms", 0.005, 5 * ww.ms, timedelta(milliseconds=5)]),
    ],
)
def test_every_notation_of_a_value_is_the_same_change(key, notations):
    # The tests of the engine hold its effect on packets.
    fingerprints = {after(**{key: value}) for value in notations}
    assert len(fingerprints) == 1
    # The current values have no effect.
    same = after(rate="10Mbit", loss=0)
    assert same not in fingerprints
    assert same == ww.Scenario(STEADY).with_(duration="3s").run(seed=4).fingerprint


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
        (dict(delay="-5ms"), ValueError, "delay"),
        (dict(delay="25h"), ValueError, "delay"),
        (dict(delay="soon"), ValueError, "delay"),
        (dict(delay=-1), ValueError, "delay"),
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
