"""Sweeps on one machine or many: any executor, Dask, Ray.

The thread of the caller assigns tasks and collects their rows. A run depends on the experiment and its
number alone, so the rows do not depend on workers and times.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import importlib
import importlib.util
import math
import os
import pickle
import queue
import socket
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias, overload

from . import _windward
from ._progress import told
from ._windward import Experiment, Grid, Table, WorldRuns

#: Runs that workers execute: those of a sweep, or of a search for worlds.
_Runs: TypeAlias = "Grid | WorldRuns"

#: Assumed packet-hops per second before the first measurement.
_SPEED = 3e6
#: Runs that are planned at once; the longest go first within this number.
_BLOCK = 1 << 16
#: Least seconds of a task per worker: a scheduler needs some milliseconds for each task.
_PER_WORKER = 0.01
#: Tasks assigned to a worker: the current one, and one that follows at once.
_AHEAD = 2
#: Largest number of tasks at a scheduler, for any number of workers.
_MOST = 4096
#: Number of times that a task is assigned again after its worker is lost.
_RETRIES = 5
#: Seconds that a scheduler may be unreachable.
_PATIENCE = 10.0
#: Least seconds between files of a dataset, and the least share of the time so far.
_FILE_EVERY = (10.0, 0.05)


class WorkerError(RuntimeError):
    """Workers cannot run a sweep: they are lost, or have another version of Windward.

    With a dataset, all finished rows are kept: ``resume=True`` continues.
    """


class SweepData:
    """The rows of a sweep as Parquet files in a folder.

    polars, pyarrow, DuckDB, Dask and Spark read ``path``, also while it grows. Rows are in the order
    of their arrival; ``run.number`` is their number in the experiment.

    Attributes:
        path: The folder with the files.
        runs: Number of runs.
    """

    path: Path
    runs: int

    def __init__(self, path: Path, runs: int) -> None:
        self.path = path
        self.runs = runs

    def table(self) -> Table:
        """All rows in the order of the experiment, with the columns of ``Experiment.sweep``."""
        return _windward.read_dataset(self.path)

    def __len__(self) -> int:
        return self.runs

    def __repr__(self) -> str:
        return f"<windward.SweepData of {self.runs} runs: {self.path}>"


@overload
def sweep(
    experiment: Experiment | str | os.PathLike[str],
    executor: Any = None,
    *,
    dataset: None = None,
    resume: bool = False,
    full: bool = False,
    repetitions: int | None = None,
    task_seconds: float = 1.0,
    progress: Callable[[float], object] | bool | None = None,
) -> Table: ...
@overload
def sweep(
    experiment: Experiment | str | os.PathLike[str],
    executor: Any = None,
    *,
    dataset: str | os.PathLike[str],
    resume: bool = False,
    full: bool = False,
    repetitions: int | None = None,
    task_seconds: float = 1.0,
    progress: Callable[[float], object] | bool | None = None,
) -> SweepData: ...
def sweep(
    experiment: Experiment | str | os.PathLike[str],
    executor: Any = None,
    *,
    dataset: str | os.PathLike[str] | None = None,
    resume: bool = False,
    full: bool = False,
    repetitions: int | None = None,
    task_seconds: float = 1.0,
    progress: Callable[[float], object] | bool | None = None,
) -> Table | SweepData:
    """Runs every combination of an experiment's axes, on local or remote workers.

    Args:
        experiment: The experiment, or the path of its TOML file.
        executor: Executor: any ``concurrent.futures.Executor``, a ``dask.distributed.Client``,
            the module ``ray``, or an address: ``tcp://...`` of a Dask scheduler, ``ray://...`` or
            ``ray`` of a Ray cluster. It is not closed. None means threads of this process, one per
            core.
        dataset: Folder for the rows, written as they arrive, each run once: Parquet files in
            ``experiment=ID``.
        resume: Continue this sweep with the rows of the dataset.
        full: Apply the file's ``full`` in place of its ``quick``.
        repetitions: Runs of each combination, in place of the file's.
        task_seconds: Approximate duration of a task, which has at least one run. With more than a
            hundred workers it is at least a hundredth of a second for each, so that the scheduler
            keeps up.
        progress: Called at intervals with the share done, 0 to 1. True draws a bar with tqdm.

    Returns:
        A row for each run, as in ``Experiment.sweep`` and in the same order; with ``dataset``, the
        place of the rows.

    Raises:
        ScenarioError: A scenario is impossible.
        WorkerError: Workers were lost repeatedly, or have another version of Windward.
        ConnectionError: There is no scheduler, or it stopped.
        OSError: The dataset cannot be written, or belongs to another sweep.
    """
    if not 0 < task_seconds < math.inf:
        raise ValueError(f"task_seconds = {task_seconds}: must be greater than 0")
    if isinstance(experiment, str | os.PathLike):
        experiment = Experiment.read(experiment)
    grid = Grid(experiment, full=full, repetitions=repetitions)
    store = None if dataset is None else _windward.Dataset(dataset, grid, resume)
    try:
        with told(progress, "runs") as tell, _workers(executor) as workers:
            rows = _Driver(grid, workers, store, task_seconds, tell).conduct()
    finally:
        if store is not None:
            store.close()
    return grid.table(rows) if store is None else SweepData(store.path, grid.runs)


class _Driver:
    """Assigns tasks, longest first, and collects their rows."""

    def __init__(
        self,
        grid: Grid,
        workers: _Workers,
        store: _windward.Dataset | None,
        task_seconds: float,
        progress: Callable[[float], object] | None,
    ) -> None:
        self._grid = grid
        self._workers = workers
        self._store = store
        self._task_seconds = task_seconds
        self._progress = progress
        self._rows: list[bytes] = []
        self._ended: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._under_way: set[_Task] = set()
        # Updated as runs end: finished runs predict the time of the others.
        self._cost_done = 0.0
        self._seconds_done = 0.0
        self._runs_done = 0 if store is None else store.done
        self._began = self._flushed = time.monotonic()
        self._workers_known = (-math.inf, 1)
        # Waiting runs, the most expensive last; their cost; and the following blocks.
        self._waiting: list[tuple[int, float]] = []
        self._cost_waiting = 0.0
        self._blocks = range(0, grid.runs, _BLOCK)

    def conduct(self) -> list[bytes]:
        """Runs everything to the end; returns the rows if there is no dataset."""
        self._payload = self._workers.payload(self._grid)
        try:
            while True:
                while len(self._under_way) < self._window() and (task := self._next()):
                    self._submit(task)
                if not self._under_way:
                    break
                self._take()
            if self._store is not None:
                self._store.flush()
        except BaseException:
            self._give_up()
            raise
        return self._rows

    def _count(self) -> int:
        """Recent number of workers, which varies."""
        since, count = self._workers_known
        if time.monotonic() - since > 2.0:
            count = self._workers.count()
            self._workers_known = (time.monotonic(), count)
        return count

    def _window(self) -> int:
        return min(_MOST, _AHEAD * self._count())

    def _next(self) -> _Task | None:
        """The next task; None if no run is left."""
        while not self._waiting:
            if not self._blocks:
                return None
            start, self._blocks = self._blocks[0], self._blocks[1:]
            planned = self._grid.plan(start, start + _BLOCK, self._store)
            self._waiting = planned[::-1]
            self._cost_waiting = sum(cost for _, cost in planned)
        speed = self._cost_done / self._seconds_done if self._seconds_done > 0 else _SPEED
        seconds = max(self._task_seconds, _PER_WORKER * self._count())
        if not self._blocks:
            # Smaller tasks towards the end, so that all workers end together.
            seconds = min(seconds, self._cost_waiting / speed / (2 * self._count()))
        task = _Task()
        while self._waiting:
            run, cost = self._waiting[-1]
            if task.runs and task.cost + cost > seconds * speed:
                break
            self._waiting.pop()
            self._cost_waiting -= cost
            task.runs.append(run)
            task.cost += cost
        return task

    def _submit(self, task: _Task) -> None:
        task.future = self._workers.submit(_run, self._payload, task.runs)
        self._under_way.add(task)

        def ended(_: Any) -> None:
            self._ended.put(task)

        task.future.add_done_callback(ended)

    def _take(self) -> None:
        """Waits for the end of a task and collects its rows."""
        try:
            # Wakes up at intervals: not every task reports that the scheduler is gone.
            task = self._ended.get(timeout=1.0)
        except queue.Empty:
            self._workers.check()
            return
        try:
            rows, seconds = self._workers.result(task.future)
        except _Lost as lost:
            self._workers.check()
            task.tries += 1
            if task.tries > _RETRIES:
                raise WorkerError(
                    f"runs {task.runs[0]} and {len(task.runs) - 1} more of {self._grid.id} were "
                    f"begun {task.tries} times, and each time the worker was lost before they "
                    f"ended ({lost}); check its memory"
                ) from lost
            self._submit(task)
            return
        self._under_way.discard(task)
        self._cost_done += task.cost
        self._seconds_done += seconds
        self._runs_done += len(task.runs)
        if self._store is None:
            self._rows.append(rows)
        else:
            self._keep(rows, self._store)
        if self._progress is not None:
            self._progress(self._runs_done / self._grid.runs)

    def _keep(self, rows: bytes, store: _windward.Dataset) -> None:
        store.add(rows)
        now = time.monotonic()
        every = max(_FILE_EVERY[0], _FILE_EVERY[1] * (now - self._began))
        if now - self._flushed > every:
            store.flush()
            self._flushed = now

    def _give_up(self) -> None:
        """Ends current tasks, and keeps finished rows."""
        self._workers.stop(self._grid, [task.future for task in self._under_way])
        if self._store is not None:
            self._store.flush()


class _Task:
    """Some runs, and the worker that executes them."""

    __slots__ = ("cost", "future", "runs", "tries")

    def __init__(self) -> None:
        self.runs: list[int] = []
        self.cost = 0.0
        self.tries = 0
        self.future: Any = None


# --- functions on workers ---------------------------------------------------------------------


def _run(payload: Any, runs: Any) -> tuple[bytes, float]:
    """Executes runs of a grid or a search; returns their results and their duration in seconds."""
    grid = _grid(payload)
    since = time.perf_counter()
    return grid.run(runs), time.perf_counter() - since


def _stop(payload: Any) -> None:
    """Stops the runs of a grid or a search in this process."""
    _grid(payload).stop()
    _unpickled.cache_clear()


def _grid(payload: Any) -> _Runs:
    if isinstance(payload, Grid | WorldRuns):
        return payload
    version, grid = payload
    if version != _windward.BUILD:
        raise WorkerError(
            f"{socket.gethostname()} has windward {_windward.BUILD}, and this sweep is of windward "
            f"{version}: install the same build on all workers"
        )
    return _unpickled(grid)


def _pickled(grid: _Runs) -> bytes:
    """The runs for another process. cloudpickle, which Dask and Ray have, also takes classes of scripts."""
    if importlib.util.find_spec("cloudpickle") is None:
        return pickle.dumps(grid)
    dumped: bytes = importlib.import_module("cloudpickle").dumps(grid)
    return dumped


@functools.lru_cache(maxsize=4)
def _unpickled(payload: bytes) -> _Runs:
    grid = pickle.loads(payload)
    if not isinstance(grid, Grid | WorldRuns):
        raise TypeError(f"a worker runs a windward grid or search, not {type(grid).__name__}")
    return grid


# --- kinds of workers ------------------------------------------------------------------------


class _Lost(Exception):
    """The worker of a task is lost, before or after the end of the task."""


class _Workers:
    """An executor with the properties that a sweep needs. Closes only connections that it opened."""

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def count(self) -> int:
        """Current number of workers, at least one."""
        raise NotImplementedError

    def payload(self, grid: _Runs) -> Any:
        """The runs in the form in which tasks carry them."""
        return _windward.BUILD, _pickled(grid)

    def submit(self, fn: Callable[..., Any], payload: Any, runs: Any) -> Any:
        raise NotImplementedError

    def result(self, future: Any) -> Any:
        """Result of a task that ended: rows, and their duration in seconds.

        Raises:
            _Lost: The task has to be repeated.
        """
        return future.result()

    def stop(self, grid: _Runs, futures: list[Any]) -> None:
        """Ends these tasks as far as possible."""
        grid.stop()
        for future in futures:
            future.cancel()

    def check(self) -> None:
        """Waits a while for an unreachable scheduler; raises ConnectionError if it stays so."""


class _Pool(_Workers):
    """A ``concurrent.futures.Executor``, or an object with its interface."""

    def __init__(self, executor: Any, *, own: bool = False) -> None:
        self._executor = executor
        self._own = own

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._executor.shutdown(cancel_futures=True)

    def count(self) -> int:
        known = getattr(self._executor, "_max_workers", None)
        return known if isinstance(known, int) and known > 0 else os.cpu_count() or 1

    def payload(self, grid: _Runs) -> Any:
        # Threads share it: one flag stops them all.
        if isinstance(self._executor, concurrent.futures.ThreadPoolExecutor):
            return grid
        return super().payload(grid)

    def submit(self, fn: Callable[..., Any], payload: Any, runs: Any) -> Any:
        # A process may be lost before any result reports it.
        with self._whole():
            return self._executor.submit(fn, payload, runs)

    def result(self, future: Any) -> Any:
        with self._whole():
            return future.result()

    @staticmethod
    @contextlib.contextmanager
    def _whole() -> Generator[None]:
        try:
            yield
        except concurrent.futures.BrokenExecutor as error:
            raise WorkerError(
                f"a process of the pool was lost, which ends the pool ({error}): begin again with "
                "another one; rows of a dataset are kept, and resume=True continues"
            ) from error


class _Dask(_Workers):
    def __init__(self, client: Any, *, own: bool = False) -> None:
        self._client = client
        self._own = own
        self._address = client.scheduler.address

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._client.close()

    def count(self) -> int:
        try:
            threads: dict[str, int] = self._client.nthreads()
        except OSError:
            self.check()
            return 1
        return max(1, sum(threads.values()))

    def submit(self, fn: Callable[..., Any], payload: Any, runs: Any) -> Any:
        self.check()
        # Not pure: Dask would keep results of equal tasks.
        return self._client.submit(fn, payload, runs, pure=False)

    def result(self, future: Any) -> Any:
        distributed = _dask()
        try:
            return future.result()
        except ModuleNotFoundError as error:
            raise WorkerError(
                f"a worker says {error}: install windward {_windward.BUILD} on all workers"
            ) from error
        except (
            distributed.scheduler.KilledWorker,
            distributed.comm.CommClosedError,
            concurrent.futures.CancelledError,
        ) as error:
            raise _Lost(str(error)) from error
        finally:
            future.release()

    def stop(self, grid: _Runs, futures: list[Any]) -> None:
        if self._client.status != "running":
            return
        with contextlib.suppress(OSError):
            self._client.cancel(futures)
            self._client.run(_stop, self.payload(grid), on_error="ignore")

    def check(self) -> None:
        since = time.monotonic()
        while self._client.status != "running":
            # It may be back soon.
            if self._client.status == "closed" or time.monotonic() - since > _PATIENCE:
                raise ConnectionError(
                    f"the Dask scheduler {self._address} does not answer any more; rows of a "
                    "dataset are kept, and resume=True continues"
                )
            time.sleep(0.1)


class _Ray(_Workers):
    def __init__(self, address: str | None) -> None:
        ray = self._ray = _ray()
        self._own = not ray.is_initialized()
        if self._own:
            where = {} if address in (None, "ray") else {"address": address}
            try:
                ray.init(log_to_driver=False, include_dashboard=False, logging_level="ERROR", **where)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ConnectionError(f"no Ray cluster at {address}: {error}") from error
        # Ray begins a task again when its worker is gone.
        self._remote = ray.remote(max_retries=_RETRIES)(_run)

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._ray.shutdown()

    def count(self) -> int:
        with self._reached():
            return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, fn: Callable[..., Any], payload: Any, runs: Any) -> Any:
        with self._reached():
            return _RayFuture(self._remote.remote(payload, runs))

    def result(self, future: Any) -> Any:
        with self._reached():
            return future.result()

    def stop(self, grid: _Runs, futures: list[Any]) -> None:
        # An actor that cannot be reached any more has stopped.
        with contextlib.suppress(self._ray.exceptions.RayError):
            for future in futures:
                self._ray.cancel(future.reference)

    @contextlib.contextmanager
    def _reached(self) -> Generator[None]:
        """Turns errors of Ray into those that ``sweep`` documents."""
        exceptions = self._ray.exceptions
        try:
            yield
        except exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, BaseException) else error from error
        except (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.ObjectLostError,
            exceptions.OutOfMemoryError,
        ) as error:
            raise _Lost(str(error)) from error
        except (
            exceptions.LocalRayletDiedError,
            exceptions.RaySystemError,
            exceptions.RpcError,
            exceptions.GetTimeoutError,
        ) as error:
            raise ConnectionError(
                "the Ray cluster does not answer any more; rows of a dataset are kept, and "
                f"resume=True continues ({_first_line(error)})"
            ) from error
        except exceptions.RayError as error:
            raise WorkerError(f"Ray cannot run a task: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line), type(error).__name__)


class _RayFuture:
    """A reference of Ray with the methods of a future."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self._future = reference.future()

    def result(self) -> Any:
        return self._future.result()

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        self._future.add_done_callback(fn)


