"""Emulations of scenarios with outside programs, and comparisons of programs on one link."""

from __future__ import annotations

import html
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any

from . import _page, _windward
from ._windward import Run, Scenario

Progress = Callable[[float], object] | bool | None


@dataclass(frozen=True)
class Command:
    """A command that ran in an emulation.

    Attributes:
        node: The node at which it ran.
        status: Exit status, as shells have it: 137 for a command that was killed at the end.
        stdout: Its standard output.
        stderr: Its standard error.
    """

    node: str
    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Emulation:
    """Results of an emulation.

    Attributes:
        run: The run, as a simulation returns it. Rates of ports are over the time in which programs
            could send.
        ports: Both directions of each port, as in ``windward emulate --json``.
        clock: Accuracy of the clock, as in ``windward emulate --json``.
        commands: The commands, in the order in which they started.
    """

    run: Run
    ports: list[dict[str, Any]]
    clock: dict[str, Any]
    commands: list[Command]

    @property
    def usable(self) -> bool:
        """False if this machine was too slow for the results to be valid."""
        return bool(self.clock["usable"])


class Comparison:
    """Results of a comparison of programs on one link. A notebook shows them as a table.

    Attributes:
        rows: A dictionary for each program and loss rate: means over runs with 95 % intervals.
        runs: A dictionary for each run.
        link: The link in words.
        rival: The competing flow in words; None if programs ran alone only.
        skipped: Programs that cannot run on this machine, each with the reason.
    """

    rows: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    link: str
    rival: str | None
    skipped: list[tuple[str, str]]

    def __init__(self, text: str) -> None:
        self._text = text
        found = json.loads(text)
        self.rows = found["rows"]
        self.runs = found["runs"]
        self.link = found["link"]
        self.rival = found["rival"]
        self.skipped = [(program, why) for program, why in found["skipped"]]

    def to_json(self) -> str:
        """The comparison as ``windward compare --json`` prints it."""
        return self._text

    def __repr__(self) -> str:
        programs = ", ".join(dict.fromkeys(run["program"] for run in self.runs))
        return f"<windward.Comparison of {programs}: {len(self.runs)} runs>"

    def _repr_html_(self) -> str:
        def mean(value: Mapping[str, float] | None, scale: float = 1.0) -> str:
            return "-" if value is None else f"{scale * value['mean']:.3f}"

        rows = (
            [
                found["program"],
                f"{100 * found['loss']:g} %",
                mean(found["goodput_bps"], 1e-6),
                mean(found["share"]),
                mean(found["left"]),
            ]
            for found in self.rows
        )
        heads = ["program", "loss", "goodput Mbit/s", "of C(1-p)", "left to the other"]
        return f"<p>{html.escape(self.link)}</p>{_page.table(heads, rows)}"


def _need_linux(what: str) -> None:
    if sys.platform != "linux":
        raise NotImplementedError(
            f"windward.{what} needs Linux; on {sys.platform} only the simulator and its "
            "experiments are available"
        )


def emulate(
    scenario: Scenario,
    commands: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    duration: float | str | timedelta | None = None,
    mtu: int | None = None,
    record: str | PathLike[str] | None = None,
    progress: Progress = None,
) -> Emulation:
    """Runs a scenario on the real clock, with commands at its nodes. Needs Linux and root.

    A port is a flow with the protocol ``"outside:port"``. Each node at which one begins or ends is a
    network namespace. Packets of programs there cross the links of the scenario; all other flows are
    simulated and share the queues. A dumbbell or a parking lot without a port gets one::

        link = {"name": "l", "from": "server", "to": "client", "rate": "10Mbit", "delay": "20ms"}
        port = {"group": "web", "protocol": "outside:port", "from": "server", "to": "client"}
        scenario = ww.Scenario(duration="10s", links=[link], flows=[port])
        done = ww.emulate(scenario, {"server": "iperf3 -s -1", "client": "iperf3 -c server -R -J"})
        json.loads(done.commands[-1].stdout)["end"]["sum_received"]["bits_per_second"]

    Args:
        scenario: The scenario.
        commands: Shell commands by node. They start in order, each when the previous one listens
            on a port, or after two seconds. The emulation ends with the last one. Without
            commands it lasts as long as the scenario.
        duration: Longest duration: seconds, ``"20s"`` or a timedelta.
        mtu: Largest packet that programs send, bytes, in place of the packet size of the port.
        record: File for a record of the incoming packets, for ``windward replay``.
        progress: Called several times per second with the share of the longest duration, 0 to 1. True
            draws a bar with tqdm.

    Raises:
        NotImplementedError: On a system other than Linux.
        ScenarioError: If the scenario is invalid.
        ValueError: If it has no port, or no port begins or ends at a node.
        RuntimeError: If network namespaces cannot be created, for instance without root.
    """
    _need_linux("emulate")
    items = commands.items() if isinstance(commands, Mapping) else commands
    run, measured, ended = _windward.emulate(
        scenario,
        list(items),
        duration=duration,
        mtu=mtu,
        record=record,
        progress=progress,
        python=sys.executable,
    )
    found = json.loads(measured)
    return Emulation(run, found["ports"], found["clock"], [Command(*one) for one in ended])


