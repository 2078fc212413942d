#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# ///
"""Measures `upwind` behind AQMs, and writes the tables of the model and of marks into ../upwind.md.

    cargo build --release
    docs/upwind/aqms.py --no-page    # two minutes on two cores
    docs/upwind/aqms.py              # the tables in ../upwind.md

The result depends on the program and not on the number of workers.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from goals import PACKET, ROOT, Cell, Flows, Found, bottleneck, dropped, queues, simulate, write

#: The cells of ten of the goals, with their names in the table.
MODEL = {
    "CoDel, 4, 4": "4 flows, 4 Mbit/s, 60 ms, CoDel",
    "CoDel, 16, 16": "16 flows, 16 Mbit/s, 60 ms, CoDel",
    "CoDel, 32, 32": "32 flows, 32 Mbit/s, 60 ms, CoDel",
    "CoDel, 6, 20, RTT 40 ms": "6 flows, 20 Mbit/s, 40 ms, CoDel",
    "CoDel, 16, 40": "16 flows, 40 Mbit/s, 60 ms, CoDel",
    "PIE, 4, 4": "4 flows, 4 Mbit/s, 60 ms, PIE",
    "PIE, 32, 32": "32 flows, 32 Mbit/s, 60 ms, PIE",
    "PIE, 10, 30, RTT 25 ms": "10 flows, 30 Mbit/s, 25 ms, PIE",
    "PIE, 16, 40": "16 flows, 40 Mbit/s, 60 ms, PIE",
    "RED 20 to 80, 16, 10": "16 flows, 10 Mbit/s, 60 ms, RED 20 to 80",
}
AQMS = ("fq-codel", "codel", "pie", "red")
SIZES = ((1, 2), (1, 20), (4, 4), (16, 16), (16, 40))


def jain(found: Found) -> float:
    rates = [flow["goodput_bps"] for flow in found["flows"]]
    return sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))


class Bench:
    """Runs cells with several seeds at once."""

    def __init__(self, program: str, jobs: int) -> None:
        self.program, self.pool = program, ThreadPoolExecutor(jobs)

    def runs(self, cell: Cell, protocol: str, seeds: range, ecn: bool | None = None) -> list[Found]:
        changes = [] if ecn is None else [f"endpoint.ecn={str(ecn).lower()}"]
        return list(self.pool.map(lambda seed: simulate(self.program, cell, protocol, seed, changes), seeds))

    def model(self) -> Iterator[str]:
        yield (
            "| AQM, flows, Mbit/s | upwind: queueing delay, ms | drops by the model, % | drops, % "
            "| newreno: queueing delay, ms | drops by the model, % | drops, % |"
        )
        yield "| --- " * 7 + "|"
        cells = {cell.name: cell for cell in queues()}
        for label, name in MODEL.items():
            cell, columns = cells[name], []
            rate = cell.rate * 1e6 / 8 / PACKET
            for protocol, factors in (("upwind", (1.5, 2.0)), ("newreno", (1.5,))):
                found = self.runs(cell, protocol, range(1, 6))
                queue = statistics.fmean(bottleneck(each)["mean_queue_packets"] for each in found)
                drops = statistics.fmean(dropped(cell, each) for each in found)
                # (n / B)^2, where path and queue hold B packets.
                unit = (cell.flows[0].count / (rate * cell.rtt / 1e3 + queue)) ** 2
                said = " to ".join(f"{100 * factor * unit:.1f}" for factor in factors)
                columns += [f"{1e3 * queue / rate:.0f}", said, f"{100 * drops:.1f}"]
            yield f"| {label} | " + " | ".join(columns) + " |"

    def marks(self) -> Iterator[str]:
        yield "| AQM | flows, Mbit/s | utilization | queueing delay, ms | dropped, % | marked, % | Jain's index |"
        yield "| --- " * 7 + "|"
        for count, mbits in SIZES:
            rate = mbits * 1e6 / 8 / PACKET
            pipe = rate * 0.06
            red = f'{{ kind = "red", min_threshold = {max(5, round(pipe / 4))}, '
            red += f"max_threshold = {max(15, round(0.75 * pipe))}, ecn = true }}"
            cell = Cell("marks", mbits, 60, (Flows(count),), (), queue=8, duration=90, warmup=30)
            for kind in AQMS:
                aqm = red if kind == "red" else f'{{ kind = "{kind}", ecn = true }}'
                groups = [
                    self.runs(replace(cell, aqm=aqm), protocol, range(1, 3), ecn)
                    for protocol, ecn in (("upwind", True), ("upwind", False), ("newreno", True))
                ]

                def column(read, digits: int, groups=groups) -> str:
                    return " ".join(f"{statistics.fmean(map(read, found)):.{digits}f}" for found in groups)

                columns = (
                    column(lambda found: bottleneck(found)["utilization"], 2),
                    column(lambda found, rate=rate: 1e3 * bottleneck(found)["mean_queue_packets"] / rate, 0),
                    column(lambda found, cell=cell: 100 * dropped(cell, found), 1),
                    column(lambda found: 100 * bottleneck(found)["marked"] / max(bottleneck(found)["arrived"], 1), 1),
                    column(jain, 2),
                )
                yield f"| {kind} | {count}, {mbits} | " + " | ".join(columns) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/windward"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-page", action="store_true", help="print the tables only")
    given = parser.parse_args()
    bench = Bench(given.program, given.jobs)
    for name, rows in (("model", bench.model()), ("marks", bench.marks())):
        table = []
        for row in rows:
            print(row, flush=True)
            table.append(row)
        if not given.no_page:
            write(f"<!-- made by upwind/aqms.py: {name} -->\n", "\n".join(table) + "\n")


if __name__ == "__main__":
    main()
