"""Sweeps on executors, Dask and Ray, into datasets; with workers, drivers and schedulers that are killed."""

import concurrent.futures
import contextlib
import importlib.util
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import windward as ww
from windward import _sweep, _windward

ROOT = pathlib.Path(__file__).parents[2]
SWEEP = ROOT / "experiments/examples/loss-sweep.toml"
#: Runs of each of its 12 combinations, long enough for a kill.
MANY = 40


def small():
    return ww.Experiment.read(SWEEP).with_(duration="3s", warmup="1s")


def longer():
    return ww.Experiment.read(SWEEP).with_(duration="30s", warmup="1s")


@pytest.fixture(scope="module")
def serial():
    """Reference rows of an undisturbed sweep."""
    return longer().sweep(repetitions=MANY, threads=1).to_pydict()


def rows_in(data, serial):
    """Asserts the same rows in the same order, without repetition."""
    assert data.table().to_pydict() == serial
    polars = pytest.importorskip("polars")
    files = polars.scan_parquet(data.path / "*.parquet").collect()
    assert sorted(files["run.number"]) == list(range(len(serial["seed"])))


def driver(dataset, executor="None", resume=False, more=""):
    """A process that sweeps `longer()` and reports the first rows."""
    program = f"""
import windward as ww
{more}
said = False
def progress(share):
    global said
    if not said:
        said = True
        print("rows", flush=True)
if __name__ == "__main__":
    experiment = ww.Experiment.read({str(SWEEP)!r}).with_(duration="30s", warmup="1s")
    try:
        ww.sweep(experiment, {executor}, dataset={str(dataset)!r}, resume={resume},
                 repetitions={MANY}, task_seconds=0.05, progress=progress)
    except KeyboardInterrupt:
        raise SystemExit(17)
"""
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def kept(dataset):
    """Number of rows that a dataset has."""
    grid = _windward.Grid(longer(), repetitions=MANY)
    store = _windward.Dataset(dataset, grid, True)
    done = store.done
    store.close()
    return done


# --- executors of the standard library -----------------------------------------------------


def test_threads_and_processes_give_the_rows_of_the_sweep():
    serial = small().sweep(repetitions=3, threads=1).to_pydict()
    assert ww.sweep(small(), repetitions=3).to_pydict() == serial
    context = concurrent.futures.ProcessPoolExecutor(2)
    with context as pool:
        shares = []
        rows = ww.sweep(small(), pool, repetitions=3, task_seconds=0.001, progress=shares.append)
        assert rows.to_pydict() == serial
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 1


def test_whatever_submits_will_do():
    class Immediate:
        def submit(self, function, *args):
            future = concurrent.futures.Future()
            future.set_result(function(*args))
            return future

    serial = small().sweep(repetitions=1, threads=1).to_pydict()
    assert ww.sweep(small(), Immediate(), repetitions=1).to_pydict() == serial
    with pytest.raises(TypeError, match="a list is not a concurrent.futures.Executor"):
        ww.sweep(small(), [])
    with pytest.raises(ValueError, match="task_seconds = 0"):
        ww.sweep(small(), task_seconds=0)


def test_tasks_are_batches_of_about_the_time_asked_for_and_few_wait():
    class Watched(concurrent.futures.ThreadPoolExecutor):
        waiting = most = 0
        sizes: list[int] = []

        def submit(self, function, *args):
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            self.sizes.append(len(args[1]))
            future = super().submit(function, *args)
            future.add_done_callback(lambda _: setattr(self, "waiting", self.waiting - 1))
            return future

    with Watched(2) as pool:
        ww.sweep(small(), pool, repetitions=100, task_seconds=0.02)
    assert sum(pool.sizes) == 1200
    assert 12 < len(pool.sizes) < 1200
    # Towards the end tasks become small.
    assert pool.sizes[-1] < max(pool.sizes)
    assert pool.most <= 2 * 2


