#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# ///
"""Measures `upwind` against the targets that were fixed before it was written, and writes the table of them into
../upwind.md: means of the first runs of each scenario of the suite `lossy`.

    cargo build --release
    docs/upwind/targets.py                  # three minutes
    docs/upwind/targets.py --from lossy     # from the folder of an evaluation that was made
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from goals import ROOT, write

MARK = "<!-- made by upwind/targets.py -->\n"
SEED = "7001"
#: Runs of a scenario that count.
RUNS = 4

#: A bound of each value of a row.
Bound = tuple[float, float]


def least(value: float) -> Bound:
    return value, math.inf


def most(value: float) -> Bound:
    return -math.inf, value


@dataclass(frozen=True)
class Row:
    """A row of the table: one metric at some points of an experiment, given by the labels of its axes."""

    name: str
    target: str
    experiment: str
    metric: str
    points: Sequence[tuple[str, ...]]
    bounds: Sequence[Bound]
    #: The factor of the metric, for groups of several flows and for per cent.
    factors: Sequence[float] = (1.0,)
    digits: int = 2


FAIR = (0.75, 1.33)
NEAR = (0.5, 1.5)
WIDE = (0.3, 3.3)
SIZES = ("50p", "100p", "200p")


def beside(others: str, loss: str) -> list[tuple[str, ...]]:
    return [(others, loss, queue) for queue in SIZES]


ROWS = [
    Row("alone at 0, 1, 5 %: goodput over C (1 - p)", ".99", "alone", "share", [("0%",), ("1%",), ("5%",)], [least(0.99)]),
    Row("at 20, 30 %", ".98 .97", "alone", "share", [("20%",), ("30%",)], [least(0.98), least(0.97)]),
    Row("mean queue at 0, 5, 30 %, packets", "10", "alone", "queue", [("0%",), ("5%",), ("30%",)], [most(10)], digits=1),
    Row("bursts, 5, 20 %", ".95 .88", "bursts", "share", [("5%",), ("20%",)], [least(0.95), least(0.88)]),
    Row("geostationary from the start, 0, 1, 5 %", ".92", "geo", "share", [("0%",), ("1%",), ("5%",)], [least(0.92)]),
    *[
        Row(
            f"jitter of 5, 20 ms at 5 %, {rate}",
            ".95 .80",
            "jitter",
            "share",
            [(rate, "5ms", "5%"), (rate, "20ms", "5%")],
            [least(0.95), least(0.8)],
        )
        for rate in ("10 Mbit/s", "50 Mbit/s", "200 Mbit/s")
    ],
    Row(
        "ACKs: 30 % lost, held back, behind others",
        ".9",
        "acks",
        "share",
        [("30% lost",), ("held back",), ("busy",)],
        [least(0.9)],
    ),
    Row("ACKs: one of 16 arrives, 5 and 0 %", ".9", "acks", "share", [("1 of 16",), ("1 of 16 without loss",)], [least(0.9)]),
    Row("over a newreno, queues of .5, 1, 2 BDP", ".75 - 1.33", "beside-newreno", "ratio", beside("1", "0%"), [FAIR]),
    Row("with 1 % of its own", ".75 - 1.33", "beside-newreno", "ratio", beside("1", "1%"), [FAIR]),
    Row("over one of four newrenos", ".75 - 1.33", "beside-newreno", "ratio", beside("4", "0%"), [FAIR], [4.0]),
    Row("with 1 % of its own", ".75 - 1.33", "beside-newreno", "ratio", beside("4", "1%"), [FAIR], [4.0]),
    Row(
        "4 BDP: one, one with 1 %, four, four with 1 %",
        ".6",
        "beside-newreno",
        "ratio",
        [("1", "0%", "400p"), ("1", "1%", "400p"), ("4", "0%", "400p"), ("4", "1%", "400p")],
        [least(0.6)],
        [1.0, 1.0, 4.0, 4.0],
    ),
    Row(
        "with 5 % of its own, .5, 1, 2, 4 BDP",
        ".5",
        "lossy-beside-newreno",
        "ratio",
        [(queue,) for queue in (*SIZES, "400p")],
        [least(0.5)],
    ),
    Row("over a cubic, .5, 1, 2 BDP", ".5 - 1.5", "beside-cubic", "ratio", beside("1", "0%"), [NEAR]),
    Row("over one of four cubics", ".5 - 1.5", "beside-cubic", "ratio", beside("4", "0%"), [NEAR], [4.0]),
    *[
        Row(
            f"over a {other}, .5, 1, 2, 4 BDP",
            ".3 - 3.3",
            "beside-rates",
            "ratio",
            [(other, queue) for queue in (*SIZES, "400p")],
            [WIDE],
        )
        for other in ("bbr1", "bbr")
    ],
    Row("2, 4, 16, 64 of a kind: Jain's index", ".98", "itself", "jain", [("2",), ("4",), ("16",), ("64",)], [least(0.98)]),
    Row(
        "packets in the queue per flow",
        "3",
        "itself",
        "queue",
        [("2",), ("4",), ("16",), ("64",)],
        [most(3)],
        [1 / 2, 1 / 4, 1 / 16, 1 / 64],
        digits=1,
    ),
    Row("RTTs of 80 and 400 ms: Jain's index", ".98", "rtts", "jain", [()], [least(0.98)]),
    Row("late flow over the first", ".8 - 1.25", "late", "ratio", [()], [(0.8, 1.25)]),
    Row("beside newreno under codel, red that mark", ".67 - 1.5", "marks", "ratio", [("codel",), ("red",)], [(0.67, 1.5)]),
    Row("under codel, red that drop", "10", "drops", "ratio", [("codel",), ("red",)], [most(10)]),
    Row(
        "queue beside unresponsive 5 Mbit/s, 1 and 4 BDP, packets",
        "10",
        "inelastic",
        "waiting",
        [("100p", "0%"), ("400p", "0%")],
        [most(10)],
        digits=1,
    ),
    Row(
        "dropped before 1, 2, 5, 10 packets of queue, %",
        "2",
        "small",
        "dropped",
        [("1p",), ("2p",), ("5p",), ("10p",)],
        [most(2)],
        [100.0],
        digits=1,
    ),
]

#: The mean of a metric of an experiment at a point, which begins with the controller.
Means = Callable[[str, str, tuple[str, ...]], float]


def compared(mean: Means) -> list[tuple[str, str, list[str], list[bool]]]:
    """Rows whose bound is a result of other controllers: their name, target, values, and which are met."""
    rows = []
    own, best = [], []
    for experiment in ("paths", "outage"):
        own.append(mean(experiment, "share", ("upwind",)))
        best.append(max(mean(experiment, "share", (name,)) for name in ("upwind", "cubic", "bbr1")))
    rows.append(
        (
            "another path every 15 s, outage of 30 s: goodput",
            ".9 of the best",
            [f"{value:.2f}" for value in own],
            [value >= 0.9 * bound for value, bound in zip(own, best, strict=True)],
        )
    )
    for aqm in ("codel", "red"):
        points = [(aqm, f"{rate} Mbit/s 32", "0%") for rate in (20, 80)]
        drops = [100 * mean("aqm", "drops", ("upwind", *point)) for point in points]
        bounds = [200 * mean("aqm", "drops", ("cubic", *point)) + 1 for point in points]
        rows.append(
            (
                f"32 of a kind, 80 ms, {aqm} on 20 and 80 Mbit/s: dropped, %",
                "twice cubic's and 1",
                [f"{value:.1f}" for value in drops],
                [value <= bound for value, bound in zip(drops, bounds, strict=True)],
            )
        )
    return rows


def means(folder: Path) -> Means:
    """The mean of a metric over the first runs at a point of an experiment."""
    known: dict[str, list[dict[str, str]]] = {}

    def mean(experiment: str, metric: str, point: tuple[str, ...]) -> float:
        if experiment not in known:
            with (folder / f"lossy-{experiment}.csv").open(encoding="utf-8") as file:
                known[experiment] = list(csv.DictReader(file))
        rows = known[experiment]
        axes = list(rows[0])[: list(rows[0]).index("repetition")]
        found = [
            float(row[metric])
            for row in rows
            if int(row["repetition"]) < RUNS and tuple(row[axis] for axis in axes) == point
        ]
        if not found:
            raise KeyError(f"lossy-{experiment}.csv has no runs at {', '.join(point)}")
        return statistics.fmean(found)

    return mean


def line(name: str, target: str, values: Sequence[str], are_met: Sequence[bool]) -> str:
    met = "yes" if all(are_met) else "in part" if any(are_met) else "no"
    return f"| {name} | {target} | {' '.join(values)} | {met} |"


def table(mean: Means) -> str:
    lines = ["| | target | `upwind` | met |", "| --- | --- | --- | --- |"]
    for row in ROWS:
        count = len(row.points)
        factors = row.factors if len(row.factors) == count else [row.factors[0]] * count
        bounds = row.bounds if len(row.bounds) == count else [row.bounds[0]] * count
        values = [
            factor * mean(row.experiment, row.metric, ("upwind", *point))
            for factor, point in zip(factors, row.points, strict=True)
        ]
        # As printed, so that a reader comes to the same answer.
        shown = [f"{value:.{row.digits}f}" for value in values]
        met = [low <= float(value) <= high for value, (low, high) in zip(shown, bounds, strict=True)]
        lines.append(line(row.name, row.target, shown, met))
    lines += [line(*row) for row in compared(mean)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "target/release/windward"), help="the program")
    parser.add_argument("--from", dest="folder", type=Path, metavar="DIR", help="the folder of an evaluation")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        if not given.folder:
            command = [given.program, "evaluate", "upwind", "--suite", "lossy", "--seed", SEED, "--out", scratch]
            if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
                return 1
        text = table(means(folder))
    print(text, end="")
    write(MARK, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
