"""Congestion control on lossy links: simulations, experiments, and user-defined controllers.

>>> import windward as ww
>>> scenario = ww.Scenario(
...     duration=20 * ww.s,
...     warmup=5 * ww.s,
...     dumbbell={
...         "bottleneck": {"rate": 5 * ww.Mbit, "delay": 20 * ww.ms, "queue": "50p"},
...         "access": {"rate": 5 * ww.Mbit, "delay": 5 * ww.ms, "queue": "50p"},
...     },
...     flows=[{"group": "bulk", "protocol": "newreno"}],
... )
>>> run = scenario.run(seed=1)
>>> run.links["utilization"][0] > 0.95
True

Tables (`run.flows`, `run.links`, ...) go into polars, pyarrow and DuckDB without a copy, and
into pandas by ``pandas.DataFrame.from_arrow`` or, row by row, ``pandas.DataFrame(run.flows)``.
"""

from ._errors import ScenarioError
from ._parts import Aqm, Controller, Discriminator, LossModel
from ._units import B, GB, Gbit, MB, Mbit, Unit, bit, kB, kbit, ms, ns, packets, s, us
from ._units import min as min  # Not in __all__, where it would hide the built-in name.
from ._windward import VERSION as __version__
from ._windward import (
    Ack,
    Congestion,
    ControllerSetup,
    Experiment,
    ExpressionController,
    Instant,
    Loss,
    LostPacket,
    Packet,
    Path,
    Queue,
    QueueSetup,
    RateSample,
    Reset,
    Run,
    Scenario,
    Simulation,
    Steered,
    Table,
    controller,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._batch import Batch, BatchController, BatchSetup, run_batch
    from ._catalogue import Parameter, Part, Parts, Protocol, Protocols, parts, protocols
    from ._emulate import Command, Comparison, Emulation, compare, emulate
    from ._evaluate import Evaluation, evaluate
    from ._reproduce import Reproduction, reproduce
    from ._search import Search, Trial, search
    from ._sweep import SweepData, WorkerError, sweep
    from ._worlds import Worlds, worlds

# Imported when they are first used: they need half of the standard library.
_LATER = {
    "_batch": ("Batch", "BatchController", "BatchSetup", "run_batch"),
    "_catalogue": ("Parameter", "Part", "Parts", "Protocol", "Protocols", "parts", "protocols"),
    "_emulate": ("Command", "Comparison", "Emulation", "compare", "emulate"),
    "_evaluate": ("Evaluation", "evaluate"),
    "_reproduce": ("Reproduction", "reproduce"),
    "_search": ("Search", "Trial", "search"),
    "_sweep": ("SweepData", "WorkerError", "sweep"),
    "_worlds": ("Worlds", "worlds"),
}

if not TYPE_CHECKING:  # Else any name would pass.

    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                from importlib import import_module

                found = import_module(f".{module}", __name__)
                globals().update({name: getattr(found, name) for name in names})
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

__all__ = [
    "Ack",
    "Aqm",
    "B",
    "Batch",
    "BatchController",
    "BatchSetup",
    "Command",
    "Comparison",
    "Congestion",
    "Controller",
    "ControllerSetup",
    "Discriminator",
    "Emulation",
    "Evaluation",
    "Experiment",
    "ExpressionController",
    "GB",
    "Gbit",
    "Instant",
    "Loss",
    "LossModel",
    "LostPacket",
    "MB",
    "Mbit",
    "Packet",
    "Parameter",
    "Part",
    "Parts",
    "Path",
    "Protocol",
    "Protocols",
    "Queue",
    "QueueSetup",
    "RateSample",
    "Reproduction",
    "Reset",
    "Run",
    "Scenario",
    "ScenarioError",
    "Search",
    "Simulation",
    "Steered",
    "SweepData",
    "Table",
    "Trial",
    "Unit",
    "WorkerError",
    "Worlds",
    "__version__",
    "bit",
    "compare",
    "controller",
    "emulate",
    "evaluate",
    "kB",
    "kbit",
    "ms",
    "ns",
    "packets",
    "parts",
    "protocols",
    "reproduce",
    "run_batch",
    "s",
    "search",
    "sweep",
    "us",
    "worlds",
]
