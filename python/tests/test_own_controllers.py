"""Controllers of users: pacing, rate samples, losses, missing methods, sweeps."""

import json
import pathlib
import pickle
import subprocess
import sys
import warnings

import pytest

import windward as ww

ROOT = pathlib.Path(__file__).parents[2]
FIRST = ROOT / "experiments/examples/first.toml"
SWEEP = """
duration = "3s"
warmup = "1s"
[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
access = { rate = "100Mbit", delay = "20ms" }
[[flows]]
group = "lossy"
count = 2
protocol = "newreno"
last_hop = { loss = 0.05 }
[experiment]
id = "own"
title = "A controller of one's own"
[[experiment.axes]]
name = "loss"
key = "flows.lossy.last_hop.loss"
values = ["1%", "5%"]
[experiment.metrics]
goodput = "goodput(lossy)"
"""


def first(**changes):
    return ww.Scenario.read(FIRST).with_(**{"duration": 8, "warmup": 1, **changes})


class Aimd:
    """Keeps a window of its own."""

    def __init__(self, setup):
        self.cwnd = setup.initial_window

    def on_ack(self, ack):
        if ack.allows_growth:
            self.cwnd += ack.growth / self.cwnd
        return self.cwnd

    def on_congestion(self, congestion):
        self.cwnd = max(2, self.cwnd * congestion.kept(0.7))
        return self.cwnd

    def on_reset(self, reset):
        self.cwnd = reset.window_after(self.cwnd)
        return self.cwnd


class Forgetful(Aimd):
    on_reset = property()  # Raises AttributeError: there is no such method.


class Deaf(Forgetful):
    on_congestion = property()


class Paced(Aimd):
    """A fixed window, paced."""

    pacing_rate = 50.0

    def on_ack(self, ack):
        return 40.0

    def on_congestion(self, congestion):
        return 40.0

    def on_reset(self, reset):
        return 40.0


class Listener(Aimd):
    seen = {"samples": [], "lost": []}

    def on_rate_sample(self, sample):
        self.seen["samples"].append(sample)

    def on_lost(self, packet):
        self.seen["lost"].append(packet)


HARSH = """
duration = "30s"
warmup = "5s"
[dumbbell]
bottleneck = { rate = "1Mbit", delay = "100ms", queue = "4p" }
access = { rate = "10Mbit", delay = "1ms" }
[[flows]]
group = "crowd"
count = 20
protocol = "cubic"
"""


def drops(controller):
    link = max(ww.Scenario(HARSH).with_({"flows.crowd.protocol": controller}).run().links, key=lambda link: link["dropped"])
    return link["dropped"] / link["arrived"]


def test_a_class_without_on_reset_cannot_undo_a_restart_and_is_told():
    by_hand = drops(Aimd)
    with pytest.warns(UserWarning, match="Forgetful keeps a window of its own and has no on_reset"):
        held = drops(Forgetful)
    # Held as TCP is, it drops as much as the class that answers timeouts; undone, nearly everything.
    assert held < by_hand + 0.05
    with pytest.warns(UserWarning, match="has no on_"):
        assert drops(Deaf) < by_hand + 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drops(Aimd)


def test_a_class_may_pace():
    run = first().with_({"flows.clean.protocol": Paced}).run()
    rows = [row for row in run.flows if row["group"] == "clean"]
    assert rows and rows[0] == run.flows[0]
    # 50 packets a second for 8 s, and no more than a window besides.
    assert all(row["packets_sent"] <= 50 * 8 + 40 for row in rows)
    wild = type("Wild", (Paced,), {"pacing_rate": "fast"})
    with pytest.raises(TypeError, match="pacing_rate is 'fast'"):
        first().with_({"flows.clean.protocol": wild}).run()


def test_a_class_hears_of_rates_and_of_each_loss():
    for kept in Listener.seen.values():
        kept.clear()
    run = first().with_({"flows.lossy.protocol": Listener}).run()
    samples, lost = Listener.seen["samples"], Listener.seen["lost"]
    assert max(sample.rate for sample in samples) > 10
    assert sum(sample.newly_lost for sample in samples) <= len(lost)
    assert len(lost) > 0 and all(packet.tx_in_flight >= 1 for packet in lost)
    assert run.groups[1]["goodput_bps"] > 0
    with pytest.raises(ValueError, match="on_rate_sample and on_lost are not called"):
        first().with_parts(window={"lossy": Listener})


def test_expressions_are_text_everywhere():
    controller = ww.controller("cwnd + growth / cwnd", "0.7 * cwnd", pacing_rate="2 * cwnd / srtt", name="mine")
    by_key = first().with_({"flows.lossy.protocol": controller})
    by_text = first().with_({"flows.lossy.protocol": controller.toml})
    assert by_key.run(seed=3).fingerprint == by_text.run(seed=3).fingerprint
    assert pickle.loads(pickle.dumps(controller)) == controller
    with pytest.raises(ww.ScenarioError, match="character 8"):
        first().with_({"flows.lossy.protocol": {"window": {"on_ack": "cwnd + + 1"}}})


def test_classes_and_expressions_are_swept(tmp_path):
    small = ww.Experiment(SWEEP).with_(duration=4)
    controller = ww.controller("cwnd + growth / cwnd", "0.7 * max(cwnd, 2)")
    for experiment in [small.with_parts(window={"lossy": Aimd}), small.with_({"flows.lossy.protocol": controller})]:
        table = experiment.sweep(repetitions=1)
        assert table["goodput"] != small.sweep(repetitions=1)["goodput"]
        again = pickle.loads(pickle.dumps(experiment)).sweep(repetitions=1)
        assert table.to_pylist() == again.to_pylist()
        rows = ww.sweep(experiment, repetitions=1)
        assert rows.to_pylist() == table.to_pylist()
    with pytest.raises(TypeError, match="on_ack"):
        small.with_parts(window={"lossy": int})
    with pytest.raises(TypeError, match=r"flows\.GROUP\.protocol"):
        small.with_({"duration": Aimd})


def test_rows_of_tables():
    run = first().run()
    assert [row["name"] for row in run.flows] == run.flows["name"]
    assert run.flows[-1] == run.flows.to_pylist()[-1]
    with pytest.raises(IndexError, match="row 10 of a table of 10 rows"):
        run.flows[10]
    with pytest.raises(TypeError, match="columns by name"):
        run.flows[1.5]
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame(run.flows)["name"]) == run.flows["name"]


def test_gymnasium_finds_the_environment():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("windward.env:windward/Congestion-v0", interval=0.2)
    env.reset(seed=1)
    assert env.step(env.action_space.sample())[1] is not None


def test_the_page_says_what_was_judged(tmp_path):
    controller = ww.controller("cwnd + growth / cwnd", "0.7 * cwnd")
    found = ww.evaluate(mine=controller, only=["high-loss"], folder=tmp_path)
    page = json.loads((tmp_path / "evaluation.json").read_text())
    [judged] = page["judged"]
    assert "0.7 * cwnd" in judged["definition"] and "CRC-32" in judged["definition"]
    assert "0.7 * cwnd" in (tmp_path / "index.html").read_text()
    assert page["command"].startswith("windward.evaluate(mine=windward.controller(")
    scenarios = list(tmp_path.glob("*.toml"))
    assert scenarios and found.subjects == ["mine"]
    run = [sys.executable, "-m", "windward", "run", str(scenarios[0]), "--set", "duration=2s", "--set", "warmup=1s"]
    assert subprocess.run(run, capture_output=True).returncode == 0
