"""The nearest world of each claim, with the runs of the search on one machine or many."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _page, _windward
from ._sweep import _AHEAD, _RETRIES, WorkerError, _Lost, _run, _Workers, _workers

#: Largest number of runs at a scheduler: each has a thread of this process.
_MOST = 256


class Worlds:
    """Results of a search for worlds. A notebook shows them.

    Attributes:
        claims: For each claim its ``plain`` verdict, the ``verdict`` in its nearest world, the changed
            ``readings`` (None if no world was found) with their ``assumptions`` in words, the number of
            worlds ``tried``, of those that passed (``held``), of all (``of``) and of those that stayed
            ``undecided``, and the ``end`` of the search: found, exhausted or budget.
        joint: For each paper the world in which most of its claims hold together.
        files: The written files.
        runs: Number of runs.
    """

    claims: list[dict[str, Any]]
    joint: list[dict[str, Any]]
    files: list[Path]
    runs: int

    def __init__(self, found: dict[str, Any]) -> None:
        self.claims = found["claims"]
        self.joint = found["joint"]
        self.files = [Path(file) for file in found["files"]]
        self.runs = found["runs"]

    def __repr__(self) -> str:
        return f"<windward.Worlds of {self.runs} runs: {'; '.join(map(_words, self.claims))}>"

    def _repr_html_(self) -> str:
        heads = ["claim", "plain", "nearest world", "passed", "tried", "of"]
        numbers = ("held", "tried", "of")
        rows = (
            [claim["claim"], claim["plain"], _nearest(claim), *(claim[key] for key in numbers)]
            for claim in self.claims
        )
        return _page.table(heads, rows, left=(2,))


def _nearest(claim: dict[str, Any]) -> str:
    if claim["readings"] is None:
        searched = f"none of {claim['of']}" if claim["end"] == "exhausted" else f"none of the {claim['tried']} tried"
        return searched + (f", {claim['undecided']} undecided" if claim["undecided"] else "")
    changed = ", ".join(f"{choice} = {value}" for choice, value in claim["readings"].items())
    return f"{claim['verdict']} with {changed}"


def _words(claim: dict[str, Any]) -> str:
    return f"{claim['claim']} {claim['plain']}, {_nearest(claim)}"


def worlds(
    *names: str,
    executor: Any = None,
    folder: str | os.PathLike[str],
    budget: float | None = 300.0,
    full: bool = False,
    resume: bool = False,
    threads: int = 0,
    progress: Callable[[float], object] | bool | None = None,
) -> Worlds:
    """Searches for the nearest world of each claim, as ``windward reproduce --worlds``.

    Args:
        names: Claims (``L3``), figures (``lr2008-fig3``) or papers (``lr2008``); at least one.
        executor: Executor of the runs, as in ``sweep``. None means threads of this process. The
            result does not depend on it.
        folder: Folder for ``worlds.toml`` of each paper, and for the state of the search.
        budget: Predicted seconds of one core for each claim; None for no bound.
        full: Runs of full length, as in ``reproduce``.
        resume: Continue an interrupted search in the same folder.
        threads: Worker threads without an executor; 0 is one per core. With an executor, the number
            of runs that are submitted at once; 0 is two for each of its workers.
        progress: Called at intervals with the share done, 0 to 1. True draws a bar with tqdm.

    Raises:
        ScenarioError: If a name is unknown.
        WorkerError: Workers were lost repeatedly, or have another version of Windward.
        ConnectionError: There is no scheduler, or it stopped.
        OSError: If the folder cannot be written, or has an interrupted search and ``resume`` is false.
    """
    if not names:
        raise TypeError('worlds needs a name, such as "L3" or "lr2008"')
    if budget is not None and not 0 < budget < float("inf"):
        raise ValueError(f"budget = {budget}: must be greater than 0, or None")

    def search(threads: int, submit: Callable[[bytes], _Pending] | None) -> Worlds:
        found = _windward.worlds(
            list(names),
            folder,
            budget=budget,
            full=full,
            resume=resume,
            threads=threads,
            progress=progress,
            submit=submit,
        )
        return Worlds(json.loads(found))

    if executor is None:
        return search(threads, None)
    runs = _windward.WorldRuns(list(names), full)
    with _workers(executor) as workers:
        payload = workers.payload(runs)
        threads = threads or min(_MOST, _AHEAD * workers.count())
        pending: set[_Pending] = set()
        try:
            return search(threads, lambda run: _Pending(workers, payload, run, pending))
        except BaseException:
            workers.stop(runs, [run.future for run in pending])
            raise


class _Pending:
    """A run at a worker, which ``pending`` contains. It is submitted again if the worker is lost."""

    def __init__(self, workers: _Workers, payload: Any, run: bytes, pending: set[_Pending]) -> None:
        self._workers = workers
        self._payload = payload
        self._run = run
        self._pending = pending
        self._tries = 0
        self._submit()
        pending.add(self)

    def _submit(self) -> None:
        self._tries += 1
        ended = threading.Event()
        self._ended = ended
        self.future = self._workers.submit(_run, self._payload, self._run)

        def end(_: Any) -> None:
            ended.set()

        self.future.add_done_callback(end)

    def wait(self, seconds: float) -> bytes | None:
        """The metrics, or None if they are not there after this time."""
        if not self._ended.wait(seconds):
            self._workers.check()
            return None
        try:
            metrics: bytes = self._workers.result(self.future)[0]
        except _Lost as lost:
            self._workers.check()
            if self._tries > _RETRIES:
                raise WorkerError(
                    f"a run was begun {self._tries} times, and each time the worker was lost before it ended ({lost}); "
                    "check its memory"
                ) from lost
            self._submit()
            return None
        self._pending.discard(self)
        return metrics
