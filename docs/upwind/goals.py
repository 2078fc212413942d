#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# ///
"""Measures `upwind` against its goals, and writes the table of them into ../upwind.md.

    cargo build --release
    docs/upwind/goals.py --seeds 1 --no-page     # half a minute
    docs/upwind/goals.py                         # the table in ../upwind.md

A cell is a link and the flows on it. Each runs with `upwind`, and with `newreno` in its place, from the same
seeds. A goal bounds the mean over the seeds, or each of them where it says so. The result depends on --seeds,
--base and the program, not on the number of workers.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/upwind.md"
MARK = "<!-- made by upwind/goals.py -->\n"

SUBJECT, STANDARD = "upwind", "newreno"
PACKET = 1500

#: The output of one run.
Found = dict[str, Any]


@dataclass(frozen=True)
class Flows:
    """Flows of one group. Without a protocol, they have the one that is measured."""

    count: int = 1
    protocol: str | None = None
    #: Settings of the last hop: losses and jitter of these flows alone.
    path: str = ""
    start: str = '["0s", "1s"]'


@dataclass(frozen=True)
class Goal:
    """A bound of one number of a cell."""

    what: str
    read: Callable[[Cell, Found], float]
    least: float | None = None
    most: float | None = None
    #: The bound depends on the mean of the standard in the same cell.
    least_of: Callable[[float], float] | None = None
    most_of: Callable[[float], float] | None = None
    #: True if each seed has to keep the bound.
    each: bool = False
    percent: bool = False

    def bounds(self, standard: float) -> tuple[float, float]:
        least = self.least_of(standard) if self.least_of else self.least
        most = self.most_of(standard) if self.most_of else self.most
        return -math.inf if least is None else least, math.inf if most is None else most

    def worst(self, values: Sequence[float]) -> float:
        """The seed that is nearest to the bound or farthest beyond it; of a range, the one farthest from 1."""
        lower, upper = bool(self.least or self.least_of), bool(self.most or self.most_of)
        if lower and upper:
            return max(values, key=lambda value: abs(math.log(max(value, 1e-9))))
        return max(values) if upper else min(values)

    def show(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.percent else f"{value:.2f}"

    def words(self, standard: float) -> str:
        least, most = self.bounds(standard)
        if math.isfinite(least) and math.isfinite(most):
            text = f"{self.show(least)} to {self.show(most)}"
        elif math.isfinite(least):
            text = f"at least {self.show(least)}"
        elif math.isfinite(most):
            text = f"at most {self.show(most)}"
        else:
            return "-"
        return f"{text}, each seed" if self.each else text

    def is_held(self, values: Sequence[float], standard: float) -> str:
        least, most = self.bounds(standard)
        if not (math.isfinite(least) or math.isfinite(most)):
            return "-"
        judged = values if self.each else [statistics.fmean(values)]
        return "yes" if all(least <= value <= most for value in judged) else "**no**"


@dataclass(frozen=True)
class Cell:
    """A bottleneck, and the flows on it."""

    name: str
    rate: float  # Mbit/s
    rtt: float  # ms
    flows: tuple[Flows, ...]
    goals: tuple[Goal, ...]
    queue: float = 1.0  # bandwidth-delay products
    packets: int = 0  # of the queue, in their place
    aqm: str = ""
    #: The loss rate of the first group, and the mean length of its bursts; none if at random.
    loss: float = 0.0
    burst: float = 0.0
    #: Settings of the bottleneck's way back.
    back: str = ""
    #: Settings of the endpoints, and the stack on which the protocols run.
    endpoint: str = ""
    stack: str = ""
    duration: int = 100  # s
    warmup: int = 20  # s
    #: The multiple of --seeds.
    times: int = 1

    def toml(self, protocol: str, seed: int) -> str:
        queue = self.packets or max(2, round(self.queue * self.rate * self.rtt * 1e3 / 8 / PACKET))
        aqm = f", aqm = {self.aqm}" if self.aqm else ""
        back = f"reverse_bottleneck = {{ {self.back} }}\n" if self.back else ""
        text = (
            f'duration = "{self.duration}s"\nwarmup = "{self.warmup}s"\nseed = {seed}\n\n[dumbbell]\n'
            f'bottleneck = {{ rate = "{self.rate:g}Mbit", delay = "{self.rtt / 2 - 0.2:.4f}ms", '
            f'queue = "{queue}p"{aqm} }}\n{back}'
            f'access = {{ rate = "{max(20 * self.rate, 1000):g}Mbit", delay = "0.1ms", queue = "100000p" }}\n\n'
            f'[endpoint]\npacket_size = {PACKET}\ninitial_window = 10\nclock_granularity = "1ms"\n'
            # A packet's time on the wire: against phase effects.
            f'overhead = "{8e3 * PACKET / self.rate:.0f}ns"\n{self.endpoint}'
        )
        for group, flows in zip(("own", "others"), self.flows, strict=False):
            losses = self.losses() if group == "own" else ""
            hop = ", ".join(part for part in (flows.path, losses) if part)
            text += (
                f'\n[[flows]]\ngroup = "{group}"\ncount = {flows.count}\n'
                f'protocol = "{self.stack}{flows.protocol or protocol}"\nstart = {flows.start}\n'
                + (f"last_hop = {{ {hop} }}\n" if hop else "")
            )
        return text

    def losses(self) -> str:
        if not self.loss:
            return ""
        if not self.burst:
            return f"loss = {self.loss}"
        # Gilbert and Elliott: from bad to good with 1 / burst.
        begins = self.loss / (1 - self.loss) / self.burst
        return f"gilbert_elliott = {{ p = {begins:.6g}, r = {1 / self.burst:.6g} }}"


def bottleneck(found: Found) -> Found:
    return next(link for link in found["links"] if link["name"] == "bottleneck")


def dropped(_: Cell, found: Found) -> float:
    link = bottleneck(found)
    return link["dropped"] / max(link["arrived"], 1)


def used(_: Cell, found: Found) -> float:
    return bottleneck(found)["utilization"]


def goodput(cell: Cell, found: Found) -> float:
    return found["groups"][0]["goodput_bps"] / (1e6 * cell.rate * (1 - cell.loss))


def share(cell: Cell, found: Found) -> float:
    """The throughput of a flow of the first group over that of a flow of the second one."""
    one, other = (
        group["goodput_bps"] / flows.count for group, flows in zip(found["groups"], cell.flows, strict=True)
    )
    return one / max(other, 1.0)


def evenness(_: Cell, found: Found) -> float:
    rates = [flow["goodput_bps"] for flow in found["flows"]]
    return min(rates) / max(*rates, 1.0)


def jain(_: Cell, found: Found) -> float:
    """Jain's index of the flows' goodputs."""
    rates = [flow["goodput_bps"] for flow in found["flows"]]
    return sum(rates) ** 2 / max(len(rates) * sum(rate**2 for rate in rates), 1.0)


DROPS = Goal("dropped", dropped, most_of=lambda standard: 2 * standard + 0.01, percent=True)
EVEN = Goal("Jain's index", jain, least_of=lambda standard: standard - 0.1)


def queues() -> list[Cell]:
    """Several flows behind queues that drop early."""
    kinds = {
        "CoDel": ('"codel"', [(4, 4, 60), (16, 40, 60), (16, 16, 60), (32, 32, 60), (32, 20, 40), (6, 20, 40)]),
        "PIE": ('"pie"', [(10, 30, 25), (16, 40, 60), (4, 4, 60), (32, 32, 60), (32, 20, 40)]),
        "FQ-CoDel": ('{ kind = "fq-codel", ecn = false }', [(16, 10, 60)]),
        "RED 20 to 80": ('{ kind = "red", min_threshold = 20, max_threshold = 80 }', [(16, 10, 60)]),
        "RED 10 to 40": ('{ kind = "red", min_threshold = 10, max_threshold = 40 }', [(8, 30, 50)]),
        "RED 5 to 15": ('"red"', [(16, 160, 30), (32, 80, 80), (32, 160, 80), (32, 320, 10)]),
    }
    cells = [
        Cell(
            f"{count} flows, {rate} Mbit/s, {rtt} ms, {kind}",
            rate,
            rtt,
            (Flows(count),),
            (DROPS, EVEN) if count == 32 else (DROPS,),
            queue=8,
            aqm=aqm,
            warmup=30,
            # Runs at high rates take long, and differ little.
            times=4 if kind.startswith("RED") and rate < 80 else 1,
        )
        for kind, (aqm, sizes) in kinds.items()
        for count, rate, rtt in sizes
    ]
    cells += [
        Cell(
            f"{'alone' if count == 1 else f'{count} flows'}, {rate} Mbit/s, 40 ms, jitter 20 ms, {kind}",
            rate,
            40,
            (Flows(count, path='jitter = "20ms"'),),
            (DROPS,),
            queue=8,
            aqm=kinds[kind][0],
            warmup=30,
        )
        for count, rate, kind in ((1, 2, "CoDel"), (4, 10, "CoDel"), (8, 20, "PIE"), (8, 20, "RED 5 to 15"))
    ]
    few = (Goal("dropped", dropped, most=0.02, percent=True), Goal("used", used, least=0.95))
    cells += [
        Cell(
            f"alone, {rate} Mbit/s, 60 ms, {kind}",
            rate,
            60,
            (Flows(),),
            few,
            queue=8,
            aqm=kinds[kind][0],
            warmup=30,
        )
        for rate in (1, 2)
        for kind in ("FQ-CoDel", "CoDel")
    ]
    return cells


def alone() -> list[Cell]:
    """One flow, with losses, jitter and short queues."""
    each = (Goal("goodput over available rate", goodput, least=0.95, each=True),)
    cells = [
        Cell(
            f"alone, 10 Mbit/s, 78 ms, {100 * loss:g} % lost",
            10,
            78,
            (Flows(),),
            each,
            packets=67,
            loss=loss,
            duration=300,
            times=4 if loss == 0.1 else 1,
        )
        for loss in (0.05, 0.1, 0.2)
    ]
    cells.append(
        Cell(
            "alone, 10 Mbit/s, 80 ms, 20 % lost in bursts of five",
            10,
            80,
            (Flows(),),
            (Goal("goodput over available rate", goodput, least=0.8, each=True),),
            loss=0.2,
            burst=5,
            duration=60,
            times=5,
        )
    )
    cells += [
        Cell(
            f"alone in quinn, 10 Mbit/s, 80 ms, {100 * loss:g} % lost",
            10,
            80,
            (Flows(),),
            (Goal("goodput over available rate", goodput, least=0.85, each=True),),
            loss=loss,
            stack="quinn:",
            duration=17,
            warmup=5,
            times=10,
        )
        for loss in (0.1, 0.2)
    ]
    steady = '{ amount = "10ms", interval = "20ms" }'
    for rate, rtt, jitter, loss, duration in (
        (10, 60, "1ms", 0.0, 100),
        (10, 60, "5ms", 0.0, 100),
        (10, 60, "20ms", 0.05, 100),
        (50, 50, "1ms", 0.05, 60),
        (50, 40, "20ms", 0.05, 60),
        (50, 50, "5ms", 0.2, 60),
        (100, 20, "10ms", 0.01, 40),
        (100, 40, steady, 0.0, 40),
        (100, 40, "2ms", 0.2, 40),
        (200, 30, "5ms", 0.0, 40),
        (200, 50, "1ms", 0.0, 40),
        (200, 60, "20ms", 0.0, 40),
        (200, 60, "20ms", 0.05, 40),
        (200, 50, "5ms", 0.2, 40),
    ):
        shown = "10 ms every 20 ms" if jitter is steady else jitter.replace("ms", " ms")
        setting = jitter if jitter is steady else f'"{jitter}"'
        cells.append(
            Cell(
                f"jitter {shown}, {rate} Mbit/s, {rtt} ms" + (f", {100 * loss:g} % lost" if loss else ""),
                rate,
                rtt,
                (Flows(path=f"jitter = {setting}"),),
                (Goal("goodput over available rate", goodput, least=0.8 if loss == 0.2 else 0.9),),
                loss=loss,
                duration=duration,
                warmup=15,
                times=4 if (rate, jitter) == (200, "20ms") else 1,
            )
        )
    cells += [
        Cell(
            f"jitter {shown} both ways, 50 Mbit/s, 40 ms, {100 * loss:g} % lost",
            50,
            40,
            (Flows(path=f"jitter = {jitter}"),),
            (Goal("goodput over available rate", goodput, least=0.9),),
            loss=loss,
            back=f"jitter = {jitter}",
            duration=60,
            # The share of runs that starve decides.
            times=4,
        )
        for shown, jitter in (("5 ms", '"5ms"'), ("20 ms", '"20ms"'), ("10 ms every 20 ms", steady))
        for loss in (0.02, 0.1)
    ]
    cells += [
        Cell(
            f"alone, 20 Mbit/s, 600 ms, {100 * loss:g} % lost, the first minute",
            20,
            600,
            (Flows(),),
            (Goal("goodput over available rate", goodput, least=0.8),),
            loss=loss,
            duration=60,
            warmup=0,
        )
        for loss in (0.01, 0.05, 0.2)
    ]
    short = (
        Goal("goodput over available rate", goodput, least=0.8),
        Goal("dropped by the queue", dropped, most=0.05, percent=True),
    )
    cells += [
        Cell(
            f"alone, {rate} Mbit/s, 80 ms, queue of 0.25 BDP, {100 * loss:g} % lost",
            rate,
            80,
            (Flows(),),
            short,
            queue=0.25,
            loss=loss,
        )
        for rate in (2, 10)
        for loss in (0.05, 0.2)
    ]
    cells += [
        Cell(
            f"alone, 10 Mbit/s, 80 ms, queue of {queue:g} BDP, {100 * loss:g} % lost",
            10,
            80,
            (Flows(),),
            (Goal("goodput over available rate", goodput, least=0.8),),
            queue=queue,
            loss=loss,
            times=2,
        )
        for queue in (0.05, 0.1)
        for loss in (0.01, 0.05)
    ]
    return cells


def _pair(rival: str, queue: float, loss: float, goal: Goal, count: int = 1) -> Cell:
    number = {1: "one", 4: "four"}[count]
    lost = f", {100 * loss:g} % lost" if loss else ""
    return Cell(
        f"beside {number} {rival}, 20 Mbit/s, 60 ms, queue of {queue:g} BDP{lost}",
        20,
        60,
        (Flows(), Flows(count, rival)),
        (goal,),
        queue=queue,
        loss=loss,
        duration=140,
        warmup=40,
        # Shares of single runs differ by a factor of ten.
        times=4,
    )


def beside() -> list[Cell]:
    """One flow beside others, and many of one kind."""
    what = "throughput over the other's"
    fair = Goal(what, share, least=0.5, most=1.4)
    half = Goal(what, share, least=0.5)
    cells = [
        _pair("newreno", queue, loss, fair) for queue in (0.5, 1) for loss in (0.0, 0.01, 0.05, 0.1, 0.2)
    ]
    cells += [_pair("newreno", queue, loss, half) for queue in (2, 4) for loss in (0.01, 0.05)]
    cells += [
        Cell(
            f"beside one newreno that starts 20 s before, 20 Mbit/s, 60 ms, queue of {queue} BDP, 5 % lost",
            20,
            60,
            (Flows(start='"20s"'), Flows(protocol="newreno", start='"0s"')),
            (half,),
            queue=queue,
            loss=0.05,
            duration=200,
            warmup=60,
            times=4,
        )
        for queue in (1, 2)
    ]
    cells += [
        _pair("newreno", queue, loss, half, count=4) for queue, loss in ((0.5, 0.0), (1, 0.0), (2, 0.0), (1, 0.01))
    ]
    as_standard = Goal(what, share, least_of=lambda standard: standard / 2)
    cells += [_pair("bbr1", queue, 0.0, as_standard) for queue in (2, 4)]
    cells += [_pair("cubic", queue, 0.0, Goal(what, share)) for queue in (0.5, 1, 2)]
    cells.append(
        Cell(
            "one with 1 % lost among four of its kind, 20 Mbit/s, 60 ms, queue of 1 BDP",
            20,
            60,
            (Flows(), Flows(4)),
            (Goal("throughput over the others'", share, least=0.8, most=1.25, each=True),),
            loss=0.01,
            duration=140,
            warmup=40,
        )
    )
    cells += [
        Cell(
            f"16 of its kind, 40 Mbit/s, 60 ms, queue of {queue} BDP",
            40,
            60,
            (Flows(16),),
            (Goal("smallest over largest share", evenness, least=0.5),),
            queue=queue,
            warmup=30,
            times=4,
        )
        for queue in (1, 4)
    ]
    return cells


def few_packets() -> list[Cell]:
    """Several flows before a queue that holds few packets, or fewer than their least windows."""
    sizes = (
        (4, 10, 60, 0.05, 0),
        (4, 10, 60, 0.1, 0),
        (8, 5, 60, 1.0, 3),
        (4, 10, 60, 1.0, 1),
        (4, 10, 60, 1.0, 2),
        (32, 20, 40, 1.0, 67),
        (64, 20, 40, 1.0, 67),
    )
    holds = {0: "{} BDP", 1: "one packet"}
    cells = [
        Cell(
            f"{count} flows, {rate} Mbit/s, {rtt} ms, queue of " + holds.get(packets, f"{packets} packets").format(queue),
            rate,
            rtt,
            (Flows(count),),
            (DROPS, EVEN) if count >= 32 else (DROPS,),
            queue=queue,
            packets=packets,
            warmup=30,
        )
        for count, rate, rtt, queue, packets in sizes
    ]
    crowd = cells[-1]
    delayed = 'delayed_acks = "40ms"\nbyte_counting = true\n'
    name = crowd.name.replace("64 flows", "64 flows with delayed ACKs")
    return [*cells, replace(crowd, name=name, endpoint=delayed, times=4)]


def simulate(
    program: str,
    cell: Cell,
    protocol: str,
    seed: int,
    changes: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Found:
    """The output of a run with these changes of the scenario."""
    words = [word for change in changes for word in ("--set", change)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cell.toml"
        file.write_text(cell.toml(protocol, seed), "utf-8")
        command = [program, "run", file, "--json", "-q", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"{cell.name}, {protocol}, seed {seed}: {done.stderr.strip()}")
    found: Found = json.loads(done.stdout)
    return found


def run(given: argparse.Namespace, cell: Cell, protocol: str, seed: int) -> list[float]:
    changes = [f"flows.own.{change}" for change in given.set] if protocol == SUBJECT else []
    found = simulate(given.program, cell, protocol, seed, changes)
    return [goal.read(cell, found) for goal in cell.goals]


def write(mark: str, text: str) -> None:
    """Writes a table between its two marks in the page."""
    before, _, after = PAGE.read_text("utf-8").split(mark)
    PAGE.write_text(f"{before}{mark}\n{text}\n{mark}{after}", "utf-8")


def measure(given: argparse.Namespace, cells: Sequence[Cell]) -> dict[tuple[str, str], list[list[float]]]:
    """The numbers of each cell and protocol: a list for each seed."""
    seeds = {cell.name: range(given.base, given.base + cell.times * given.seeds) for cell in cells}
    with ThreadPoolExecutor(given.jobs) as pool:
        jobs = {
            (cell.name, protocol, seed): pool.submit(run, given, cell, protocol, seed)
            for cell in cells
            for protocol in (SUBJECT, STANDARD)
            for seed in seeds[cell.name]
        }
        try:
            for number, job in enumerate(as_completed(jobs.values()), 1):
                job.result()
                if sys.stderr.isatty():
                    print(f"\r\x1b[K{number} of {len(jobs)} runs", end="", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            if sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return {
        (cell.name, protocol): [jobs[cell.name, protocol, seed].result() for seed in seeds[cell.name]]
        for cell in cells
        for protocol in (SUBJECT, STANDARD)
    }


def table(cells: Sequence[Cell], found: dict[tuple[str, str], list[list[float]]]) -> str:
    rows = [
        f"| cell | number | `{SUBJECT}` | worst seed | `{STANDARD}` there | goal | held |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell in cells:
        columns = zip(*found[cell.name, SUBJECT]), zip(*found[cell.name, STANDARD])
        for goal, mine, theirs in zip(cell.goals, *columns, strict=True):
            standard = statistics.fmean(theirs)
            numbers = [statistics.fmean(mine), goal.worst(mine), standard]
            shown = [goal.show(number) for number in numbers]
            parts = [cell.name, goal.what, *shown, goal.words(standard), goal.is_held(mine, standard)]
            rows.append(f"| {' | '.join(parts)} |")
    return "\n".join(rows) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "target/release/windward"), help="the program")
    parser.add_argument(
        "--seeds", type=int, default=5, help="of a cell; noisy cells have four times as many (default: 5)"
    )
    parser.add_argument("--base", type=int, default=970_001, help="the first seed (default: 970001)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default: 2)")
    parser.add_argument("--only", default="", metavar="WORDS", help="cells whose names contain these words")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of the flows that are measured, as in upwind.bound=false; may be repeated",
    )
    parser.add_argument(
        "--page",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write the table into docs/upwind.md, unless --only or --set is given",
    )
    return parser.parse_args()


def main() -> int:
    given = arguments()
    cells = [cell for cell in (*queues(), *alone(), *beside(), *few_packets()) if given.only in cell.name]
    try:
        text = table(cells, measure(given, cells))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(text, end="")
    if given.page and not (given.only or given.set):
        write(MARK, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
