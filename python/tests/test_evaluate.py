"""Controllers in Python, evaluated by RFC 9743."""

import json
import pathlib
import subprocess
import sys

import pytest

import windward as ww

ROOT = pathlib.Path(__file__).parents[2]
LAWS = ROOT / "examples" / "python" / "controllers.py"


class OwnReno:
    """Growth and reduction as in the row ``newreno``."""

    def __init__(self, setup):
        self.cwnd = setup.initial_window
        self.ssthresh = float("inf")

    def on_ack(self, ack):
        if ack.allows_growth:
            growth = ack.growth
            if self.cwnd < self.ssthresh:
                # An acknowledgment of several packets may lead beyond slow start.
                slow_start = growth if growth <= 1 else min(growth, self.ssthresh - self.cwnd)
                self.cwnd += slow_start
                growth -= slow_start
            if growth > 0:
                self.cwnd += growth / self.cwnd
        return self.cwnd

    def on_congestion(self, congestion):
        self.ssthresh = self.cwnd = max(2, congestion.path.in_flight * congestion.kept(0.5))
        return self.cwnd

    def on_reset(self, reset):
        if not reset.repeated:
            self.ssthresh = max(2, reset.path.in_flight * reset.kept(0.5))
        self.cwnd = reset.window_after(self.cwnd)
        return self.cwnd


class Flood:
    """Never reduces its window."""

    def __init__(self, setup):
        self.cwnd = 500.0

    def on_ack(self, ack):
        return self.cwnd

    def on_congestion(self, congestion):
        return self.cwnd


class Late(OwnReno):
    """Fails after a second."""

    def on_ack(self, ack):
        return 1 / 0 if ack.now > 1 else super().on_ack(ack)


def command(*words, folder):
    words = [sys.executable, "-m", "windward", "evaluate", *words]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def test_a_law_in_python_gets_the_verdicts_of_the_same_law_in_rust(tmp_path):
    reno = ww.controller(on_ack="cwnd + growth / cwnd", on_loss="in_flight / 2", name="by-expression")
    row = "row={ base = 'cubic', window = 'reno' }"
    found = ww.evaluate(OwnReno, reno, row, only=["high-loss"], folder=tmp_path)
    assert found.subjects == ["OwnReno", "by-expression", "row"]
    verdicts = [found.verdicts(subject) for subject in found.subjects]
    assert verdicts[0] == verdicts[1] == verdicts[2] != {}
    claims = [claim for criterion in found.criteria for claim in criterion["claims"]]
    assert claims
    for claim in claims:
        values = {answer["measured"] for answer in claim["answers"]}
        assert len(values) == 1, claim
    assert (tmp_path / "index.html").exists()
    assert "<td>meets</td>" in found._repr_html_() or "<td>does not</td>" in found._repr_html_()


def test_a_law_that_never_gives_way_is_found_out():
    found = ww.evaluate(flood=Flood, only=["high-loss"])
    assert found.verdicts("flood") == {"high-loss": "does not"}
    assert found.general_use == {"flood": False}
    with pytest.raises(KeyError, match="the subjects are flood"):
        found.verdicts("cubic")


def fixed(value):
    """A class whose window is always this."""
    return type("Fixed", (), {"__init__": lambda self, setup: None, "on_ack": lambda self, ack: value})


@pytest.mark.parametrize("value", [0, 0.5, -3, float("nan"), float("inf"), 1e300, None, "ten"])
def test_an_invalid_window_is_an_error_with_value_and_time(value):
    with pytest.raises(TypeError, match=r"Fixed.on_ack returned .*: expected a window in packets") as raised:
        ww.evaluate(fixed(value), only=["high-loss"])
    assert raised.value.simulated_time > 0


class Moody(OwnReno):
    """Keeps state from one connection to the next."""

    made = 0

    def __init__(self, setup):
        super().__init__(setup)
        Moody.made += 1
        self.cwnd += Moody.made


