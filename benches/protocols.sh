#!/bin/sh
# Cost of a packet-hop with each protocol, compared with sack: N = 10 flows over one bottleneck of
# 1 Gbit/s (experiments/speed/dumbbell.toml), CPU nanoseconds per packet-hop and the ratio to sack.
#
#     benches/protocols.sh [ROUNDS [PROTOCOL...]]          3 rounds of all protocols by default
#
# Rounds go through all protocols in turn, so that a busy machine slows all of them; ratios are of
# medians. Of the program that program.sh names.
set -eu
cd "$(dirname "$0")/.."
. benches/program.sh
exec python3 - "${@:-3}" <<'PYTHON'
import json, os, statistics, subprocess, sys

rounds, names = int(sys.argv[1]), sys.argv[2:]
windward = os.environ["WINDWARD"]


def output(*words):
    return subprocess.run([windward, *words], check=True, capture_output=True, text=True).stdout


if not names:
    names = [protocol["name"] for protocol in json.loads(output("list", "--json"))]
names = ["sack"] + [name for name in names if name != "sack"]
costs = {name: [] for name in names}
for _ in range(rounds):
    for name in names:
        words = ["--set", f"flows.bulk.protocol={name}", "--set", "duration=5s"]
        (result,) = json.loads(output("bench", "experiments/speed/dumbbell.toml", *words,
                                      "--runs", "1", "--json", "--quiet"))
        costs[name].append(result["cpu_s"] / result["packet_hops"] * 1e9)
base = statistics.median(costs["sack"])
print(f"{rounds} rounds; medians")
print("| protocol             | ns per packet-hop | ratio to sack |")
print("|:---------------------|------------------:|--------------:|")
for name, all in costs.items():
    cost = statistics.median(all)
    print(f"| {name:20} | {cost:17.1f} | {cost / base:13.2f} |")
PYTHON
