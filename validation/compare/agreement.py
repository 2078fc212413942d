#!/usr/bin/env python3
"""Agreement of `windward compare --simulate` with its simulations: agreement.py RUNS.csv [--write] [--windward PROGRAM]

Prints for each protocol and loss rate the mean of real over simulated goodput and its range, as CSV. If the mean differs
by more than 5 %, it simulates again: with the same seeds and a jitter on both links, as a machine adds, and with twenty
seeds, for the random spread. `--write` keeps the rows in agreement.csv and writes docs/validation.md.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import page  # noqa: E402

LINK = Path(__file__).with_name("link.toml")
JITTERS = ["100us", "200us", "500us"]
NEAR = 0.05  # A smaller difference counts as agreement.
COLUMNS = [
    "protocol", "loss", "seeds", "ratio", "least", "most", "half_width",
    *(f"jitter_{jitter}" for jitter in JITTERS), "spread", "date",
]


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


def columns_about_chance(windward: str, router: str, rows: list[dict[str, str]]) -> dict[str, str]:
    """The ratios of simulations with jitter to those without, and the standard deviation over twenty seeds."""

    def again(seed: int, jitter: str) -> float:
        return goodput(windward, rows[0], router, seed, jitter)

    found = {}
    for jitter in JITTERS:
        of_seeds = [again(int(row["seed"]), jitter) / again(int(row["seed"]), "0s") for row in rows]
        found[f"jitter_{jitter}"] = f"{statistics.mean(of_seeds):.3f}"
    spread = [again(seed, "0s") for seed in range(1, 21)]
    return found | {"spread": f"{100 * statistics.stdev(spread) / statistics.mean(spread):.0f} %"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--windward", default="windward")
    parser.add_argument("--write", action="store_true", help="keep the rows and write the page")
    arguments = parser.parse_args()
    cells: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    with arguments.runs.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["goodput_bps"] and row["simulated_goodput_bps"]:
                cells[row["program"], row["loss"]].append(row)
    asked = routers(arguments.windward)
    found, near = [], 0
    for (program, loss), rows in cells.items():
        ratios = [float(row["goodput_bps"]) / float(row["simulated_goodput_bps"]) for row in rows]
        seeds = sorted({int(row["seed"]) for row in rows})
        mean = statistics.mean(ratios)
        row = {"protocol": program, "loss": f"{float(loss):g}", "seeds": f"{seeds[0]}-{seeds[-1]}"}
        row |= {"ratio": f"{mean:.3f}", "least": f"{min(ratios):.3f}", "most": f"{max(ratios):.3f}"}
        if abs(mean - 1) > NEAR:
            row |= columns_about_chance(arguments.windward, asked[program], rows)
        near += sum(abs(ratio - 1) <= NEAR for ratio in ratios)
        found.append(row | {"date": datetime.date.today().isoformat()})
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(found)
    print(f"{near} of {sum(map(len, cells.values()))} runs within 5 %", file=sys.stderr)
    if arguments.write:
        page.keep(page.AGREEMENT, ("protocol", "loss", "seeds"), COLUMNS, found)
        page.write()


if __name__ == "__main__":
    main()
