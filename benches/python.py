#!/usr/bin/env python3
"""What Python costs: a run beside the program's, and a call of a part.

    python benches/python.py [target/release/windward]

Times are CPU seconds of the process, medians of pairs that take turns.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

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
    per_call = []
    for _ in range(PAIRS):
        plain, run = cpu(short.run)
        acks = sum(run.flows["packets_sent"])
        python, again = cpu(short.with_parts(window={"*": Reno}).run)
        assert again.fingerprint == run.fingerprint
        per_call.append((python - plain) / acks)
    print(f"Reno in Python: {statistics.median(per_call) * 1e6:.2f} us per acknowledgment "
          f"({min(per_call) * 1e6:.2f} to {max(per_call) * 1e6:.2f})")


if __name__ == "__main__":
    main()
