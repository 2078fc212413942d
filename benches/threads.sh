#!/bin/sh
# Speed of one run on several threads: the ratio of the times of one thread and of N, set-up and
# outcome included, as the median and the range over pairs of runs.
#
#     benches/threads.sh [PAIRS [N]]          7 pairs, 2 threads by default
#
# Rows of five bottlenecks that a tenth of the flows cross while the others cross one each, and one
# bottleneck; each flow has links and about 1 Mbit/s of its own. The fingerprints of all runs must be
# equal. Of the program that program.sh names.
set -eu
cd "$(dirname "$0")/.."
. benches/program.sh
exec python3 - "${1:-7}" "${2:-2}" <<'PYTHON'
import json, os, statistics, subprocess, sys, tempfile

pairs, threads = int(sys.argv[1]), sys.argv[2]
COMMON = """protocol = "sack"
packet_size = 1000
start = ["0s", "24ms"]
"""
ACCESS = '{ rate = "10Gbit", delay = "1ms", queue = "1000p" }'


def row(flows, seconds):
    """Five bottlenecks in a row."""
    long, cross = flows // 10, flows * 9 // 50
    rate = (long + cross) * 10**6
    text = f"""duration = "{seconds}s"
[parking_lot]
hops = 5
bottleneck = {{ rate = "{rate}bit", delay = "1ms", queue = "{2 * (long + cross)}p" }}
access = {ACCESS}
[[flows]]
group = "long"
count = {long}
{COMMON}"""
    for hop in range(5):
        text += f'[[flows]]\ngroup = "cross-{hop}"\ncount = {cross}\nhops = [{hop}]\n{COMMON}'
    return text


def dumbbell(flows, seconds):
    return f"""duration = "{seconds}s"
[dumbbell]
bottleneck = {{ rate = "{flows}Mbit", delay = "10ms", queue = "{2 * flows}p" }}
access = {ACCESS}
[[flows]]
group = "bulk"
count = {flows}
{COMMON}"""


def measure(file, count):
    command = [os.environ["WINDWARD"], "bench", file, "--runs", "1", "--threads", count,
               "--json", "--quiet"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(text)[0]


print(f"{pairs} pairs of runs on 1 and {threads} threads; medians (all)")
print("| scenario             | M hops | s on 1 | ratio               | CPU ratio | memory ratio |")
print("|:---------------------|-------:|-------:|:--------------------|----------:|-------------:|")
for name, text in [
    ("row, 10,000 flows", row(10_000, 2)),
    ("row, 100,000 flows", row(100_000, 0.5)),
    ("dumbbell, 10,000", dumbbell(10_000, 2)),
    ("dumbbell, 10", dumbbell(10, 500)),
]:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        runs = [(measure(file.name, "1"), measure(file.name, threads)) for _ in range(pairs)]
    if len({run["fingerprint"] for pair in runs for run in pair}) != 1:
        sys.exit(f"threads.sh: {name}: the runs differ")

    def ratios(key):
        return sorted(one[key] / several[key] for one, several in runs)

    faster = ratios("elapsed_s")
    all_of_them = f"{statistics.median(faster):.2f} ({faster[0]:.2f} to {faster[-1]:.2f})"
    print(f"| {name:20} | {runs[0][0]['packet_hops'] / 1e6:6.1f} "
          f"| {statistics.median(one['elapsed_s'] for one, _ in runs):6.2f} | {all_of_them:19} "
          f"| {statistics.median(1 / r for r in ratios('cpu_s')):9.2f} "
          f"| {statistics.median(1 / r for r in ratios('peak_memory_bytes')):12.2f} |", flush=True)
PYTHON
