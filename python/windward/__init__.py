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

from ._batch import Batch, BatchController, BatchSetup, run_batch
from ._catalogue import Parameter, Part, Parts, Protocol, Protocols, parts, protocols
from ._emulate import Command, Comparison, Emulation, compare, emulate
from ._errors import ScenarioError
from ._evaluate import Evaluation, evaluate
from ._parts import Aqm, Controller, Discriminator, LossModel
from ._reproduce import Reproduction, reproduce
from ._search import Search, Trial, search
from ._sweep import SweepData, WorkerError, sweep
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
from ._worlds import Worlds, worlds

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