def test_a_dataset_holds_each_run_once_and_is_gone_on_with(tmp_path, serial):
    polars = pytest.importorskip("polars")
    data = tmp_path / "data"
    seen = []

    def enough(share):
        seen.append(share)
        if share > 0.3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ww.sweep(longer(), dataset=data, repetitions=MANY, task_seconds=0.02, progress=enough)
    there = polars.read_parquet(data / "experiment=loss-sweep/*.parquet")
    assert 0 < len(there) < len(serial["seed"])
    with pytest.raises(OSError, match="go on with resume"):
        ww.sweep(longer(), dataset=data, repetitions=MANY)
    first = []
    rest = ww.sweep(
        longer(), dataset=data, resume=True, repetitions=MANY, progress=first.append
    )
    assert first[0] > len(there) / len(serial["seed"])
    rows_in(rest, serial)
    # All runs are done, and none is repeated.
    again = ww.sweep(longer(), dataset=data, resume=True, repetitions=MANY)
    assert len(again) == len(serial["seed"]) and "loss-sweep" in repr(again)
    rows_in(again, serial)


def test_what_other_tools_read_is_typed_and_partitioned(tmp_path):
    polars = pytest.importorskip("polars")
    data = ww.sweep(small(), dataset=tmp_path, repetitions=1)
    frame = polars.scan_parquet(tmp_path / "**/*.parquet", hive_partitioning=True).collect()
    assert set(frame["experiment"]) == {"loss-sweep"}
    table = polars.DataFrame(data.table())
    frame = frame.sort("run.number").drop("run.number", "experiment")
    assert frame.schema == table.schema
    assert frame.to_dicts() == table.to_dicts()


def test_folders_of_something_else_are_refused(tmp_path):
    ww.sweep(small(), dataset=tmp_path, repetitions=1)
    with pytest.raises(OSError, match="repetitions: 1 there, 2 now"):
        ww.sweep(small(), dataset=tmp_path, resume=True, repetitions=2)
    with pytest.raises(OSError, match="changes: duration=3s .* there"):
        ww.sweep(longer(), dataset=tmp_path, resume=True, repetitions=1)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="is a file"):
        ww.sweep(small(), dataset=tmp_path / "file")
    # Another experiment may use the same folder.
    text = SWEEP.read_text().replace('id = "loss-sweep"', 'id = "other"')
    other = ww.Experiment(text, name=str(SWEEP)).with_(duration="3s", warmup="1s")
    ww.sweep(other, dataset=tmp_path, repetitions=1)
    assert {p.name for p in tmp_path.glob("experiment=*")} == {
        "experiment=loss-sweep",
        "experiment=other",
    }


def test_ten_million_runs_begin_at_once(tmp_path):
    values = ", ".join(str(seed) for seed in range(1000))
    axis = f'[[experiment.axes]]\nname = "base"\nkey = "seed"\nvalues = [{values}]\n'
    text = SWEEP.read_text().partition("[[experiment.plots]]")[0] + axis
    experiment = ww.Experiment(text, name=str(SWEEP)).with_(duration="2s", warmup="1s")

    def enough(share):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ww.sweep(experiment, dataset=tmp_path, repetitions=1000, progress=enough)
    grid = _windward.Grid(experiment, repetitions=1000)
    assert grid.runs == 12_000_000
    assert _windward.Dataset(tmp_path, grid, True).done > 0


