"""The figures of the papers, with a verdict on each of their claims."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _page, _windward


class Reproduction:
    """Results of a reproduction: figures, data and verdicts. A notebook shows them.

    Attributes:
        folder: Folder of the report; its first page is ``index.html``.
        claims: All claims with verdicts, checks and readings, as in ``claims.json``.
        figures: The charts as SVG, by experiment.
        runs: Number of runs.
    """

    folder: Path
    claims: list[dict[str, Any]]
    figures: dict[str, str]
    runs: int

    def __init__(
        self,
        folder: Path,
        experiments: list[str],
        runs: int,
        own: _windward.Scratch | None = None,
    ) -> None:
        self.folder = folder
        self.runs = runs
        if own is not None:
            weakref.finalize(self, own.remove)
        claims = json.loads((folder / "claims.json").read_text("utf-8"))
        self.claims = [claim for claim in claims if claim["figure"] in experiments]
        charts = {id: folder / f"{id}.svg" for id in experiments}
        self.figures = {
            id: path.read_text("utf-8") for id, path in charts.items() if path.exists()
        }
        self._experiments = experiments

    def data(self, experiment: str | None = None) -> Path:
        """Parquet file with a row for each run of an experiment, by default the first.

        Raises:
            KeyError: If the experiment was not reproduced.
        """
        experiment = experiment or self._experiments[0]
        if experiment not in self._experiments:
            names = ", ".join(self._experiments)
            raise KeyError(f"{experiment} was not reproduced; the experiments are {names}")
        return self.folder / f"{experiment}.parquet"

    def verdicts(self) -> dict[str, str]:
        """The plain verdict of each claim: held, tie, not held or inconclusive."""
        return {claim["id"]: claim["verdict"] for claim in self.claims}

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{id} {verdict}" for id, verdict in self.verdicts().items())
        return f"<windward.Reproduction of {', '.join(self._experiments)}: {verdicts}>"

    def _repr_html_(self) -> str:
        heads = ["claim", "verdict", "the paper", "measured"]
        rows = [[claim[key] for key in ("id", "verdict", "claim", "measured")] for claim in self.claims]
        return "".join(self.figures.values()) + (_page.table(heads, rows, left=(2, 3)) if rows else "")


def reproduce(
    *names: str,
    folder: str | os.PathLike[str] | None = None,
    full: bool = False,
    all_readings: bool = False,
    resume: bool = False,
    threads: int = 0,
    progress: Callable[[float], object] | bool | None = None,
) -> Reproduction:
    """Reproduces figures: ``reproduce("lr2008-fig8")``.

    Args:
        names: Figures (``lr2008-fig3``), papers (``lr2008``), claims (``L3``), as ``windward
            reproduce`` takes them; at least one.
        folder: Folder for the report, which is added to one that exists. None creates a folder
            that is removed with the result.
        full: At least 30 repetitions and long runs.
        all_readings: Check claims under every reading, including the slowest ones.
        resume: Continue an interrupted attempt in the same folder.
        threads: Worker threads; 0 is one per core.
        progress: Called at intervals with the share done, 0 to 1. True draws a bar with tqdm.

    Raises:
        ScenarioError: If a name is unknown.
        OSError: If the report cannot be written.
    """
    if not names:
        raise TypeError('reproduce needs a name, such as "lr2008-fig8" or "lr2008"')
    own = None
    if folder is None:
        own = _windward.Scratch()
        folder = own.path
    command = ["windward", "reproduce", *names]
    command += ["--full"] if full else []
    command += ["--all-readings"] if all_readings else []
    experiments, runs = _windward.reproduce(
        list(names),
        folder,
        full=full,
        all_readings=all_readings,
        resume=resume,
        threads=threads,
        progress=progress,
        about=_page.about(" ".join(command)),
    )
    return Reproduction(Path(folder), experiments, runs, own)
