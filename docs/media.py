#!/usr/bin/env python3
"""Writes the numbers of the table of media.md anew: docs/media.py [DIR]

DIR, by default report, has the result of `windward reproduce media --full --out DIR`. Each cell is a mean with its
95 % confidence interval (Student's t). The words of the table stay.
"""

import csv
import math
import pathlib
import statistics
import sys

PAGE = pathlib.Path(__file__).parent / "media.md"
CONTROLLERS = ("nada", "scream", "scream2", "gcc")
# Student's t, two-sided 95 %, for 29 degrees of freedom: 30 runs.
RUNS, T = 30, 2.0452

SHARES = ("first", "second", "third", "fourth")
# The rows of the table: experiment, cell, metric, factor, digits.
ROWS = [
    *(("variable-single", {"delay": "50ms"}, metric, 1, 2) for metric in SHARES),
    ("variable-single", {"delay": "50ms"}, "delay_mean", 1e3, 0),
    ("variable-single", {"delay": "50ms"}, "loss", 100, 2),
    *(("variable-multiple", {}, metric, 1, 2) for metric in (*SHARES, "fifth")),
    ("variable-multiple", {}, "jain", 1, 3),
    *(("feedback", {"backward": label}, "rate", 1e-3, 0) for label in ("congested", "reference")),
    *(("same", {}, metric, 1e-3, 0) for metric in ("first", "second", "third")),
    ("same", {}, "delay_mean", 1e3, 0),
    *(("rtts", {}, f"rate_{number}", 1e-3, 0) for number in range(1, 6)),
    *(
        ("long-tcp", {"queue": queue}, metric, 1e-3, 0)
        for queue in ("300 ms", "1000 ms")
        for metric in ("rate", "tcp")
    ),
    ("short-tcp", {}, "rate", 1e-3, 0),
    *(
        ("pause", {}, metric, 1e-3, 0)
        for metric in ("others_before", "second_before", "others_during", "others_after", "second_after")
    ),
    *(("two-bottlenecks", {}, metric, 1e-3, 0) for metric in ("both", "first_only", "second_only")),
]


def cell(folder: pathlib.Path, row: tuple, controller: str) -> str:
    name, place, metric, factor, digits = row
    with (folder / f"media-{name}.csv").open(encoding="utf-8", newline="") as file:
        runs = [
            float(run[metric]) * factor
            for run in csv.DictReader(file)
            if run["controller"] == controller and all(run[key] == place[key] for key in place)
        ]
    if len(runs) != RUNS:
        sys.exit(f"media-{name}.csv: {len(runs)} runs of {controller} in {place}, and not {RUNS}: use --full")
    half = T * statistics.stdev(runs) / math.sqrt(RUNS)
    return f"{statistics.mean(runs):.{digits}f} ± {half:.{digits}f}"


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "report")
    lines = PAGE.read_text("utf-8").split("\n")
    places = [at for at, line in enumerate(lines) if line.startswith("|") and "±" in line]
    if len(places) != len(ROWS):
        sys.exit(f"{PAGE.name}: {len(places)} rows of numbers, and not {len(ROWS)}")
    for at, row in zip(places, ROWS, strict=True):
        cells = lines[at].split(" | ")
        cells[2 : 2 + len(CONTROLLERS)] = [cell(folder, row, controller) for controller in CONTROLLERS]
        lines[at] = " | ".join(cells)
    PAGE.write_text("\n".join(lines), "utf-8")


main()
