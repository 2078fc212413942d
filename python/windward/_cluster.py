"""``windward sweep --dask`` and ``--ray``: the arguments of the command line, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from . import _windward
from ._errors import ScenarioError
from ._sweep import WorkerError, sweep
from ._windward import Experiment


def main() -> int:
    """Runs the sweep that the argument describes; returns the exit status of the command line."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    bar = _windward.Bar(request["quiet"])
    try:
        try:
            file = Experiment.read(request["file"])
        except OSError as error:
            return _say(error.strerror or error, 2)
        experiment = file.with_(dict(request["set"]))
        data = sweep(
            experiment,
            request["executor"],
            dataset=request["out"] or Path("results") / experiment.id,
            resume=request["resume"],
            full=request["full"],
            repetitions=request["repetitions"],
            progress=lambda share: bar.set(share, f"at {request['executor']}"),
        )
    except KeyboardInterrupt:
        bar.clear()
        return _say("interrupted; finished rows are kept, and --resume continues", 130)
    except ScenarioError as error:
        return _say(error, 2)
    except (WorkerError, ImportError, OSError) as error:
        return _say(error, 1)
    finally:
        bar.clear()
    print(f"{data.runs} runs; the rows are in {data.path}")
    return 0


def _say(message: object, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
