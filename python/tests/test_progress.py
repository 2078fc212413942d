"""``progress=True``: a bar where tqdm is, a clear error where it is not."""

import pathlib
import subprocess
import sys

import pytest

import windward as ww

FIRST = pathlib.Path(__file__).parents[2] / "experiments/examples/first.toml"
SWEEP = pathlib.Path(__file__).parents[2] / "experiments/examples/loss-sweep.toml"


def first(**changes):
    return ww.Scenario.read(FIRST).with_(**{"duration": "2s", "warmup": "1s", **changes})


@pytest.fixture
def bars(monkeypatch):
    """Every bar that is drawn, as the list of its values after each update."""
    tqdm_auto = pytest.importorskip("tqdm.auto")
    drawn = []

    class Recorded(tqdm_auto.tqdm):
        def __init__(self, *arguments, **options):
            assert options["disable"] is None, "tqdm itself decides whether it is visible"
            super().__init__(*arguments, **{**options, "disable": False})
            self.seen = []
            self.was_closed = False
            drawn.append(self)

        def update(self, n=1):
            super().update(n)
            self.seen.append(self.n)

        def close(self):
            super().close()
            self.was_closed = True

    monkeypatch.setattr(tqdm_auto, "tqdm", Recorded)
    return drawn


def whole(bar):
    seen = bar.seen
    return bar.was_closed and seen == sorted(seen) and seen[-1] == pytest.approx(100)


def test_a_run_a_sweep_and_a_reproduction_draw_a_bar(bars):
    assert first().run(progress=True).fingerprint == first().run().fingerprint
    first().run(progress=True, trace=0.1)
    experiment = ww.Experiment.read(SWEEP).with_(duration="2s", warmup="1s")
    experiment.sweep(repetitions=1, progress=True)
    ww.reproduce("xcpr2005-fig3", progress=True)
    ww.sweep(experiment, repetitions=1, progress=True)
    assert len(bars) == 5 and all(whole(bar) for bar in bars)


def test_a_search_draws_a_bar(bars):
    pytest.importorskip("optuna")
    ww.search(first(), {"seed": [1, 2]}, lambda run: run.jain, trials=2, progress=True)
    assert len(bars) == 1 and whole(bars[0])


def test_false_and_none_draw_nothing(bars):
    first().run(progress=False)
    first().run(progress=None)
    assert bars == []


def test_a_bar_is_closed_where_the_work_ends_early(bars):
    class Raises:
        def __init__(self, setup):
            pass

        def on_ack(self, ack):
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        first().with_parts(window={"*": Raises}).run(progress=True)
    (bar,) = bars
    assert bar.was_closed and bar.n < 100


def test_without_tqdm_is_said_what_to_install(monkeypatch):
    for name in ["tqdm", "tqdm.auto"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        first().run(progress=True)
    assert first().run().packet_hops > 0


def test_what_is_neither_is_refused():
    with pytest.raises(TypeError, match="True or a function"):
        first().run(progress="yes")
    with pytest.raises(TypeError, match="True or a function"):
        ww.Experiment.read(SWEEP).sweep(progress=3)
    with pytest.raises(TypeError, match="True or a function"):
        ww.sweep(ww.Experiment.read(SWEEP), progress=3)


def test_nothing_is_drawn_where_nobody_looks():
    pytest.importorskip("tqdm")
    program = (
        f"import windward as ww\nscenario = ww.Scenario.read({str(FIRST)!r})\n"
        "scenario.with_(duration='2s', warmup='1s').run(progress=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
