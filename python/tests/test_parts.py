"""Parts written in Python: equal to those in Rust, and errors in them."""

import math
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback

import pytest

import windward as ww

FIRST = pathlib.Path(__file__).parents[2] / "experiments/examples/first.toml"


def first(**changes):
    return ww.Scenario.read(FIRST).with_(**{"duration": "8s", "warmup": "1s", **changes})


class Reno:
    """RFC 5681, with the same operations as the congestion controller ``reno``."""

    def __init__(self, setup):
        self.cwnd = setup.initial_window
        self.ssthresh = math.inf

    def on_ack(self, ack):
        if ack.allows_growth:
            # One packet an acknowledgment, and that share of one in congestion avoidance.
            self.cwnd += ack.growth if self.cwnd < self.ssthresh else ack.growth / self.cwnd
        return self.cwnd

    def on_congestion(self, congestion):
        self.ssthresh = max(2.0, congestion.path.in_flight * congestion.kept(0.5))
        self.cwnd = self.ssthresh
        return self.cwnd

    def on_reset(self, reset):
        if not reset.repeated:
            self.ssthresh = max(2.0, reset.path.in_flight * reset.kept(0.5))
        self.cwnd = reset.window_after(self.cwnd)
        return self.cwnd


class Coin:
    def destroys(self, now, packet, coin):
        return coin < 0.05


class Twenty:
    def __init__(self, place):
        assert place.limit_packets == 50 and place.rate_bps == 5_000_000

    def on_enqueue(self, queue, packet):
        return "drop" if queue.packets >= 20 else "pass"


class TwentyThatLeave(Twenty):
    """The same, held until it leaves."""

    def on_dequeue(self, queue, packet, waited):
        assert waited >= 0
        return None


class Never:
    def __init__(self, setup):
        pass

    def judge(self, loss):
        return 0.0


def test_a_law_in_python_is_the_law_in_rust():
    ours = first().with_parts(window={"*": Reno}).run(seed=3)
    theirs = first().run(seed=3)
    assert ours.fingerprint == theirs.fingerprint
    assert ours.flows["protocol"] == ["Reno"] * 10
    only = first().with_parts(window={"lossy": Reno}).run(seed=3)
    assert only.flows["protocol"] == ["newreno"] * 5 + ["Reno"] * 5


def test_a_coin_in_python_falls_as_in_rust():
    links = [f"lossy-{number}-last-hop" for number in range(1, 6)]
    clean = first(**{"flows.lossy.last_hop.loss": 0})
    ours = clean.with_parts(loss={link: Coin for link in links}).run(seed=2)
    assert ours.fingerprint == first().run(seed=2).fingerprint
    assert ours.fingerprint != clean.run(seed=2).fingerprint


@pytest.mark.parametrize("queue", [Twenty, TwentyThatLeave])
def test_a_queue_in_python_is_the_queue_in_rust(queue):
    ours = first().with_parts(aqm={"bottleneck": queue}).run(seed=2)
    theirs = first(**{"dumbbell.bottleneck.queue": "20p"}).run(seed=2)
    assert ours.fingerprint == theirs.fingerprint


def test_discrimination_in_python_is_discrimination_in_rust():
    protocol = {"flows.*.protocol": {"base": "newreno", "discrimination": "never"}}
    ours = first().with_parts(discrimination={"*": Never}).run(seed=2)
    assert ours.fingerprint == first(**protocol).run(seed=2).fingerprint
    assert ours.fingerprint != first().run(seed=2).fingerprint


def test_scenarios_with_parts_are_pickled_by_the_name_of_the_class():
    scenario = first().with_parts(window={"lossy": Reno}, aqm={"bottleneck": Twenty})
    again = pickle.loads(pickle.dumps(scenario))
    assert again == scenario and again != first()
    assert again.run().fingerprint == scenario.run().fingerprint


def controller(answer, begin=lambda setup: None):
    """A controller that returns this at its tenth acknowledgment."""

    class Own:
        def __init__(self, setup):
            begin(setup)
            self.acks = 0

        def on_ack(self, ack):
            self.acks += 1
            return answer(ack) if self.acks == 10 else 4.0

    return Own


def raises(_):
    raise LookupError("no window today")


def test_an_exception_comes_out_with_its_traceback_and_the_time():
    with pytest.raises(LookupError, match="no window today") as caught:
        first().with_parts(window={"clean": controller(raises)}).run()
    assert 0 < caught.value.simulated_time < 8
    text = "".join(traceback.format_exception(caught.value))
    assert "in raises" in text
    if sys.version_info >= (3, 11):
        assert "in Own, at 0." in text and "of simulated time" in text
    # Later runs are not affected.
    assert first().run().fingerprint == first().run().fingerprint


