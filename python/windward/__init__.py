"""Congestion control on links that lose packets: simulations, experiments, laws of your own.

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
into pandas by ``pandas.DataFrame.from_arrow``.
"""

from ._batch import Batch, BatchController, BatchSetup, run_batch
from ._catalogue import Parameter, Part, Parts, Protocol, Protocols, parts, protocols
from ._errors import ScenarioError
from ._evaluate import Evaluation, evaluate
from ._parts import Discriminator, LossModel, Aqm, Controller
from ._reproduce import Reproduction, reproduce
from ._search import Search, Trial, search
from ._sweep import SweepData, WorkerError, sweep
from ._units import B, GB, Gbit, MB, Mbit, Unit, bit, kB, kbit, ms, ns, packets, s, us
from ._units import min as min  # Not in __all__, where it would hide Python's.
from ._windward import VERSION as __version__
from ._windward import (
    Ack,
    Congestion,
    Experiment,
    Law,
    Loss,
    Packet,
    Path,
    Place,
    Queue,
    Reset,
    Run,
    Scenario,
    Setup,
    Simulation,
    Steered,
    Table,
    law,
)

__all__ = [
    "Ack",
    "B",
    "Batch",
    "BatchController",
    "BatchSetup",
    "Congestion",
    "Discriminator",
    "Evaluation",
    "Experiment",
    "GB",
    "Gbit",
    "Law",
    "Loss",
    "LossModel",
    "MB",
    "Mbit",
    "Packet",
    "Parameter",
    "Part",
    "Parts",
    "Path",
    "Place",
    "Protocol",
    "Protocols",
    "Queue",
    "Aqm",
    "Reproduction",
    "Reset",
    "Run",
    "Scenario",
    "ScenarioError",
    "Search",
    "Setup",
    "Simulation",
    "Steered",
    "SweepData",
    "Table",
    "Trial",
    "Unit",
    "Controller",
    "WorkerError",
    "__version__",
    "bit",
    "evaluate",
    "kB",
    "kbit",
    "law",
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
]