def test_a_scenario_that_is_impossible_says_so_wherever_it_is_found():
    text = SWEEP.read_text().partition("[[experiment.plots]]")[0]
    wrong = ww.Experiment(text.replace('"5%"]', '"110%"]'), name=str(SWEEP))
    assert "110%" in wrong.axes["loss"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(ww.ScenarioError, match="110%"):
            ww.sweep(wrong, pool)


def test_a_process_of_a_pool_that_dies_costs_its_runs_and_no_more(tmp_path, serial):
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        pid = pool.submit(os.getpid).result()

        def kill(share):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        with pytest.raises(ww.WorkerError, match="begin again with another one"):
            ww.sweep(
                longer(),
                pool,
                dataset=tmp_path,
                repetitions=MANY,
                task_seconds=0.05,
                progress=kill,
            )
    assert 0 < kept(tmp_path) < len(serial["seed"])
    rows_in(ww.sweep(longer(), dataset=tmp_path, resume=True, repetitions=MANY), serial)


def test_a_pool_that_broke_before_it_was_given_anything():
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        pid = pool.submit(os.getpid).result()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(concurrent.futures.BrokenExecutor):
            while True:
                pool.submit(os.getpid).result()
        with pytest.raises(ww.WorkerError, match="begin again with another one"):
            ww.sweep(longer(), pool, repetitions=2)


@pytest.mark.parametrize("signals", [[signal.SIGKILL], [signal.SIGINT, signal.SIGINT]])
def test_a_driver_that_dies_loses_only_what_was_under_way(tmp_path, serial, signals):
    child = driver(tmp_path)
    assert child.stdout.readline() == "rows\n"
    time.sleep(0.2)
    for number in signals:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, number)
        time.sleep(0.01)
    child.wait(60)
    there = kept(tmp_path)
    assert 0 < there < len(serial["seed"])
    rows_in(ww.sweep(longer(), dataset=tmp_path, resume=True, repetitions=MANY), serial)


def test_a_disk_that_is_full_loses_nothing_that_it_took(tmp_path, serial):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    child = driver(tmp_path, more=limit)
    child.communicate(timeout=60)
    assert child.returncode == 1
    there = kept(tmp_path)
    assert 0 < there < len(serial["seed"])
    rows_in(ww.sweep(longer(), dataset=tmp_path, resume=True, repetitions=MANY), serial)


def test_a_task_that_takes_every_worker_along_is_given_up():
    class Deadly(_sweep._Pool):
        begun = 0

        def result(self, future):
            self.begun += 1
            raise _sweep._Lost("signal 9")

    grid = _windward.Grid(small(), repetitions=1)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        workers = Deadly(pool)
        with pytest.raises(ww.WorkerError, match="each time the worker was lost .*signal 9"):
            _sweep._Driver(grid, workers, None, 1.0, None).conduct()
    assert workers.begun > 5


def test_grids_of_other_versions_are_refused():
    grid = _windward.Grid(small())
    function, parts = grid.__reduce__()
    assert pickle.loads(pickle.dumps(grid)).runs == grid.runs
    with pytest.raises(RuntimeError, match="cannot run a sweep of windward 9.9.9"):
        function("9.9.9", *parts[1:])


# --- Dask ------------------------------------------------------------------------------------


@pytest.fixture
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


def test_dask_with_a_worker_killed_gives_the_serial_rows(tmp_path, serial, cluster):
    import distributed

    with distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        killed = []

        def kill(share):
            if not killed and share > 0.1:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        data = ww.sweep(
            longer(),
            client,
            dataset=tmp_path,
            repetitions=MANY,
            task_seconds=0.05,
            progress=kill,
        )
        assert killed
        rows_in(data, serial)
        # The client stays open.
        assert client.submit(sum, [1, 2]).result() == 3


def test_dask_with_a_driver_killed_is_gone_on_with(tmp_path, serial, cluster):
    child = driver(tmp_path, repr(cluster.scheduler_address))
    assert child.stdout.readline() == "rows\n"
    time.sleep(0.3)
    child.kill()
    child.wait(60)
    assert 0 < kept(tmp_path) < len(serial["seed"])
    data = ww.sweep(
        longer(), cluster.scheduler_address, dataset=tmp_path, resume=True, repetitions=MANY
    )
    rows_in(data, serial)


