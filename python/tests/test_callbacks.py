"""The events of controllers: the order of calls, exact times, feedback, and the parts beside them."""

import functools
import itertools
import json
import pathlib
import pickle
import re
import subprocess
import sys

import pytest

import windward as ww

ROOT = pathlib.Path(__file__).parents[2]
FIRST = ROOT / "experiments/examples/first.toml"

#: A letter for each method, as in the patterns below.
LETTERS = {
    "on_congestion": "C", "on_error_loss": "E", "on_lost": "L", "on_spurious_losses": "S", "on_reset": "R",
    "on_rate_sample": "D", "on_ack": "A", "on_restart_from_idle": "I", "announce": "P",
}  # fmt: skip


class Recorder:
    """A fixed window that records each call."""

    window = 10.0
    calls: list = []

    def __init__(self, setup):
        self.setup = setup
        self.calls.clear()

    def hear(self, method, event=None):
        self.calls.append((method, event))
        return self.window

    on_ack = functools.partialmethod(hear, "on_ack")
    on_congestion = functools.partialmethod(hear, "on_congestion")
    on_error_loss = functools.partialmethod(hear, "on_error_loss")
    on_reset = functools.partialmethod(hear, "on_reset")
    on_rate_sample = functools.partialmethod(hear, "on_rate_sample")
    on_lost = functools.partialmethod(hear, "on_lost")
    on_spurious_losses = functools.partialmethod(hear, "on_spurious_losses")
    on_restart_from_idle = functools.partialmethod(hear, "on_restart_from_idle")

    @classmethod
    def of(cls, method):
        return [event for called, event in cls.calls if called == method]


def alone(protocol, group=None, **bottleneck):
    back = bottleneck.pop("back", {})
    link = {"rate": "5Mbit", "delay": "20ms", "queue": "20p", **bottleneck}
    access = {"rate": "100Mbit", "delay": "1ms"}
    return ww.Scenario(
        duration="5s",
        warmup="1s",
        dumbbell={"bottleneck": link, "access": access, "reverse_bottleneck": back},
        flows=[{"group": "u", "protocol": protocol, **(group or {})}],
    )


def within(window, base="upwind", **parts):
    return {"base": base, "window": window, **parts}


def instants(calls):
    """The calls of each instant as a word of letters."""
    now, words, spurious = None, [], ""
    for method, event in calls:
        # The news of spurious losses has no time of its own.
        if event is not None:
            at = getattr(event, "path", event).now_ps
            if at != now:
                words.append("")
            now = at
            words[-1] += spurious + LETTERS[method]
        spurious = "S" if event is None else ""
    return words


JITTER = {"jitter": {"amount": "20ms", "in_order": False}}
OUTAGES = {"gilbert_elliott": {"mean_good": "500ms", "mean_bad": "400ms", "loss_good": 0.01, "loss_bad": 1}}
CERTAIN = {"discrimination": "always"}
DOUBTS = {"discrimination": "never"}


@pytest.mark.parametrize(
    ("parts", "link", "heard"),
    [
        (DOUBTS, {"loss": 0.1}, "LEDA"),
        (CERTAIN, {"queue": "4p"}, "CLDA"),
        (DOUBTS, JITTER, "LESDA"),
        (CERTAIN, {"back": JITTER, **JITTER}, "CLSDA"),
        (CERTAIN, OUTAGES, "CLRDA"),
        ({"recovery": "rack", **DOUBTS}, JITTER, "LEDA"),
        ({"recovery": "rack", **DOUBTS}, OUTAGES, "LERDA"),
    ],
)
def test_calls_come_in_the_order_of_the_documentation(parts, link, heard):
    alone(within(Recorder, **parts), **link).run(seed=1)
    words = instants(Recorder.calls)
    # An ACK that a later one has overtaken lacks A, the recovery timer lacks D and A. The last ones come
    # before a packet leaves.
    order = re.compile("[CER]?L*S?R?D?A?[CE]*I?")
    assert [word for word in words if not order.fullmatch(word)] == []
    assert set(heard) <= set("".join(words))