def compare(
    network: Scenario | Mapping[str, Any],
    programs: Sequence[str] = (),
    *,
    loss: Sequence[float] = (),
    link: str | None = None,
    routers: bool = False,
    endpoint: Mapping[str, object] | None = None,
    tables: Sequence[str | PathLike[str]] = (),
    rival: str | None = None,
    alone: bool = False,
    time: int = 10,
    warmup: int = 2,
    runs: int = 3,
    seed: int = 1,
    simulate: bool = False,
    jobs: int = 1,
    folder: str | PathLike[str] | None = None,
    resume: bool = False,
    records: str | PathLike[str] | None = None,
    progress: Progress = None,
) -> Comparison:
    """Compares programs on one emulated link, as ``windward compare``. Needs Linux and root.

    Args:
        network: A scenario with one port, or a dictionary of a link: ``rate``, ``delay``,
            ``queue``, ``aqm``, ``trace``, and ``up`` and ``down`` with keys of one direction. A
            dumbbell or a parking lot without a port gets one.
        programs: Names of the table, rows of ``windward list``, or ``"rows"``. Without any: upwind,
            cubic, bbr, and every program of the table that is installed.
        loss: Loss rates of the link. Without any: the one that it has.
        link: Name of the bottleneck link, for scenarios that define their own links.
        routers: Give the link the router that the protocol of each program needs.
        endpoint: Parameters of the endpoints of rows.
        tables: Files with more programs: docs/compare.md.
        rival: Program that competes with each of them; linux-cubic by default.
        alone: Run programs alone only, without a rival.
        time: Measured time of each run, whole seconds.
        warmup: Warm-up before the measured time, whole seconds.
        runs: Runs of each program at each loss rate.
        seed: Seed of the first run.
        simulate: Also simulate each run in virtual time.
        jobs: Number of simultaneous runs.
        folder: Folder for index.html with charts, programs.csv, runs.csv and compare.json.
        resume: Continue an interrupted comparison in that folder.
        records: Folder for a record of each emulation, which is replayed to check it.
        progress: Called several times per second with the share of runs done, 0 to 1. True draws a bar
            with tqdm.

    Raises:
        NotImplementedError: On a system other than Linux.
        ScenarioError: If the scenario or a value of the link is invalid.
        ValueError: If a program is unknown, or a value is out of range.
        RuntimeError: If a program cannot run here, or network namespaces cannot be created.
    """
    _need_linux("compare")

    def pairs(keys: Mapping[str, object] | None) -> list[tuple[str, str]]:
        return [(key, str(value)) for key, value in (keys or {}).items()]

    given: Scenario | dict[str, Any]
    if isinstance(network, Scenario):
        given = network
    else:
        known = {"rate", "delay", "queue", "aqm", "trace", "up", "down"}
        for key in network:
            if key not in known:
                raise ValueError(f"a link has no {key!r}; its keys are {', '.join(sorted(known))}")
        given = {**dict.fromkeys(known), **network}
        given.update(up=pairs(network.get("up")), down=pairs(network.get("down")))
    asked = {
        "link": link,
        "cast": {
            "programs": list(programs),
            "tables": [Path(table) for table in tables],
            "rival": rival,
            "alone": alone,
        },
        "conditions": {
            "losses": [float(rate) for rate in loss],
            "routers": routers,
            "endpoint": pairs(endpoint),
            "time": time,
            "warmup": warmup,
        },
        "effort": {
            "runs": runs,
            "seed": seed,
            "jobs": jobs,
            "simulate": simulate,
            "records": records,
            "windward": f"{shlex.quote(sys.executable)} -m windward",
        },
    }
    text = _windward.compare(
        given,
        asked,
        folder=folder,
        resume=resume,
        progress=progress,
        about=_page.about("windward.compare(...)"),
        python=sys.executable,
    )
    return Comparison(text)
