#!/usr/bin/env python3
"""Agreement of `windward compare --simulate` with its simulations: agreement.py RUNS.csv [--windward PROGRAM]

Prints the table of docs/validation.md: for each protocol and loss rate the mean of real over simulated goodput, and
its range. If the mean differs by more than 5 %, it simulates again: with the same seeds and a jitter on both links, as
a machine adds, and with twenty seeds, for the random spread.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
from collections import defaultdict
from pathlib import Path

LINK = Path(__file__).with_name("link.toml")
JITTERS = ["100us", "200us", "500us"]


def goodput(windward: str, row: dict[str, str], router: str, seed: int, jitter: str) -> float:
    sets = {
        "flows.outside.protocol": row["program"],
        "links.down.loss": row["loss"],
        "links.down.router": router,
        "links.down.jitter": jitter,
        "links.up.jitter": jitter,
    }
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    command = [windward, "run", str(LINK), "--json", "--seed", str(seed), *words]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(run.stdout)["flows"][0]["goodput_bps"]


def routers(windward: str) -> dict[str, str]:
    """The router that each protocol needs, by its name."""
    listed = subprocess.run([windward, "list", "--json"], check=True, capture_output=True, text=True)
    return {row["name"]: row["router"] for row in json.loads(listed.stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--windward", default="windward")
    arguments = parser.parse_args()
    cells: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    with arguments.runs.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["goodput_bps"] and row["simulated_goodput_bps"]:
                cells[row["program"], row["loss"]].append(row)

    def ratios(rows: list[dict[str, str]]) -> list[float]:
        return [float(row["goodput_bps"]) / float(row["simulated_goodput_bps"]) for row in rows]

    losses = sorted({loss for _, loss in cells}, key=float)
    print("| protocol | " + " | ".join(f"{100 * float(loss):g} %" for loss in losses) + " |")
    print("|---|" + "--:|" * len(losses))
    for program in dict.fromkeys(program for program, _ in cells):
        texts = []
        for loss in losses:
            of_cell = ratios(cells[program, loss])
            text = f"{statistics.mean(of_cell):.3f} ({min(of_cell):.3f} to {max(of_cell):.3f})" if of_cell else "-"
            texts.append(f"**{text}**" if of_cell and abs(statistics.mean(of_cell) - 1) > 0.05 else text)
        print(f"| `{program}` | " + " | ".join(texts) + " |")
    every = [ratio for rows in cells.values() for ratio in ratios(rows)]
    means = {cell: statistics.mean(ratios(rows)) for cell, rows in cells.items()}
    near = sum(abs(mean - 1) <= 0.05 for mean in means.values())
    print(f"\n{near} of {len(means)} means within 5 %, "
          f"{sum(abs(mean - 1) <= 0.01 for mean in means.values())} within 1 %; "
          f"{sum(abs(ratio - 1) <= 0.05 for ratio in every)} of {len(every)} runs within 5 %\n")
    asked = routers(arguments.windward)
    print("| | real | " + " | ".join(f"jitter {jitter}" for jitter in JITTERS) + " | spread over seeds |")
    print("|---|--:|" + "--:|" * len(JITTERS) + "--:|")
    for (program, loss), mean in means.items():
        if abs(mean - 1) <= 0.05:
            continue
        rows = cells[program, loss]

        def again(seed: int, jitter: str, row: dict[str, str] = rows[0]) -> float:
            return goodput(arguments.windward, row, asked[row["program"]], seed, jitter)

        texts = []
        for jitter in JITTERS:
            of_seeds = [again(int(row["seed"]), jitter) / again(int(row["seed"]), "0s") for row in rows]
            texts.append(f"{statistics.mean(of_seeds):.3f} ({min(of_seeds):.3f} to {max(of_seeds):.3f})")
        spread = [again(seed, "0s") for seed in range(1, 21)]
        deviation = statistics.stdev(spread) / statistics.mean(spread)
        real = ratios(rows)
        print(f"| `{program}` at {100 * float(loss):g} % | {mean:.3f} ({min(real):.3f} to {max(real):.3f}) | "
              + " | ".join(texts) + f" | {100 * deviation:.0f} % |")


if __name__ == "__main__":
    main()