@pytest.mark.parametrize("answer", [None, "wide", math.nan, [], object()])
def test_answers_that_are_no_window_are_refused(answer):
    with pytest.raises(TypeError, match=r"Own\.on_ack returned .*expected a window in packets"):
        first().with_parts(window={"clean": controller(lambda ack: answer)}).run()


@pytest.mark.parametrize("answer", [-5, 0, 0.5, 2**20 + 1, math.inf])
def test_windows_out_of_range_are_refused(answer):
    with pytest.raises(TypeError, match="expected a window in packets, from 1 to 1048576"):
        first().with_parts(window={"clean": controller(lambda ack: answer)}).run()


def test_a_constructor_that_raises_stops_the_run_before_it_begins():
    with pytest.raises(LookupError):
        first().with_parts(window={"clean": controller(None, begin=raises)}).run()
    with pytest.raises(TypeError):
        first().with_parts(loss={"bottleneck": NeedsMore}).run()


class NeedsMore:
    def __init__(self, what):
        pass

    def destroys(self, now, packet, coin):
        return False


class Sometimes:
    def __init__(self, setup):
        pass

    def judge(self, loss):
        return 1.5


class Perhaps:
    def __init__(self, place):
        pass

    def on_enqueue(self, queue, packet):
        return "perhaps"


class Wrong:
    def destroys(self, now, packet, coin):
        return "no"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (dict(discrimination={"lossy": Sometimes}), "from 0 to 1"),
        (dict(aqm={"bottleneck": Perhaps}), '"pass", "mark" or "drop"'),
        (dict(loss={"bottleneck": Wrong}), "True or False"),
    ],
)
def test_verdicts_that_are_none_are_refused(parts, message):
    with pytest.raises(TypeError, match=message):
        first().with_parts(**parts).run()


def test_parts_go_where_there_is_a_place():
    with pytest.raises(ValueError, match='did you mean "lossy"'):
        first().with_parts(window={"losy": Reno})
    with pytest.raises(ValueError, match="no link"):
        first().with_parts(aqm={"nowhere": Twenty})
    with pytest.raises(TypeError, match="not a class with a method on_ack"):
        first().with_parts(window={"lossy": Coin})
    with pytest.raises(TypeError, match="window, discrimination, loss, aqm"):
        first().with_parts(routers={})
    with pytest.raises(TypeError, match="dictionary"):
        first().with_parts(window=Reno)


def test_a_law_may_run_another_simulation_but_not_its_own():
    inner = []

    def another(ack):
        inner.append(first(duration="2s").run().fingerprint)
        return ack.cwnd

    run = first().with_parts(window={"clean": controller(another)}).run()
    assert len(inner) == 5 and run.fingerprint
    simulation = None

    def its_own(ack):
        simulation.advance(5)

    simulation = ww.Simulation(first().with_parts(window={"clean": controller(its_own)}))
    with pytest.raises(RuntimeError, match="running"):
        simulation.advance(2)


def test_a_law_that_takes_its_time_changes_nothing():
    others = []

    def sleeps(ack):
        # Another thread that waits for the interpreter gets it in the meantime.
        other = threading.Thread(target=lambda: others.append(first(duration="2s").run()))
        other.start()
        other.join(timeout=60)
        time.sleep(0.05)
        return 4.0

    slow = first().with_parts(window={"clean": controller(sleeps)}).run()
    quick = first().with_parts(window={"clean": controller(lambda ack: 4.0)}).run()
    assert slow.fingerprint == quick.fingerprint and len(others) == 5


def test_ctrl_c_reaches_a_run_with_parts():
    program = (
        "import windward as ww, sys\n"
        f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
        "from test_parts import Reno\n"
        f"scenario = ww.Scenario.read({str(FIRST)!r}).with_(duration='100000s')\n"
        "print('running', flush=True)\n"
        "try:\n    scenario.with_parts(window={'*': Reno}).run()\n"
        "except KeyboardInterrupt:\n    sys.exit(17)\n"
    )
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True)
    try:
        assert child.stdout.readline() == "running\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            # Python itself drops what is raised in a finalizer, and says so; then a second one ends it.
            child.send_signal(signal.SIGINT)
            child.wait(timeout=30)
            assert "Exception ignored" in child.stderr.read()
        assert child.returncode == 17
    finally:
        child.kill()
        child.wait()
