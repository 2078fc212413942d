"""Runs: equal to those of the program, with tables for other packages, interruptible, in parallel."""

import json
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import windward as ww

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "experiments/examples").glob("*.toml"))
FIRST = ROOT / "experiments/examples/first.toml"


def first(**changes):
    return ww.Scenario.read(FIRST).with_(**{"duration": "5s", "warmup": "1s", **changes})


def program(*arguments):
    """Output of ``python -m windward``."""
    command = [sys.executable, "-m", "windward", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def binary():
    """The binary of this checkout, or the command line of the package where there is none."""
    path = ROOT / "target/release/windward"
    return [str(path)] if path.exists() else [sys.executable, "-m", "windward"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_has_the_binary_s_fingerprint(path):
    if "[experiment]" in path.read_text():
        pytest.skip("an experiment, not a scenario")
    scenario = ww.Scenario.read(path).with_(duration="3s", warmup="1s")
    changes = ["--set", "duration=3s", "--set", "warmup=1s"]
    command = [*binary(), "run", str(path), *changes, "--json", "--seed", "7"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs = json.loads(output)
    ours = scenario.run(seed=7)
    assert ours.fingerprint == theirs["fingerprint"]
    assert ours.flows["goodput_bps"] == [flow["goodput_bps"] for flow in theirs["flows"]]
    assert json.loads(ours.to_json())["links"] == theirs["links"]


def test_tables_go_where_people_have_them():
    run = first().run()
    flows = run.flows
    assert flows.column_names[:3] == ["name", "group", "protocol"]
    assert len(flows) == 10 and flows["name"][0] == "clean-1"
    assert flows.to_pylist()[0]["group"] == "clean"
    assert flows["completed_s"] == [None] * 10
    with pytest.raises(KeyError, match="goodput_bps"):
        flows["goodput"]
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(flows).to_pydict() == flows.to_pydict()
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(flows).to_dicts() == flows.to_pylist()
    pandas = pytest.importorskip("pandas")
    frame = pyarrow.table(flows).to_pandas()
    assert list(frame["goodput_bps"]) == flows["goodput_bps"]
    assert isinstance(frame, pandas.DataFrame)


def test_capsules_can_be_taken_again_and_left_alone():
    pyarrow = pytest.importorskip("pyarrow")
    flows = first().run().flows
    assert pyarrow.table(flows) == pyarrow.table(flows)
    # Dropped without a reader: no leak and no double free.
    for _ in range(100):
        flows.__arrow_c_stream__()
        flows.__arrow_c_schema__()


def test_series_are_recorded_if_asked_for():
    run = first().run(trace=0.5 * 1.0)
    assert len(run.series) == 10 * 10
    assert sorted(set(run.series["time_s"])) == [0.5 * n for n in range(1, 11)]
    assert "queue_packets" in run.link_series.column_names
    assert run.fingerprint == first().run().fingerprint
    with pytest.raises(AttributeError, match="trace"):
        _ = first().run().series
    for nonsense in (0, -1, "5", "long", float("nan"), 1e-12, object()):
        with pytest.raises((ValueError, TypeError)):
            first().run(trace=nonsense)


def test_notebooks_show_charts_and_tables():
    run = first().run()
    page = run._repr_html_()
    assert page.count("<table>") == 2
    # Two groups: the rates come from the outcome, windows and queues need samples.
    assert page.count("<polyline") == 2
    assert "Throughput" in page
    assert "Congestion window" not in page
    sampled = first().run(trace="1s")
    assert sampled.fingerprint == run.fingerprint
    page = sampled._repr_html_()
    # Ten windows, two rates and a queue, each of 500 points at the chart's own instants.
    assert page.count("<polyline") == 13
    assert "Congestion window" in page
    assert len(sampled.series) == 10 * 5
    simulation = ww.Simulation(first())
    assert simulation.finish()._repr_html_().count("<polyline") == 2
    again = pickle.loads(pickle.dumps(run))
    assert again._repr_html_().count("<table>") == 2
    assert "<pre>" in first()._repr_html_()
    assert "10 rows" in repr(run.flows)


def test_runs_are_pickled_but_not_across_versions():
    run = first().run(seed=5)
    again = pickle.loads(pickle.dumps(run))
    assert again.to_json() == run.to_json()
    with pytest.raises(ValueError, match="windward 0.0.1 cannot be read by windward"):
        ww.Run._of("0.0.1", b"")
    with pytest.raises(ValueError, match="not a run"):
        ww.Run._of(ww._windward.BUILD, b"nonsense")


def test_a_simulation_in_steps_is_the_same_run():
    scenario = first()
    simulation = ww.Simulation(scenario, seed=3)
    simulation.advance("100ms")
    assert simulation.now == 0.1
    simulation.advance(2.5)
    flow = simulation.flow("clean-1")
    assert flow["cwnd_packets"] >= 1 and flow["srtt_s"] > 0.04
    assert simulation.link(scenario.links[0])["sent_bytes"] > 0
    assert len(simulation.flows) == 10 and len(simulation.links) == len(scenario.links)
    with pytest.raises(KeyError, match="clean-1"):
        simulation.flow("clean1")
    with pytest.raises(ValueError, match="is in the past"):
        simulation.advance(1)
    run = simulation.finish()
    assert run.fingerprint == scenario.run(seed=3).fingerprint
    with pytest.raises(RuntimeError, match="finished"):
        simulation.advance(3)


LONG = dict(duration="10000s", warmup="1s")


def test_ctrl_c_stops_a_run():
    program = (
        "import windward as ww, sys\n"
        f"scenario = ww.Scenario.read({str(FIRST)!r}).with_(duration='100000s')\n"
        "print('running', flush=True)\n"
        "try:\n    scenario.run()\nexcept KeyboardInterrupt:\n    sys.exit(17)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "running\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == 17
    finally:
        child.kill()
        child.wait()


def test_what_progress_raises_stops_a_run():
    shares = []

    def progress(share):
        shares.append(share)
        if share > 0.01:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        first(**LONG).run(progress=progress)
    assert shares == sorted(shares) and 0 < shares[0] <= shares[-1] < 0.1


def test_threads_run_side_by_side():
    """The interpreter goes on while a run lasts in another thread."""
    scenario = first(**LONG)
    stop = threading.Event()
    stopped = []

    def progress(_share):
        if stop.is_set():
            raise InterruptedError

    def work():
        try:
            scenario.run(progress=progress)
        except InterruptedError:
            stopped.append(True)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    stop.set()
    for thread in threads:
        thread.join(timeout=60)
    assert stopped == [True, True]


def test_a_simulation_is_of_one_thread_at_a_time():
    simulation = ww.Simulation(first(**LONG))
    errors = []

    def progress():
        # Until the other thread has it.
        for _ in range(10_000):
            try:
                simulation.now
            except RuntimeError as error:
                errors.append(str(error))
                return
            time.sleep(0.001)

    other = threading.Thread(target=progress)
    other.start()
    simulation.advance(200)
    other.join(timeout=60)
    assert errors == [] or "another thread" in errors[0]


def test_the_command_line_comes_along():
    assert ww.__version__ in program("--version")
    assert [row["name"] for row in json.loads(program("list", "--json"))] == list(ww.protocols)
    wrong = subprocess.run([sys.executable, "-m", "windward", "run", "none.toml"], capture_output=True)
    assert wrong.returncode == 2 and b"no such file" in wrong.stderr


def test_logs_of_packets_are_written_and_change_nothing(tmp_path):
    plain = first().run(trace="1s")
    logged = first().run(trace="1s", qlog=tmp_path / "logs")
    assert logged.fingerprint == plain.fingerprint
    files = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert len(files) == 3 * len(plain.flows)
    text = (tmp_path / "logs" / files[-1]).read_text()
    records = [json.loads(record) for record in text.split("\x1e")[1:]]
    assert records[0]["file_schema"] == "urn:ietf:params:qlog:file:sequential"
    assert {"quic:packet_sent", "quic:packet_received"} <= {r.get("name") for r in records}
    first().run(qlog=str(tmp_path / "qvis"), qlog_format="qvis")
    older = (tmp_path / "qvis" / files[-1]).read_text()
    assert older.startswith('\x1e{"qlog_version":"0.3"')
    with pytest.raises(ValueError, match="qlog_format"):
        first().run(qlog=tmp_path / "no", qlog_format="0.3")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        first().run(qlog=tmp_path / "file" / "below")
    with pytest.raises(ValueError, match="65 flows"):
        first(**{"flows.clean.count": 60}).run(qlog=tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_threads_do_not_change_a_run():
    alone = first().run()
    for threads in (2, 3, 0):
        assert first().run(threads=threads).fingerprint == alone.fingerprint
    with pytest.warns(UserWarning, match="one thread: trace and qlog"):
        first().run(threads=2, trace="1s")
    at_once = {f"dumbbell.{link}.delay": "0ms" for link in ("bottleneck", "access")}
    with pytest.warns(UserWarning, match="not divided"):
        first(**at_once).run(threads=2)
    with pytest.raises(ValueError, match="threads"):
        first().run(threads=-1)