def test_the_command_line_hands_a_sweep_to_dask(tmp_path, cluster):
    command = [sys.executable, "-m", "windward", "sweep", str(SWEEP), "--out", str(tmp_path)]
    command += ["--set", "duration=3s", "--set", "warmup=1s", "--repetitions", "2"]
    command += ["--dask", cluster.scheduler_address]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    folder = tmp_path / "experiment=loss-sweep"
    assert done.stdout == f"24 runs; the rows are in {folder}\n" and not done.stderr
    serial = small().sweep(repetitions=2, threads=1).to_pydict()
    assert ww.SweepData(folder, 24).table().to_pydict() == serial
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 1 and "go on with resume" in again.stderr
    subprocess.run([*command, "--resume"], check=True)


def test_dask_workers_of_another_version_are_refused(cluster):
    import distributed

    def become_older():
        from windward import _windward

        _windward.BUILD = "0.0.1"

    with distributed.Client(cluster) as client:
        client.run(become_older)
        with pytest.raises(ww.WorkerError) as caught:
            ww.sweep(small(), client)
    assert "has windward 0.0.1" in str(caught.value)
    assert f"is of windward {ww.__version__}" in str(caught.value)


def test_a_dask_scheduler_that_is_not_there_or_gone(tmp_path, serial, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(_sweep, "_PATIENCE", 2.0)
    with pytest.raises(ConnectionError, match="no Dask scheduler at tcp://127.0.0.1:9"):
        ww.sweep(small(), "tcp://127.0.0.1:9")
    with contextlib.ExitStack() as stack:
        start = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        file = tmp_path / "scheduler.json"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        scheduler = subprocess.Popen([*start, *options, "--scheduler-file", str(file)], **quiet)
        stack.callback(scheduler.wait, 30)
        stack.callback(scheduler.kill)
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        start = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny"]
        options = ["--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard"]
        worker = subprocess.Popen([*start, *options], **quiet, cwd=tmp_path)
        stack.callback(worker.wait, 30)
        stack.callback(worker.kill)
        import json

        address = json.loads(file.read_text())["address"]

        def kill(share):
            scheduler.kill()

        with pytest.raises(ConnectionError, match="does not answer any more"):
            ww.sweep(
                longer(),
                address,
                dataset=tmp_path / "data",
                repetitions=MANY,
                task_seconds=0.05,
                progress=kill,
            )
    assert kept(tmp_path / "data") > 0
    data = ww.sweep(longer(), dataset=tmp_path / "data", resume=True, repetitions=MANY)
    rows_in(data, serial)


def test_a_sweep_takes_the_path_of_its_file(tmp_path):
    short = tmp_path / "short.toml"
    text = SWEEP.read_text().replace('duration = "', 'duration = "5s" #', 1)
    text = text.replace('warmup = "', 'warmup = "1s" #', 1)
    short.write_text(text)
    rows = ww.sweep(ww.Experiment.read(short), repetitions=1).to_pydict()
    assert ww.sweep(short, repetitions=1).to_pydict() == rows
    assert ww.sweep(str(short), repetitions=1).to_pydict() == rows


# --- Ray -------------------------------------------------------------------------------------


@pytest.fixture
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def children_called(name):
    """Processes below this one that run such a task of Ray."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and name in (entry / "cmdline").read_bytes().decode():
                parent = int(entry.name)
                while parent > 1 and parent != os.getpid():
                    stat = pathlib.Path(f"/proc/{parent}/stat").read_text()
                    parent = int(stat.rpartition(")")[2].split()[1])
                if parent == os.getpid():
                    found.append(int(entry.name))
    return found


def test_ray_with_a_worker_killed_gives_the_serial_rows(tmp_path, serial, ray):
    killed = []

    def kill(share):
        if not killed and share > 0.1:
            for pid in children_called("ray::_run")[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    data = ww.sweep(
        longer(), ray, dataset=tmp_path, repetitions=MANY, task_seconds=0.05, progress=kill
    )
    assert killed
    rows_in(data, serial)
    assert ray.is_initialized()


def test_ray_with_its_raylet_killed_is_a_connection_error(tmp_path, serial):
    pytest.importorskip("ray")
    # In its own process with a limit: the remains of Ray may hang or end the process.
    program = f"""
import os, pathlib, signal, sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import ray
import windward as ww
from test_sweep import MANY, children_called, longer

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
killed = []

def kill(share):
    if not killed and share > 0.1:
        for pid in children_called("/raylet"):
            command = pathlib.Path(f"/proc/{{pid}}/cmdline").read_bytes()
            if command.split(b"\\0")[0].endswith(b"/raylet"):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

try:
    ww.sweep(
        longer(), ray, dataset={str(tmp_path)!r}, repetitions=MANY, task_seconds=0.05, progress=kill
    )
except ConnectionError as error:
    print(len(killed), "killed:", error, flush=True)
os._exit(0)
"""
    # Ends with it what Ray began and left.
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = child.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(60)
    assert "1 killed: " in out
    assert "Ray cluster does not answer any more" in out
    assert kept(tmp_path) > 0
    data = ww.sweep(longer(), dataset=tmp_path, resume=True, repetitions=MANY)
    rows_in(data, serial)


def test_ray_errors_are_those_of_the_documentation():
    exceptions = pytest.importorskip("ray.exceptions")
    workers = object.__new__(_sweep._Ray)
    workers._ray = sys.modules["ray"]

    def raised(error):
        future = concurrent.futures.Future()
        future.set_exception(error)
        return lambda: workers.result(future)

    for error, documented in [
        (exceptions.LocalRayletDiedError(), ConnectionError),
        (exceptions.RaySystemError("gone"), ConnectionError),
        (exceptions.RpcError("gone"), ConnectionError),
        (exceptions.WorkerCrashedError(), _sweep._Lost),
        (exceptions.OutOfMemoryError("full"), _sweep._Lost),
        (exceptions.RuntimeEnvSetupError("no such image"), ww.WorkerError),
    ]:
        with pytest.raises(documented):
            raised(error)()


def test_ray_with_a_driver_killed_is_gone_on_with(tmp_path, serial):
    ray = pytest.importorskip("ray")
    more = "import ray; ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)"
    child = driver(tmp_path, "ray", more=more)
    try:
        assert child.stdout.readline() == "rows\n"
    finally:
        child.kill()
        child.wait(60)
    assert 0 < kept(tmp_path) < len(serial["seed"])
    assert not ray.is_initialized()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        data = ww.sweep(longer(), ray, dataset=tmp_path, resume=True, repetitions=MANY)
        rows_in(data, serial)
    finally:
        ray.shutdown()


# --- files for clusters ----------------------------------------------------------------------


def test_the_slurm_example_makes_a_job_script():
    # Not imported here: the import replaces the handler of SIGINT of the process.
    if importlib.util.find_spec("dask_jobqueue") is None:
        pytest.skip("there is no dask_jobqueue")
    command = [sys.executable, str(ROOT / "examples/clusters/slurm.py"), str(SWEEP), "none"]
    command += ["--dry-run", "--queue", "compute", "--cores", "64", "--memory", "64GB"]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in ["#SBATCH -p compute", "#SBATCH --cpus-per-task=64", "#SBATCH -t 01:00:00"]:
        assert line in script.splitlines()
    assert "distributed.cli.dask_worker tcp://" in script and "--nthreads 64" in script


def test_the_manifests_are_yaml_of_their_kinds():
    yaml = pytest.importorskip("yaml")
    kinds = {}
    for path in (ROOT / "examples/clusters").glob("*.yaml"):
        manifest = yaml.safe_load(path.read_text())
        kinds[manifest["kind"]] = manifest
    assert set(kinds) == {"DaskCluster", "RayJob"}
    # The entry point of the Ray job is a program.
    program = kinds["RayJob"]["spec"]["entrypoint"].removeprefix('python -c "').removesuffix('"')
    compile(program, "entrypoint", "exec")
