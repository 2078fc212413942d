"""Experiments: sweeps on all cores, the figures of papers, charts of both."""

import json
import pathlib
import pickle
import signal
import subprocess
import sys
import time

import pytest

import windward as ww

ROOT = pathlib.Path(__file__).parents[2]
SWEEP = ROOT / "experiments/examples/loss-sweep.toml"


def sweep(**changes):
    return ww.Experiment.read(SWEEP).with_(**{"duration": "3s", "warmup": "1s", **changes})


def test_a_sweep_has_the_rows_of_the_command_line(tmp_path):
    table = sweep().sweep(repetitions=2)
    command = [sys.executable, "-m", "windward", "sweep", str(SWEEP), "--out", str(tmp_path)]
    changes = ["--set", "duration=3s", "--set", "warmup=1s", "--repetitions", "2"]
    subprocess.run([*command, *changes], capture_output=True, check=True)
    polars = pytest.importorskip("polars")
    theirs = polars.read_parquet(tmp_path / "loss-sweep.parquet")
    ours = polars.DataFrame(table)
    assert ours.columns == theirs.columns
    assert ours.to_dicts() == theirs.to_dicts()
    experiment = sweep()
    cells = 1
    for labels in experiment.axes.values():
        cells *= len(labels)
    assert len(table) == 2 * cells
    assert set(experiment.metrics) <= set(table.column_names)


def test_threads_do_not_show():
    one = sweep().sweep(repetitions=1, threads=1)
    many = sweep().sweep(repetitions=1, threads=5)
    assert one.to_pydict() == many.to_pydict()


def test_experiments_are_pickled():
    again = pickle.loads(pickle.dumps(sweep()))
    assert again.sweep(repetitions=1).to_pydict() == sweep().sweep(repetitions=1).to_pydict()
    assert "loss-sweep" in repr(again)


def test_mistakes_in_experiments_say_where():
    text = SWEEP.read_text()
    with pytest.raises(ww.ScenarioError, match="nonsense") as caught:
        ww.Experiment(text.replace("[experiment]", "[experiment]\nnonsense = 1"), name="mine.toml")
    assert caught.value.file == "mine.toml" and caught.value.line is not None
    with pytest.raises(FileNotFoundError, match="none.toml"):
        ww.Experiment.read("none.toml")
    with pytest.raises(ww.ScenarioError):
        sweep().with_({"flows.nobody.protocol": "sack"})


def test_what_progress_raises_stops_a_sweep():
    def progress(share):
        assert 0 <= share <= 1
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        sweep(duration="10000s").sweep(repetitions=3, progress=progress)


