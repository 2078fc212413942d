#!/usr/bin/env python3
"""Cost of Python: a run compared with one of the program, a call of a part, and a call of a controller over arrays.

    python benches/python.py [target/release/windward]

Times are CPU seconds of the process, medians of alternating pairs.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

import windward as ww

ROOT = pathlib.Path(__file__).parents[1]
FIRST = ROOT / "experiments/examples/first.toml"
PAIRS = 15


class Reno:
    def __init__(self, setup):
        self.cwnd = setup.initial_window
        self.ssthresh = float("inf")

    def on_ack(self, ack):
        if ack.allows_growth:
            self.cwnd += ack.growth if self.cwnd < self.ssthresh else ack.growth / self.cwnd
        return self.cwnd

    def on_congestion(self, congestion):
        self.ssthresh = max(2.0, congestion.path.in_flight * congestion.kept(0.5))
        self.cwnd = self.ssthresh
        return self.cwnd

    def on_reset(self, reset):
        if not reset.repeated:
            self.ssthresh = max(2.0, reset.path.in_flight * reset.kept(0.5))
        self.cwnd = reset.window_after(self.cwnd)
        return self.cwnd


class OverArrays:
    """AIMD over arrays that changes nothing, so that the packets of a run do not depend on the number of calls."""

    asked = 0

    def __init__(self, setup):
        pass

    def on_interval(self, batch):
        OverArrays.asked += batch.cwnd.size
        grown = np.where(batch.active, batch.cwnd + 1, batch.cwnd)
        return np.where(batch.congestions > 0, batch.cwnd / 2, grown) * 0 + batch.cwnd


def over_arrays(flows, every):
    """Seconds per connection and interval of a call of a controller over arrays."""
    scenario = ww.Scenario.read(FIRST).with_(
        {
            "flows.clean.protocol": "sack",
            "flows.clean.count": flows,
            "dumbbell.bottleneck.rate": f"{flows}Mbit",
            "dumbbell.bottleneck.queue": f"{10 * flows}p",
        },
        duration="20s",
        warmup="0s",
    )
    costs = []
    for _ in range(5):
        plain, seldom = cpu(lambda: ww.run_batch(scenario, {"clean": OverArrays}, every=19, seed=1))
        OverArrays.asked = 0
        asked, often = cpu(lambda: ww.run_batch(scenario, {"clean": OverArrays}, every=every, seed=1))
        assert often.fingerprint == seldom.fingerprint
        costs.append((asked - plain) / OverArrays.asked)
    return statistics.median(costs), min(costs), max(costs)


def cpu(work):
    since = time.process_time()
    result = work()
    return time.process_time() - since, result


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/windward")
    scenario = ww.Scenario.read(FIRST).with_(duration="1000s")
    ratios = []
    for _ in range(PAIRS):
        ours, run = cpu(scenario.run)
        command = [program, "run", str(FIRST), "--set", "duration=1000s", "--json"]
        theirs = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert run.fingerprint == theirs["fingerprint"]
        ratios.append(ours / theirs["cpu_s"])
    print(f"a run: {statistics.median(ratios):.3f} of the program's CPU time "
          f"({min(ratios):.2f} to {max(ratios):.2f}, {PAIRS} pairs)")

    short = scenario.with_(duration="100s")
    per_call, per_read = [], []
    for _ in range(PAIRS):
        plain, run = cpu(short.run)
        acks = sum(run.flows["packets_sent"])
        python, again = cpu(short.with_parts(window={"*": Reno}).run)
        assert again.fingerprint == run.fingerprint
        per_call.append((python - plain) / acks)
        controller = ww.controller(on_ack="cwnd + growth / cwnd", on_loss="in_flight / 2")
        read, again = cpu(short.with_parts(window={"*": controller}).run)
        assert again.fingerprint == run.fingerprint
        per_read.append((read - plain) / acks)
    print(f"Reno in Python: {statistics.median(per_call) * 1e6:.2f} us per acknowledgment "
          f"({min(per_call) * 1e6:.2f} to {max(per_call) * 1e6:.2f})")
    print(f"Reno by expression: {statistics.median(per_read) * 1e9:.0f} ns per acknowledgment more "
          f"than in Rust ({min(per_read) * 1e9:.0f} to {max(per_read) * 1e9:.0f})")

    for flows in [10, 100, 1000]:
        cost, least, most = over_arrays(flows, 0.1)
        print(f"a controller over arrays, {flows} connections, every 100 ms: {cost * 1e6:.2f} us per "
              f"connection and interval ({least * 1e6:.2f} to {most * 1e6:.2f})")


if __name__ == "__main__":
    main()
