#!/bin/sh
# What a packet-hop costs and what a flow takes in memory as the number of flows grows: CPU
# nanoseconds (user and system) per packet-hop, their ratio to ten flows, and bytes per flow.
#
#     benches/growth.sh [ROUNDS [PACKETS]]          1 round of 1 500 000 packets by default
#
# Two topologies: one bottleneck, each flow with access links of its own; and twenty bottlenecks in
# a row that half of the flows cross, while the others cross one each. Each flow has 1 Mbit/s and
# two packets of queue, whatever their number, and the run is as long as it takes to send PACKETS
# (a quarter of that over twenty bottlenecks) at that rate. Starting weighs more the more flows there
# are: see the column of hops for what was really carried. Rounds go through all sizes in turn. Memory is the peak of the process beyond that with ten flows, the scenario,
# the packets under way and the outcome included.
#
# FLOWS names other numbers of flows. WINDWARD names another binary than target/release/windward,
# which is built if it is not given. The last lines are the same as CSV, for docs/growth.csv.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${WINDWARD:-}" ]; then
    cargo build --release -q -p windward
    WINDWARD="${CARGO_TARGET_DIR:-target}/release/windward"
fi
export WINDWARD
exec python3 - "${1:-1}" "${2:-1500000}" <<'PYTHON'
import json, os, statistics, subprocess, sys, tempfile

rounds, packets = int(sys.argv[1]), int(sys.argv[2])
SIZES = [int(n) for n in os.environ.get("FLOWS", "10 100 1000 10000 100000").split()]
BOTTLENECKS = 20
# By bottleneck: its delay and the share of PACKETS.
TOPOLOGIES = {"one bottleneck": ("10ms", 1), "parking lot": ("1ms", 4)}
COMMON = """protocol = "sack"
packet_size = 1000
start = ["0s", "24ms"]
"""


def scenario(topology, flows):
    delay, share = TOPOLOGIES[topology]
    rate = flows * 10**6
    seconds = packets / share * 8000 / rate
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


def measure(topology, flows):
    """Packet-hops, CPU seconds and peak bytes of one run."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(scenario(topology, flows))
        file.flush()
        command = [os.environ["WINDWARD"], "bench", file.name, "--runs", "1", "--json", "--quiet"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (result,) = json.loads(text)
    return result["packet_hops"], result["cpu_s"], result["peak_memory_bytes"]


print(f"{rounds} rounds; medians")
print("| topology       |  flows | M hops | ns per packet-hop | ratio | bytes per flow |")
print("|:---------------|-------:|-------:|------------------:|------:|---------------:|")
rows = []
for topology in TOPOLOGIES:
    runs = {flows: [] for flows in SIZES}
    for _ in range(rounds):
        for flows in SIZES:
            runs[flows].append(measure(topology, flows))
    base_memory = statistics.median(memory for _, _, memory in runs[SIZES[0]])
    base = None
    for flows, results in runs.items():
        cost = statistics.median(cpu / hops * 1e9 for hops, cpu, _ in results)
        base = base or cost
        memory = statistics.median(memory for _, _, memory in results) - base_memory
        each = f"{memory / flows:14.0f}" if flows >= 1000 else f"{'':14}"
        print(f"| {topology:14} | {flows:6} | {results[0][0] / 1e6:6.1f} | {cost:17.1f} "
              f"| {cost / base:5.2f} | {each} |", flush=True)
        rows.append(f"{topology},{flows},{cost:.1f},{memory / flows:.0f}")
print("\ntopology,flows,ns_per_packet_hop,bytes_per_flow")
print("\n".join(rows))
PYTHON