def test_a_restart_from_idle_comes_before_the_packet():
    class Sender(Recorder):
        def announce(self, packet, limited):
            self.calls.append(("announce", None))

    letters = []
    for seed in range(1, 9):
        alone(within(Sender), {"size": "20kB"}, loss=0.3).run(seed=seed)
        letters.append("".join(LETTERS[method] for method, _ in Sender.calls))
    assert any("IP" in letters for letters in letters)
    assert all(re.fullmatch("([^I]|IP)*", letters) for letters in letters)


def test_times_are_seconds_and_whole_picoseconds():
    run = alone(within(Recorder), loss=0.05, jitter="5ms").run(seed=1)
    assert run.flows["packets_sent"][0] > 500
    for ack in Recorder.of("on_ack"):
        for name in ("now", "rtt", "srtt", "min_rtt", "sent"):
            exact = getattr(ack, f"{name}_ps")
            assert type(exact) is int and exact / 10**12 == getattr(ack, name)
    samples = [sample for sample in Recorder.of("on_rate_sample") if sample.rtt is not None]
    assert samples and all(sample.rtt_ps / 10**12 == sample.rtt for sample in samples)
    assert all(s.prior_in_flight == s.in_flight + s.newly_acked + s.newly_lost for s in samples)
    sent = {ack.packet_seq: ack.sent_ps for ack in Recorder.of("on_ack")}
    lost = Recorder.of("on_lost")
    assert lost and all(0 < packet.now_ps - packet.sent_ps < 10**12 for packet in lost)
    # Packets leave in the order of their numbers.
    times = sorted([*sent.items(), *((packet.number, packet.sent_ps) for packet in lost)])
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(times))


def test_a_window_of_news_is_in_force_at_once():
    class Early(Recorder):
        window = 12.0

        def on_lost(self, packet):
            self.calls.append(("on_lost", packet))
            return 6.0

    alone(within(Early), loss=0.1).run(seed=1)
    # A timer finds losses too.
    assert any("L" in word and "A" not in word for word in instants(Early.calls))
    assert {ack.cwnd for ack in Early.of("on_ack")[1:]} == {6.0, 12.0}


class Silent:
    """A window that does not change."""

    negotiates_ecn = True
    pacing_rate = None

    def __init__(self, setup):
        self.cwnd = 20.0

    def on_ack(self, ack):
        return self.cwnd

    on_congestion = on_error_loss = on_reset = on_ack

    def on_rate_sample(self, sample):
        pass


def test_marks_are_heard_by_classes_that_negotiate_them():
    codel = {"queue": "100p", "aqm": {"kind": "codel", "ecn": True}}

    class Marked(Recorder):
        window = 60.0
        negotiates_ecn = True

    class Unmarked(Marked):
        negotiates_ecn = False

    class Deaf(Marked):
        answers_ecn = False

    for controller, marks in [(Marked, True), (Unmarked, False), (Deaf, False)]:
        alone(within(controller), **codel).run(seed=1)
        assert any(event.marked for event in controller.of("on_congestion")) == marks
        assert any(ack.marked for ack in controller.of("on_ack")) == marks
    with pytest.raises(TypeError, match="negotiates_ecn of .*Vague.* must be True or False"):
        alone(within(type("Vague", (Recorder,), {"negotiates_ecn": "yes"})))


