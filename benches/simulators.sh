#!/bin/sh
# Speed of Windward, ns-2 and ns-3: packet-hops per CPU second (user and system), the ratio of the
# medians, peak memory. First on experiments/speed/dumbbell.toml with ns-2 at its best (benches/
# ns2/dumbbell.tcl: Splay, only the headers in use), and, if it is installed, ns-3 for two simulated
# seconds (benches/ns3/dumbbell.cc). Then on the dumbbell of lr2008 with newreno and xcp-dumb at 1 %
# of loss (validation/ns2/scenario.tcl), where Windward and ns-2 carry the same packets except for
# the random losses; the ratio is then that of CPU seconds per run.
#
#     benches/simulators.sh [ROUNDS]          3 by default
#
# Rounds alternate between the programs, so that a busy machine slows all. Of the program that
# program.sh names.
set -eu
cd "$(dirname "$0")/.."
if ! command -v ns >/dev/null 2>&1; then
    echo "simulators.sh: there is no ns on the PATH; on Debian: apt-get install ns2" >&2
    exit 1
fi
. benches/program.sh
exec python3 - "${1:-3}" <<'PYTHON'
import json, os, shutil, statistics, subprocess, sys, tempfile

rounds = int(sys.argv[1])
SCENARIO = "experiments/speed/dumbbell.toml"
# Ten times as long as in the paper, since Windward needs less than a tenth of a second for that.
LR_SECONDS = 3000


def measure(command):
    """Standard output, CPU seconds and peak memory in MB of one process."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"simulators.sh: {' '.join(command)} failed")
        out.seek(0)
        text = out.read().decode()
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def windward(flows):
    command = [os.environ["WINDWARD"], "run", SCENARIO, "--json"]
    text, cpu, memory = measure(command + ["--set", f"flows.bulk.count={flows}"])
    result = json.loads(text)
    goodput = sum(group["goodput_bps"] for group in result["groups"])
    return result["packet_hops"], goodput, cpu, memory


def ns2(flows):
    return ns(["ns", "benches/ns2/dumbbell.tcl", f"flows={flows}"])


def ns3(flows):
    return ns([f"{folder.name}/dumbbell", f"--flows={flows}"])


def ns(command):
    text, cpu, memory = measure(command)
    words = text.split()
    result = dict(zip(words[::2], words[1::2]))
    return int(result["packet_hops"]), float(result["goodput_bps"]), cpu, memory


def lr_windward(protocol):
    words = ["--set", f"flows.*.protocol={protocol}", "--set", "flows.lossy.last_hop.loss=0.01",
             "--set", f"duration={LR_SECONDS}s"]
    text, cpu, memory = measure([os.environ["WINDWARD"], "run", "validation/ns2/lr-dumbbell.toml",
                                 "--json", *words])
    return sum(group["goodput_bps"] for group in json.loads(text)["groups"]), cpu, memory


def lr_ns2(protocol):
    text, cpu, memory = measure(["ns", "validation/ns2/scenario.tcl", "topology=lr-dumbbell",
                                 f"protocol={protocol}", "loss=0.01", f"duration={LR_SECONDS}",
                                 "warmup=50"])
    words = text.split()
    result = dict(zip(words[::2], words[1::2]))
    return float(result["goodput"]), cpu, memory


programs = {"ns-2": ns2, "Windward": windward}
parts = ["ns3-point-to-point", "ns3-applications", "ns3-traffic-control"]
folder = tempfile.TemporaryDirectory()
if shutil.which("pkg-config") and subprocess.run(["pkg-config", "--exists", *parts]).returncode == 0:
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", *parts], check=True,
                           capture_output=True, text=True).stdout.split()
    subprocess.run(["g++", "-O2", "benches/ns3/dumbbell.cc", "-o", f"{folder.name}/dumbbell", *flags],
                   check=True)
    programs["ns-3"] = ns3
else:
    print("without ns-3; on Debian: apt-get install libns3-dev libgsl-dev pkg-config\n")
print(f"{rounds} rounds, alternating; millions of packet-hops per CPU second (user + sys)\n")
print("|   N | program  |  M hops | goodput Mbit/s | M hops/s: median (all)       | peak MB | ratio |")
print("|----:|:---------|--------:|---------------:|:-----------------------------|--------:|------:|")
for flows in (10, 100):
    runs = {name: [] for name in programs}
    for _ in range(rounds):
        for name, run in programs.items():
            runs[name].append(run(flows))
    median = {}
    for name, results in runs.items():
        speeds = [hops / cpu / 1e6 for hops, _, cpu, _ in results]
        median[name] = statistics.median(speeds)
        hops, goodput, _, _ = results[0]
        memory = max(result[3] for result in results)
        ratio = median[name] / median["ns-2"]
        speed = f"{median[name]:.2f} ({' '.join(f'{s:.2f}' for s in speeds)})"
        print(f"| {flows:3} | {name:8} | {hops / 1e6:7.2f} | {goodput / 1e6:14.1f} "
              f"| {speed:28} | {memory:7.1f} | {ratio:5.3g} |", flush=True)

print("\n| LR dumbbell | program  | goodput Mbit/s | CPU seconds: median (all)    | peak MB | ratio |")
print("|:------------|:---------|---------------:|:-----------------------------|--------:|------:|")
for protocol in ("newreno", "xcp-dumb"):
    runs = {"ns-2": [], "Windward": []}
    for _ in range(rounds):
        runs["ns-2"].append(lr_ns2(protocol))
        runs["Windward"].append(lr_windward(protocol))
    median = {}
    for name, results in runs.items():
        median[name] = statistics.median(cpu for _, cpu, _ in results)
        goodput, memory = results[0][0], max(result[2] for result in results)
        ratio = median["ns-2"] / median[name]
        cpu = f"{median[name]:.2f} ({' '.join(f'{c:.2f}' for _, c, _ in results)})"
        print(f"| {protocol:11} | {name:8} | {goodput / 1e6:14.2f} | {cpu:28} | {memory:7.1f} "
              f"| {ratio:5.2f} |", flush=True)
PYTHON
