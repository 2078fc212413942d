"""Windows set by controllers over arrays."""

import datetime
import sys

import pytest

import windward as ww

np = pytest.importorskip("numpy")

TEXT = """
duration = "20s"

[dumbbell]
bottleneck = { rate = "10Mbit", delay = "20ms", queue = "50p" }
access = { rate = "100Mbit", delay = "5ms" }

[[flows]]
group = "ours"
count = 3
protocol = "sack"

[[flows]]
group = "late"
count = 2
protocol = "sack"
start = "10s"

[[flows]]
group = "theirs"
protocol = "newreno"
"""


class Recorder:
    """A fixed window of ten packets; stores all batches."""

    def __init__(self, setup):
        self.setup = setup
        self.batches = []
        made.append(self)

    def on_interval(self, batch):
        self.batches.append(batch)
        return np.full(batch.cwnd.shape, 10.0)


made = []


def scenario(**changes):
    return ww.Scenario(TEXT).with_(**changes)


def test_arrays_have_what_each_connection_heard():
    made.clear()
    ww.run_batch(scenario(), {"ours": Recorder}, every="100ms", seed=3)
    (controller,) = made
    assert controller.setup.names == ("ours-1", "ours-2", "ours-3") and controller.setup.seed == 3
    assert len(controller.batches) == 199
    times = [batch.now for batch in controller.batches]
    assert times == pytest.approx([0.1 * step for step in range(1, 200)])
    # The same, asked connection by connection.
    simulation = ww.Simulation(scenario().with_parts(window={"ours": ww.Steered}), seed=3)
    for batch in controller.batches:
        simulation.advance(batch.now)
        for place, name in enumerate(controller.setup.names):
            heard = simulation.heard(name)
            flow = simulation.flow(name)
            assert batch.delivered[place] == heard["delivered"]
            assert batch.lost[place] == heard["lost"]
            assert batch.congestions[place] == heard["congestions"]
            assert batch.resets[place] == heard["resets"]
            assert batch.cwnd[place] == flow["cwnd_packets"]
            assert batch.in_flight[place] == flow["in_flight_packets"]
            if heard["mean_rtt_s"] is None:
                assert np.isnan(batch.mean_rtt[place])
            else:
                assert batch.mean_rtt[place] == heard["mean_rtt_s"]
                assert batch.min_rtt[place] == heard["min_rtt_s"]
            simulation.steer(name, 10)
    delivered = sum(batch.delivered for batch in controller.batches)
    # 10 packets of 1000 bytes an RTT of 60 ms or more, a queue of at most 50 packets being 40 ms.
    assert all(10 / 0.103 * 19 < count < 10 / 0.060 * 20 for count in delivered)


def test_an_interval_is_an_rtt_where_none_is_given():
    made.clear()
    ww.run_batch(scenario(duration="10s"), {"ours": Recorder})
    batches = made[0].batches
    for before, after in zip(batches[2:], batches[3:], strict=False):
        assert after.seconds == pytest.approx(np.nanmean(before.mean_rtt))
    # 60 ms, and up to 40 ms in the queue.
    assert 10 / 0.103 < len(batches) < 10 / 0.060


def test_groups_have_laws_of_their_own_and_what_has_not_begun_is_not_active():
    made.clear()
    controllers = {"ours": Recorder, "late": Recorder}
    run = ww.run_batch(scenario(), controllers, every=datetime.timedelta(milliseconds=150))
    ours, late = made
    assert ours.setup.names[0] == "ours-1" and late.setup.names == ("late-1", "late-2")
    assert all(batch.active.all() for batch in ours.batches[3:])
    for batch in late.batches:
        assert batch.active.any() == (batch.now > 10.15)
    assert run.flows["protocol"] == ["steered"] * 5 + ["newreno"]


def test_a_law_over_arrays_shares_a_link_and_is_the_same_again():
    class Aimd:
        def __init__(self, setup):
            pass

        def on_interval(self, batch):
            grown = np.where(batch.active, batch.cwnd + 1, batch.cwnd)
            return np.where(batch.congestions > 0, batch.cwnd / 2, grown)

    alone = scenario(duration="60s", warmup="20s")
    run = ww.run_batch(alone, {"ours": Aimd, "late": Aimd}, seed=1)
    assert run.links["utilization"][0] > 0.9
    # Like Reno beside Reno: nobody has more than three times the share of six.
    assert max(run.flows["goodput_bps"]) < 3 * 10e6 / 6
    assert run.fingerprint == ww.run_batch(alone, {"ours": Aimd, "late": Aimd}, seed=1).fingerprint


def controller(answer):
    class Own:
        def __init__(self, setup):
            pass

        def on_interval(self, batch):
            return answer

    return Own


@pytest.mark.parametrize(
    "answer", [None, 5.0, [1, 2], [1, 2, 3, 4], [1, 2, float("nan")], "wide", [[1], [2], [3]]]
)
def test_answers_that_are_no_windows_are_refused(answer):
    with pytest.raises(TypeError, match=r"Own.on_interval returned .*: expected 3 windows in packets"):
        ww.run_batch(scenario(), {"ours": controller(answer)})


def test_windows_out_of_range_are_brought_into_it():
    low = ww.run_batch(scenario(), {"ours": controller([-5, 0, 0.5])})
    one = ww.run_batch(scenario(), {"ours": controller([1, 1, 1])})
    assert low.fingerprint == one.fingerprint
    with pytest.raises(ValueError, match="far more than the path carries"):
        ww.run_batch(scenario(duration="1s"), {"ours": controller([1, 1, float("inf")])})


def test_mistakes_are_said(monkeypatch):
    with pytest.raises(ValueError, match="greater than 0"):
        ww.run_batch(scenario(), {"ours": Recorder}, every=0)
    with pytest.raises(ValueError, match="every"):
        ww.run_batch(scenario(), {"ours": Recorder}, every="20mss")
    with pytest.raises(ValueError, match='did you mean "ours"'):
        ww.run_batch(scenario(), {"our": Recorder})
    with pytest.raises(TypeError, match="not a class with a method on_interval"):
        ww.run_batch(scenario(), {"ours": 5})
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ImportError, match="pip install numpy"):
        ww.run_batch(scenario(), {"ours": Recorder})
