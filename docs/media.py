#!/usr/bin/env python3
"""Writes the numbers of the tables of media.md anew: docs/media.py [DIR]

DIR, by default report, has the result of `windward reproduce media --full --out DIR`. Each cell is a mean with its
95 % confidence interval (Student's t). The words of the tables stay.
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

# Factors and digits of metrics.
UNITS = {
    **dict.fromkeys(("total", "down", "up", "other"), (1e-6, 1)),
    "jain": (1, 3),
    "delay": (1e3, 0),
    "loss": (100, 2),
}
# The rows of the tables: experiment, cell, metric, factor, digits.
ROWS = [
    *(("variable-single", {"delay": "50ms"}, metric, 1, 2) for metric in ("first", "third")),
    ("variable-single", {"delay": "50ms"}, "delay_mean", 1e3, 0),
    *(("variable-multiple", {}, metric, 1, 2) for metric in ("first", "fifth")),
    ("feedback", {"backward": "congested"}, "rate", 1e-3, 0),
    *(("same", {}, metric, 1e-3, 0) for metric in ("first", "third")),
    ("same", {}, "delay_mean", 1e3, 0),
    *(("rtts", {}, f"rate_{number}", 1e-3, 0) for number in (1, 3, 5)),
    *(
        ("long-tcp", {"queue": queue}, metric, 1e-3, 0)
        for queue in ("300 ms", "1000 ms")
        for metric in ("rate", "tcp")
    ),
    ("short-tcp", {}, "rate", 1e-3, 0),
    *(
        ("pause", {}, metric, 1e-3, 0)
        for metric in ("others_before", "others_after", "second_after")
    ),
    *(("two-bottlenecks", {}, metric, 1e-3, 0) for metric in ("both", "second_only")),
    # RFC 8869.
    *(
        ("wifi-wired", {"beside": beside}, metric, 1e-3, 0)
        for beside, metric in (
            ("none", "down"),
            ("TCP down", "down"),
            ("TCP down", "other"),
        )
    ),
    ("wifi-wired", {"beside": "TCP down"}, "delay_down", 1e3, 0),
    *(
        ("wifi-shared", {"case": case}, metric, *UNITS[metric.split("_")[0]])
        for case, metrics in (
            ("down", ("total", "delay_down")),
            ("up", ("total", "delay_up", "loss_up")),
            ("both", ("down", "jain_down")),
            ("both and TCP", ("down", "other", "delay_down")),
        )
        for metric in metrics
    ),
    ("wifi-rates", {"slow stations": "4"}, "fast", 1e-3, 0),
    ("wifi-rates", {"slow stations": "4"}, "delay_fast", 1e3, 0),
    *(
        ("cellular-load", {"direction": direction, "users": users, "aqm": aqm}, metric, factor, digits)
        for direction in ("down", "up")
        for metric, factor, digits, aqm, numbers in (
            ("rate", 1e-3, 0, "off", ("1", "15")),
            ("delay_95", 1e3, 0, "off", ("10", "15")),
            ("delay_95", 1e3, 0, "on", ("10",)),
            ("loss", 100, 2, "on", ("10",)),
        )
        for users in numbers
    ),
    *(
        ("cellular-coverage", {"direction": direction, "users": users}, metric, factor, digits)
        for direction in ("down", "up")
        for users in ("1", "5")
        for metric, factor, digits in (("rate", 1e-3, 0), ("delay_95", 1e3, 0), ("late", 100, 1))
    ),
    # TCP alone, which has no controllers.
    *(
        ("wifi-tcp", {"case": case}, metric, *UNITS[metric])
        for case, metric in (("down", "down"), ("up", "up"), ("both", "down"), ("both", "up"))
    ),
]


def cell(folder: pathlib.Path, row: tuple, controller: str) -> str:
    name, place, metric, factor, digits = row
    with (folder / f"media-{name}.csv").open(encoding="utf-8", newline="") as file:
        runs = [
            float(run[metric]) * factor
            for run in csv.DictReader(file)
            if run.get("controller", controller) == controller and all(run[key] == place[key] for key in place)
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
        controllers = ("TCP",) if row[0] == "wifi-tcp" else CONTROLLERS
        cells[2 : 2 + len(controllers)] = [cell(folder, row, controller) for controller in controllers]
        lines[at] = " | ".join(cells).removesuffix(" |") + " |"
    PAGE.write_text("\n".join(lines), "utf-8")


main()