def test_two_runs_that_differ_are_an_error():
    with pytest.raises(ValueError, match="Moody: it is not deterministic"):
        ww.evaluate(Moody, only=["high-loss"])


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"quik": True}, "did you mean quick"),
        ({"seeds": 3}, "did you mean seed"),
        ({"sensitivty": True}, "did you mean sensitivity"),
        ({"out": "folder"}, "did you mean folder"),
        ({"wholly_other": 7}, "its keywords are against"),
    ],
)
def test_an_unknown_keyword_names_the_right_one(keywords, says):
    with pytest.raises(TypeError, match=says):
        ww.evaluate(OwnReno, only=["high-loss"], **keywords)


def test_the_options_of_the_command_are_keywords(tmp_path):
    junit = tmp_path / "junit.xml"
    changes = {"links.link.delay": "10ms"}
    found = ww.evaluate(OwnReno, only=["high-loss"], quick=True, seed=7, set=changes, junit=junit)
    assert found.subjects == ["OwnReno"]
    assert "21 of 22 were not" in found.summary[0]
    assert junit.read_text("utf-8").startswith("<?xml")
    with pytest.raises(ww.ScenarioError, match="links.link.dely"):
        ww.evaluate(OwnReno, only=["high-loss"], set={"links.link.dely": "10ms"})


def test_what_a_law_raises_comes_out_with_its_time():
    with pytest.raises(ZeroDivisionError) as raised:
        ww.evaluate(Late, only=["high-loss"])
    assert 1 < raised.value.simulated_time < 1.5
    # An earlier error is not reported again.
    assert ww.evaluate("newreno", only=["high-loss"]).subjects == ["newreno"]


@pytest.mark.parametrize(
    ("subjects", "error", "says"),
    [
        ((), ww.ScenarioError, "no subject"),
        (("cubik",), ww.ScenarioError, "cubic"),
        ((42,), TypeError, "is not a subject"),
        ((type("Silent", (), {}),), TypeError, "on_ack"),
        ((type("cubic", (OwnReno,), {}),), ValueError, "of the table"),
        ((OwnReno, OwnReno), ww.ScenarioError, "twice"),
    ],
)
def test_what_is_no_subject_is_refused(subjects, error, says):
    with pytest.raises(error, match=says):
        ww.evaluate(*subjects, only=["high-loss"])


def test_the_command_line_takes_laws_from_files(tmp_path):
    words = [f"own={LAWS}:Careful", f"{LAWS}:mild", "--only", "high-loss", "--out", "page"]
    done = command(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "page" / "evaluation.json").read_text("utf-8"))
    assert found["subjects"] == ["own", "mild"]
    assert f"own={LAWS}:Careful" in found["command"]


def test_resuming_sees_that_the_file_of_a_law_has_changed(tmp_path):
    controller = tmp_path / "mine.py"
    text = LAWS.read_text("utf-8")
    # It fails in the second run, so that there is something to resume.
    late = text.replace("        if ack.allows_growth", "        LAST[0] += 1\n        assert LAST[0] < 9000\n        if ack.allows_growth")
    controller.write_text("LAST = [0]\n" + late, "utf-8")
    words = ["mine.py:Careful", "--only", "high-loss", "--threads", "1"]
    done = command(*words, folder=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "Careful meets no criterion: AssertionError" in done.stdout and "mine.py:" in done.stdout
    controller.write_text(text, "utf-8")
    done = command(*words, "--resume", folder=tmp_path)
    assert done.returncode == 2, done.stdout
    assert "another run" in done.stderr or "nothing to resume" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("controller", "says"),
    [
        ("mine.py:Own", "there is no file mine.py"),
        (f"{LAWS}:Carefull", "did you mean `Careful`?"),
        (f"{LAWS}", "name the class"),
        (f"{LAWS}:ww", "not a class with a method on_ack"),
        (f"cubic={LAWS}:Careful", "of the table"),
    ],
)
def test_a_law_that_is_none_is_refused_with_its_reason(controller, says, tmp_path):
    done = command(controller, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