def test_ctrl_c_stops_a_sweep():
    program = (
        "import windward as ww, sys\n"
        f"experiment = ww.Experiment.read({str(SWEEP)!r}).with_(duration='100000s')\n"
        "print('running', flush=True)\n"
        "try:\n    experiment.sweep()\nexcept KeyboardInterrupt:\n    sys.exit(17)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "running\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 17
    finally:
        child.kill()
        child.wait()


def test_a_figure_comes_with_data_and_verdicts(tmp_path):
    shares = []
    found = ww.reproduce("lr2008-fig7", folder=tmp_path / "report", progress=shares.append)
    assert found.verdicts()["L8"] in {"held", "tie", "not held", "inconclusive"}
    assert found.figures["lr2008-fig7"].startswith("<svg")
    assert (found.folder / "index.html").exists()
    polars = pytest.importorskip("polars")
    assert len(polars.read_parquet(found.data())) >= 8
    page = found._repr_html_()
    assert "<svg" in page and "L8" in page
    claims = json.loads((found.folder / "claims.json").read_text())
    assert found.claims == [claim for claim in claims if claim["figure"] == "lr2008-fig7"]
    assert all(0 <= share <= 1 for share in shares)
    with pytest.raises(KeyError, match="lr2008-fig7"):
        found.data("lr2008-fig99")


def test_what_is_not_there_is_not_reproduced(tmp_path):
    with pytest.raises(TypeError, match="needs a name"):
        ww.reproduce()
    with pytest.raises(ww.ScenarioError, match="lr2008-fig8"):
        ww.reproduce("lr2008-fig88", folder=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        ww.reproduce("lr2008-fig7", folder=tmp_path / "file")


def test_charts_are_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    from windward import plot

    run = ww.Scenario.read(ROOT / "experiments/examples/first.toml")
    run = run.with_(duration="5s", warmup="1s").run(trace=0.1)
    _, ax = pyplot.subplots()
    assert len(plot.series(run, names=["clean-1", "lossy-1"], ax=ax).lines) == 2
    assert ax.get_ylabel() == "Cwnd, packets"
    _, ax = pyplot.subplots()
    assert plot.series(run, "queue_packets", names=["bottleneck"], ax=ax).lines[0].get_ydata().max() > 0
    with pytest.raises(KeyError, match="clean-1"):
        plot.series(run, names=["clean1"], ax=ax)
    with pytest.raises(KeyError):
        plot.series(run, "nonsense", ax=ax)

    table = sweep().sweep(repetitions=3)
    names = list(sweep().axes)
    metric = sweep().metrics[0]
    _, ax = pyplot.subplots()
    plot.lines(table, "loss", metric, by=next(name for name in names if name != "loss"), ax=ax)
    assert len(ax.lines) == len(sweep().axes[next(name for name in names if name != "loss")])
    # Labels that are numbers stand where they belong, and bands are round the means.
    assert list(ax.lines[0].get_xdata()) == sorted(ax.lines[0].get_xdata())
    assert ax.collections and ax.get_xlabel() == "Loss, %"
    _, ax = pyplot.subplots()
    drawn = plot.matrix(table, "loss", next(name for name in names if name != "loss"), metric, ax=ax)
    assert len(drawn.texts) == len(set(zip(table["loss"], table[names[0]], table[names[1]])))
    _, ax = pyplot.subplots()
    assert plot.cdf({"newreno": [3.0, 1.0, 2.0]}, ax=ax).lines[0].get_ydata()[-1] == 1
    with pytest.raises(ValueError, match="no samples"):
        plot.cdf([], ax=ax)
    assert plot.look("newreno")["color"] == plot.look("newreno 1 %")["color"]
    pyplot.close("all")


FORKS = """
import multiprocessing, sys, threading
import windward as ww

first, sweep = (sys.argv[1], sys.argv[2])
scenario = ww.Scenario.read(first).with_(duration="2s", warmup="1s")


def work(seed):
    controller = ww.controller(on_ack="cwnd + growth / cwnd", on_loss="in_flight / 2")
    run = scenario.with_parts(window={"*": controller}).run(seed)
    experiment = ww.Experiment.read(sweep).with_(duration="2s", warmup="1s")
    return run.fingerprint, experiment.sweep(repetitions=1, threads=2).to_pydict()


if __name__ == "__main__":
    alone = [work(seed) for seed in (1, 2)]
    stop = threading.Event()

    def tell(share):
        if stop.is_set():
            raise InterruptedError

    def long():
        try:
            ww.Scenario.read(first).with_(duration="100000s").run(progress=tell)
        except InterruptedError:
            pass

    # Forks while two other threads are in the middle of runs.
    others = [threading.Thread(target=long) for _ in range(2)]
    for other in others:
        other.start()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        forked = pool.map(work, (1, 2))
    stop.set()
    for other in others:
        other.join()
    assert forked == alone
    print("same")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_processes_that_are_forked_beside_threads_go_on(tmp_path):
    program = tmp_path / "forks.py"
    program.write_text(FORKS)
    first = ROOT / "experiments/examples/first.toml"
    # A process that hangs is killed, and fails.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, first, SWEEP],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "same\n", done.stderr
