"""Controllers in Python that raise, hang or print: ``windward evaluate`` gives a verdict on each.

What any foreign code can do to its process is tested with libraries, in crates/cli/tests/cli/hostile.rs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a class can end all that it started only there")

CLASS = """
import os, signal, sys, time

{top}

class Own:
    def __init__(self, setup):
        self.window = setup.initial_window

    def on_ack(self, ack):
        {body}
        self.window += ack.growth / self.window
        return self.window

    def on_congestion(self, congestion):
        self.window = max(self.window / 2, 2.0)
        return self.window
"""

#: A suite of one experiment that takes milliseconds.
SUITE = Path(__file__).parents[2] / "crates/cli/tests/small-suite"


def _started(folder: Path, body: str = "pass", top: str = "") -> subprocess.Popen[str]:
    (folder / "own.py").write_text(CLASS.format(top=top, body=body))
    suite = str(SUITE / "suite.toml")
    words = ["evaluate", "own.py:Own", "--suite", suite, "--only", "some", "--out", "out"]
    return subprocess.Popen(
        [sys.executable, "-m", "windward", *words],
        cwd=folder, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _left(folder: Path) -> list[str]:
    """Processes whose working directory is that one."""
    return [p.name for p in Path("/proc").glob("[0-9]*") if _cwd(p) == str(folder)]


def _cwd(process: Path) -> str:
    try:
        return os.readlink(process / "cwd")
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("body", "top", "says"),
    [
        ("sys.exit(0)", "", "SystemExit"),
        ("raise ValueError('no')", "", "ValueError: no"),
        ("while True: pass", "", "on_ack does not return"),
        ("time.sleep(1000)", "", "on_ack does not return"),
        ("pass", "while True: pass", "loading does not return"),
        ("type(self).__del__ = lambda self: time.sleep(1000)", "", "does not return"),
    ],
)
def test_what_a_class_does_in_python_is_a_verdict(tmp_path: Path, body: str, top: str, says: str) -> None:
    process = _started(tmp_path, body, top)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    assert "Own meets no criterion: " in out and says in out, out + err
    assert (tmp_path / "out" / "index.html").is_file()
    assert _left(tmp_path) == []


def test_an_exit_at_import_is_named(tmp_path: Path) -> None:
    process = _started(tmp_path, "pass", "sys.exit(0)")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err == "error: own.py:Own: own.py: SystemExit: 0\n"


def test_what_a_class_prints_is_no_result(tmp_path: Path) -> None:
    out, err = _started(tmp_path, "print('forged')").communicate(timeout=120)
    assert "forged" not in out and "\n  | forged\n" in err
    assert any(line.startswith("1.1 ") and line.endswith(" meets") for line in out.splitlines()), out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_ends_an_endless_loop(tmp_path: Path, number: signal.Signals, group: bool) -> None:
    process = _started(tmp_path, "while True: pass")
    time.sleep(3)
    (os.killpg if group else os.kill)(process.pid, number)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    # Half a second on an idle machine.
    assert time.monotonic() - began < 5
    assert (process.returncode, out, err) == (130, "", "error: interrupted\n")
    assert _left(tmp_path) == []
    assert not (tmp_path / "out").exists()


def test_ctrl_c_ends_an_endless_loop_in_this_process(tmp_path: Path) -> None:
    process = _started(tmp_path)
    process.communicate(timeout=120)
    (tmp_path / "own.py").write_text(CLASS.format(top="", body="while True: pass"))
    text = f"import windward, own; windward.evaluate(own.Own, suite={str(SUITE / 'suite.toml')!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", text], cwd=tmp_path, text=True, stderr=subprocess.PIPE, start_new_session=True
    )
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.endswith("KeyboardInterrupt\n"), err