def _dask() -> Any:
    try:
        importlib.import_module("distributed.scheduler")
        return importlib.import_module("distributed")
    except ImportError as error:
        raise ImportError(
            "a Dask scheduler needs Dask: pip install '.[dask]' in a clone of the repository"
        ) from error


def _ray() -> Any:
    try:
        importlib.import_module("ray.exceptions")
        return importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(
            "a Ray cluster needs Ray: pip install '.[ray]' in a clone of the repository"
        ) from error


def _workers(executor: Any) -> _Workers:
    if executor is None:
        count = os.cpu_count() or 1
        return _Pool(concurrent.futures.ThreadPoolExecutor(count), own=True)
    if isinstance(executor, str):
        if executor == "ray" or executor.startswith("ray://"):
            return _Ray(executor)
        distributed = _dask()
        try:
            client = distributed.Client(executor, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConnectionError(f"no Dask scheduler at {executor}: {error}") from error
        return _Dask(client, own=True)
    module = type(executor).__module__.partition(".")[0]
    if getattr(executor, "__name__", None) == "ray":
        return _Ray(None)
    if module == "distributed":
        return _Dask(executor)
    if callable(getattr(executor, "submit", None)):
        return _Pool(executor)
    raise TypeError(
        f"executor: a {type(executor).__name__} is not a concurrent.futures.Executor, Dask client, "
        "module ray or address"
    )