def test_feedback_of_routers_is_heard_and_asked_for():
    class Asks(Recorder):
        window = 40.0
        limited = []

        def announce(self, packet, limited):
            assert packet.is_data and packet.size == self.setup.packet_size == 1000
            self.limited.append(limited)
            return {"kind": "xcp", "rtt": 0.05, "inter_packet": 0.05 / self.window, "delta": 1e9}

    alone(within(Asks), router="xcp").run(seed=1)
    headers = [ack.header for ack in Asks.of("on_ack")]
    assert all(header["kind"] == "xcp" and header["feedback"] < 1e9 for header in headers)
    assert {True} <= set(Asks.limited)

    class Turns(Recorder):
        def __init__(self, setup):
            super().__init__(setup)
            assert setup.feedback == "help"

    alone(within(Turns), router="estcp").run(seed=1)
    headers = [ack.header for ack in Turns.of("on_ack") if ack.header]
    assert {header["kind"] for header in headers} == {"xcp", "estcp", "survival"}
    assert any(header["kind"] == "estcp" and header["phase"] > 0 for header in headers)
    Turns.window = 40.0
    alone(within(Turns), router="xtcp").run(seed=1)
    assert any(ack.flagged for ack in Turns.of("on_ack"))


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"on_rate_sample": lambda self, sample: "many"}, r"on_rate_sample returned 'many': expected None or a window"),
        ({"on_lost": lambda self, packet: 1e300}, r"on_lost returned 1e\+300: expected None or a window"),
        ({"on_spurious_losses": lambda self: float("nan")}, "on_spurious_losses returned nan"),
        ({"on_ack": lambda self, ack: None}, "on_ack returned None: expected a window"),
        ({"announce": lambda self, packet, limited: {"kind": "xcp"}}, "announce returned .*expected None"),
        ({"announce": lambda self, packet, limited: 5}, "announce returned 5"),
        (
            {
                "announce": lambda self, packet, limited: {
                    "kind": "xcp", "rtt": 1, "inter_packet": 1, "delta": float("inf"),
                }
            },
            "announce returned",
        ),
        ({"limits_itself": "perhaps"}, "limits_itself must be True or False"),
        ({"pacing_rate": float("nan")}, "pacing_rate is nan"),
    ],
)  # fmt: skip
def test_what_is_no_answer_ends_the_run(attributes, says):
    wrong = type("Wrong", (Recorder,), attributes)
    with pytest.raises(TypeError, match=says) as caught:
        alone(within(wrong), **JITTER).run(seed=1)
    assert 0 <= caught.value.simulated_time < 5


@pytest.mark.parametrize("method", ["on_lost", "on_spurious_losses", "on_rate_sample", "announce"])
def test_an_exception_of_any_method_ends_the_run(method):
    def raises(self, *arguments):
        raise ZeroDivisionError("once")

    wrong = type("Wrong", (Recorder,), {method: raises})
    with pytest.raises(ZeroDivisionError, match="once"):
        alone(within(wrong), **JITTER).run(seed=1)


def test_a_class_limits_itself():
    class Limits(Recorder):
        limits_itself = True

    alone(within(Limits)).run(seed=1)
    assert all(sample.is_app_limited for sample in Limits.of("on_rate_sample")[20:])
    alone(within(Recorder)).run(seed=1)
    assert not any(sample.is_app_limited for sample in Recorder.of("on_rate_sample")[20:])


def test_a_class_is_a_window_wherever_a_protocol_is():
    ours = within(Silent)
    constructed = alone(ours)
    changed = alone("upwind").with_({"flows.u.protocol": ours})
    inside = alone("upwind").with_({"flows.u.protocol": {"base": "upwind"}}).with_(
        {"flows.u.protocol": ours}
    )
    prints = {scenario.run(seed=2).fingerprint for scenario in (constructed, changed, inside)}
    assert len(prints) == 1
    assert constructed.run(seed=2).flows["protocol"] == ["upwind+Silent"]
    # Everything else is of the base: SACK recovery is another.
    assert alone(within(Silent, "bbr")).run(seed=2).fingerprint == alone(Silent).run(seed=2).fingerprint
    again = pickle.loads(pickle.dumps(changed))
    assert again == changed and again.run(seed=2).fingerprint in prints
    # The class goes with the change.
    assert changed.with_({"flows.u.protocol": "cubic"}).run().flows["protocol"] == ["cubic"]
    with pytest.raises(TypeError, match="a controller is the value of flows.GROUP.protocol, or of its window"):
        alone("upwind").with_({"flows.u.protocol": {"base": "upwind", "recovery": Silent}})
    with pytest.raises(ww.ScenarioError, match="on_rate_sample and on_lost are not called"):
        alone(within(Silent, "cubic"))


SWEEP = """
duration = "4s"
warmup = "1s"
[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "20p" }
access = { rate = "100Mbit", delay = "1ms" }
[[flows]]
group = "u"
protocol = "upwind"
[experiment]
id = "own"
title = "A window of one's own"
[[experiment.axes]]
name = "queue"
key = "dumbbell.bottleneck.queue"
values = ["10p", "40p"]
[experiment.metrics]
goodput = "goodput(u)"
"""
SUITE = ROOT / "crates/cli/tests/small-suite/suite.toml"


