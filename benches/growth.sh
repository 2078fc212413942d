#!/bin/sh
# Cost of a packet-hop and memory of a flow as the number of flows grows: CPU nanoseconds (user and
# system) per packet-hop, their ratio to ten flows, and bytes per flow.
#
#     benches/growth.sh [ROUNDS [HOPS]]             1 round of 9 million packet-hops by default
#
# Two topologies: one bottleneck, each flow with access links of its own; and twenty bottlenecks in
# a row that half of the flows cross, while the others cross one each. Each flow has 1 Mbit/s and
# two packets of queue, for any number of flows. Flows start within 24 ms. Their slow start is over
# after 0.2 seconds over one bottleneck, which a run of its own measures and which is subtracted,
# with all set-up: the flows are in the same phase at every size. Rounds go through all sizes in
# turn. Memory is the peak of the process above that with ten flows, including the scenario, the
# packets in flight and the outcome. FLOWS names other numbers of flows, and program.sh the program.
set -eu
cd "$(dirname "$0")/.."
. benches/program.sh
exec python3 - "${1:-1}" "${2:-9000000}" <<'PYTHON'
import json, os, statistics, subprocess, sys, tempfile
from typing import NamedTuple

rounds, hops = int(sys.argv[1]), int(sys.argv[2])
SIZES = [int(n) for n in os.environ.get("FLOWS", "10 100 1000 10000 100000").split()]
BOTTLENECKS = 20
# By topology: the delay of a bottleneck, and the links that a packet and its acknowledgment cross
# on average.
TOPOLOGIES = {"one bottleneck": ("10ms", 6), "parking lot": ("1ms", 25)}
# Time until slow start is over.
SETTLED = 0.2
COMMON = """protocol = "sack"
packet_size = 1000
start = ["0s", "24ms"]
"""


class Run(NamedTuple):
    hops: int
    cpu: float
    memory: int


def scenario(topology, flows, seconds):
    delay = TOPOLOGIES[topology][0]
    rate = flows * 10**6
    link = f'{{ rate = "{rate}bit", delay = "{delay}", queue = "{max(2 * flows, 20)}p" }}'
    access = '{ rate = "10Gbit", delay = "1ms", queue = "1000p" }'
    text = f'duration = "{seconds:.6f}s"\n'
    if topology == "one bottleneck":
        groups = [("bulk", flows, "")]
        text += f"[dumbbell]\nbottleneck = {link}\naccess = {access}\n"
    else:
        text += f"[parking_lot]\nhops = {BOTTLENECKS}\nbottleneck = {link}\naccess = {access}\n"
        cross = flows - flows // 2
        groups = [("long", flows // 2, "")]
        for hop in range(BOTTLENECKS):
            count = cross * (hop + 1) // BOTTLENECKS - cross * hop // BOTTLENECKS
            groups.append((f"cross-{hop}", count, f"hops = [{hop}]\n"))
    for name, count, more in groups:
        if count:
            text += f'[[flows]]\ngroup = "{name}"\ncount = {count}\n{more}{COMMON}'
    return text


def measure(topology, flows, seconds):
    """Packet-hops, CPU seconds and peak bytes of one run."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(scenario(topology, flows, seconds))
        file.flush()
        command = [os.environ["WINDWARD"], "bench", file.name, "--runs", "1", "--threads", "1",
                   "--json", "--quiet"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (result,) = json.loads(text)
    return Run(result["packet_hops"], result["cpu_s"], result["peak_memory_bytes"])


def length(topology, flows):
    """The seconds in which settled flows make the packet-hops wanted: each sends 125 packets/s. A
    difference that is short beside the start would be noise."""
    return SETTLED + max(hops / (flows * 125 * TOPOLOGIES[topology][1]), SETTLED / 2)


print(f"{rounds} rounds; medians")
print("| topology       |  flows | simulated s | M hops | ns per packet-hop | ratio "
      "| bytes per flow |")
print("|:---------------|-------:|------------:|-------:|------------------:|------:"
      "|---------------:|")
for topology in TOPOLOGIES:
    runs = {flows: [] for flows in SIZES}
    for _ in range(rounds):
        for flows in SIZES:
            start = measure(topology, flows, SETTLED)
            runs[flows].append((start, measure(topology, flows, length(topology, flows))))
    base_memory = statistics.median(run.memory for _, run in runs[SIZES[0]])
    base = None
    for flows, results in runs.items():
        cost = statistics.median(
            (run.cpu - start.cpu) / (run.hops - start.hops) * 1e9 for start, run in results)
        base = base or cost
        memory = statistics.median(run.memory for _, run in results) - base_memory
        each = f"{memory / flows:14.0f}" if flows >= 1000 else f"{'':14}"
        start, run = results[0]
        print(f"| {topology:14} | {flows:6} | {length(topology, flows):11.3f} "
              f"| {(run.hops - start.hops) / 1e6:6.1f} | {cost:17.1f} | {cost / base:5.2f} "
              f"| {each} |", flush=True)
PYTHON
