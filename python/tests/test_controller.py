"""Congestion controllers of two expressions."""

import math
import pathlib
import pickle

import pytest

import windward as ww

FIRST = pathlib.Path(__file__).parents[2] / "experiments/examples/first.toml"


def first(**changes):
    return ww.Scenario.read(FIRST).with_(**{"duration": "8s", "warmup": "1s", **changes})


def with_controller(*expressions, **options):
    return first().with_parts(window={"*": ww.controller(*expressions, **options)})


def test_reno_by_expression_is_the_law_in_rust():
    for protocol in ["newreno", "sack", "reno"]:
        scenario = first(**{"flows.*.protocol": protocol})
        controller = ww.controller(on_ack="cwnd + growth / cwnd", on_loss="in_flight / 2", name="ours")
        ours = scenario.with_parts(window={"*": controller}).run(seed=3)
        assert ours.fingerprint == scenario.run(seed=3).fingerprint
        assert set(ours.flows["protocol"]) == {"ours"}


def test_what_an_expression_says_decides():
    plain = with_controller("cwnd + 1 / cwnd", "cwnd / 2").run(seed=1)
    bold = with_controller("cwnd + 4 / cwnd", "cwnd * 0.9").run(seed=1)
    assert bold.links["dropped"][0] > 2 * plain.links["dropped"][0]
    # A window that is always the same: 4 packets of 1040 bytes or more an RTT of 120 ms or more.
    fixed = with_controller("4", "4", slow_start=False).with_({"flows.*.initial_window": 4}, duration="20s")
    run = fixed.run(seed=1)
    assert run.links["dropped"][0] == 0
    assert max(run.flows["goodput_bps"]) <= 4 * 1500 * 8 / 0.12


class Asked:
    """The same expressions in Python."""

    def __init__(self, setup):
        self.cwnd = setup.initial_window
        self.ssthresh = math.inf
        self.lost_at, self.loss_cwnd = 0.0, setup.initial_window

    def on_ack(self, ack):
        if ack.allows_growth:
            if self.cwnd < self.ssthresh:
                self.cwnd += ack.growth
            else:
                self.cwnd = self.grown(ack)
        return self.cwnd

    def reduced(self, path):
        value = self.after_loss(path)
        self.lost_at, self.loss_cwnd = path.now, self.cwnd
        return max(2.0, value)

    def on_congestion(self, congestion):
        self.cwnd = self.ssthresh = self.reduced(congestion.path)
        return self.cwnd

    def on_reset(self, reset):
        if not reset.repeated:
            self.ssthresh = self.reduced(reset.path)
        self.cwnd = reset.window_after(self.cwnd)
        return self.cwnd


class LikeCubic(Asked):
    def grown(self, ack):
        t = ack.now - self.lost_at
        return min(self.cwnd + 1, self.loss_cwnd + 0.4 * (t - 1.0) * (t - 1.0) * (t - 1.0))

    def after_loss(self, path):
        return 0.7 * self.cwnd


class ByDelay(Asked):
    def grown(self, ack):
        queued = ack.rtt - ack.min_rtt
        return self.cwnd + (1 / self.cwnd if 0.02 >= queued else -0.5 / self.cwnd)

    def after_loss(self, path):
        return max(path.in_flight / 2, path.srtt)


@pytest.mark.parametrize(
    ("controller", "on_ack", "on_loss"),
    [
        (
            LikeCubic,
            "min(cwnd + 1, loss_cwnd + 0.4 * (since_loss - 1) * (since_loss - 1) * (since_loss - 1))",
            "0.7 * cwnd",
        ),
        (
            ByDelay,
            "cwnd + if(at_least(0.02, rtt - min_rtt), 1 / cwnd, -0.5 / cwnd)",
            "max(in_flight / 2, srtt)",
        ),
    ],
)
def test_variables_are_what_a_law_in_python_hears(controller, on_ack, on_loss):
    ours = with_controller(on_ack, on_loss).run(seed=5)
    assert ours.fingerprint == first().with_parts(window={"*": controller}).run(seed=5).fingerprint
    assert ours.fingerprint != first().run(seed=5).fingerprint


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        ("cwnd + pow(cwnd, -1)", "cwnd + 1 / cwnd"),
        ("cwnd + sqrt(1) / cwnd", "cwnd + 1 / cwnd"),
        ("cwnd + cbrt(8) / cwnd", "cwnd + 2 / cwnd"),
        ("cwnd + exp(0) / cwnd", "cwnd + 1 / cwnd"),
        ("cwnd + ln(exp(1)) / cwnd", "cwnd + 1 / cwnd"),
        ("if(0, 1, if(2, cwnd + 1 / cwnd, 5))", "cwnd + 1 / cwnd"),
        ("cwnd + probability * delivered / delivered / cwnd", "cwnd + 1 / cwnd"),
        ("min(now * 1e9, ssthresh * 1e9, cwnd + 1 / cwnd)", "cwnd + 1 / cwnd"),
    ],
)
def test_functions_are_those_of_mathematics(expression, same):
    ours = with_controller(expression, "cwnd / 2").run(seed=2)
    assert ours.fingerprint == with_controller(same, "cwnd / 2").run(seed=2).fingerprint


@pytest.mark.parametrize(
    ("on_ack", "on_loss", "message"),
    [
        ("cwnd +", "cwnd / 2", 'on_ack = "cwnd \\+": .*ends where'),
        ("cwnd", "cwn / 2", 'on_loss = .*did you mean `cwnd`'),
        ("cwnd ** 2", "cwnd", "expected a number"),
        ("sqrt(1, 2)", "cwnd", "takes 1, not 2"),
        ("sqrt", "cwnd", "expected|ends where"),
        ("open('x')", "cwnd", "not a variable or function of controllers"),
        ("(" * 100 + "1" + ")" * 100, "cwnd", "nests too deeply"),
        ("pow(1, " * 100 + "1" + ")" * 100, "cwnd", "nests too deeply"),
        ("", "cwnd", "ends where"),
    ],
)
def test_what_is_no_expression_is_refused(on_ack, on_loss, message):
    with pytest.raises(ValueError, match=message):
        ww.controller(on_ack, on_loss)


def test_what_is_no_number_ends_the_run():
    for on_ack, on_loss, window, by in [
        ("cwnd + 1 / cwnd", "sqrt(-cwnd)", "NaN", r'on_loss = "sqrt\(-cwnd\)"'),
        ("cwnd / 0", "cwnd / 2", "inf", 'on_ack = "cwnd / 0"'),
        ("-cwnd", "cwnd / 2", "-[0-9.]+", 'on_ack = "-cwnd"'),
    ]:
        with pytest.raises(ValueError, match=f"a window of {window} packets .* by {by}") as caught:
            with_controller(on_ack, on_loss).run()
        assert 0 < caught.value.simulated_time < 8


def test_laws_are_pickled_and_compared_by_what_they_say():
    controller = ww.controller("cwnd + 1", "cwnd / 2", slow_start=False, name="bold")
    again = pickle.loads(pickle.dumps(controller))
    assert again == controller and hash(again) == hash(controller)
    assert controller != ww.controller("cwnd + 1", "cwnd / 2", name="bold")
    assert repr(controller) == 'windward.controller(on_ack="cwnd + 1", on_loss="cwnd / 2", slow_start=False, name="bold")'
    scenario = first().with_parts(window={"lossy": controller})
    assert pickle.loads(pickle.dumps(scenario)) == scenario
    with pytest.raises(TypeError, match="name"):
        ww.controller("cwnd", "cwnd", name="")