def test_a_window_is_swept_and_evaluated():
    experiment = ww.Experiment(SWEEP).with_({"flows.u.protocol": within(Silent)})
    rows = experiment.sweep(repetitions=2)["goodput"]
    by_hand = ww.Experiment(SWEEP).with_({"flows.u.protocol": within(Silent)}).sweep(repetitions=2, threads=1)
    assert rows == by_hand["goodput"] and len(rows) == 4
    assert rows != ww.Experiment(SWEEP).sweep(repetitions=2)["goodput"]
    again = pickle.loads(pickle.dumps(experiment))
    assert again.sweep(repetitions=2)["goodput"] == rows
    found = ww.evaluate(mine=within(Silent), suite=str(SUITE), only="some")
    assert found.subjects == ["mine"]
    with pytest.raises(TypeError, match="is not a subject"):
        ww.evaluate(within(Silent), suite=str(SUITE))
    raises = type("Raises", (Silent,), {"on_rate_sample": lambda self, sample: 1 / 0})
    with pytest.raises(ZeroDivisionError):
        ww.evaluate(mine=within(raises), suite=str(SUITE), only="some")


CLASS = """
class Own:
    negotiates_ecn = True
    pacing_rate = None

    def __init__(self, setup):
        print("forged")

    def on_ack(self, ack):
        return {answer}

    on_congestion = on_error_loss = on_reset = on_ack

    def on_rate_sample(self, sample):
        pass
"""


def windward(folder, *words):
    command = [sys.executable, "-m", "windward", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_the_command_line_runs_a_class(tmp_path):
    (tmp_path / "own.py").write_text(CLASS.format(answer="20.0"))
    (tmp_path / "scenario.toml").write_text(SWEEP)
    change = 'flows.u.protocol={ base = "upwind", window = "own.py:Own" }'
    status, out, err = windward(tmp_path, "run", "scenario.toml", "--json", "--set", change)
    # The text that a class prints is not part of the result.
    assert (status, err) == (0, "forged\n")
    found = json.loads(out)
    assert found["flows"][0]["protocol"] == "upwind+Own"
    ours = ww.Scenario(SWEEP.partition("[experiment]")[0]).with_({"flows.u.protocol": within(Silent)})
    assert found["fingerprint"] == ours.run().fingerprint
    words = ["--suite", str(SUITE), "--only", "some", "--out", "out"]
    status, out, err = windward(tmp_path, "evaluate", 'mine={ base = "upwind", window = "own.py:Own" }', *words)
    assert status == 0 and "mine meets" in out, out + err


@pytest.mark.parametrize(
    ("answer", "change", "status", "says"),
    [
        ("1 / 0", "own.py:Own", 1, "Own: ZeroDivisionError: division by zero, in "),
        ("None", "own.py:Own", 1, "Own: TypeError: Own.on_ack returned None"),
        ("20.0", "own.py:Owm", 2, "own.py has no `Owm` (did you mean `Own`?)"),
        ("20.0", "absent.py:Own", 2, "absent.py: cannot read"),
        ("20.0", "own.py", 2, "name the class too"),
    ],
)
def test_a_class_that_fails_fails_the_command(tmp_path, answer, change, status, says):
    (tmp_path / "own.py").write_text(CLASS.format(answer=answer))
    (tmp_path / "scenario.toml").write_text(SWEEP)
    done = windward(tmp_path, "run", "scenario.toml", "--set", f"flows.u.protocol={change}")
    assert done[:2] == (status, "") and says in done[2], done


def test_a_file_names_no_code(tmp_path):
    (tmp_path / "own.py").write_text(CLASS.format(answer="20.0"))
    (tmp_path / "scenario.toml").write_text(SWEEP.replace('"upwind"', '"own.py:Own"'))
    status, out, err = windward(tmp_path, "run", "scenario.toml")
    assert (status, out) == (2, "") and "files run no code" in err and "forged" not in err, err
