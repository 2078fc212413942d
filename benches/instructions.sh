#!/bin/sh
# Instructions per packet-hop on a few fixed scenarios, compared with the values in instructions.csv.
# Unlike times they hardly depend on the machine. A value more than 5 % above is a failure.
#
#     benches/instructions.sh            compare
#     benches/instructions.sh --bless    write the values and the compiler's version
#
# Counted by callgrind between two lengths of the run, so that the start cancels out. Values
# belong to one compiler: with another they are printed and not compared. Of the program that
# program.sh names.
set -eu
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null 2>&1; then
    echo "instructions.sh: there is no valgrind on the PATH; on Debian: apt-get install valgrind" >&2
    exit 1
fi
. benches/program.sh
exec python3 - "${1:-}" <<'PYTHON'
import csv, json, os, platform, re, subprocess, sys

BOUND = 1.05
FILE = "benches/instructions.csv"
DUMBBELL, LR = "experiments/speed/dumbbell.toml", "validation/ns2/lr-dumbbell.toml"
# Name: file, changes, the two lengths in seconds.
CASES = {
    "sack-10": (DUMBBELL, {}, (1, 1.5)),
    "sack-100": (DUMBBELL, {"flows.bulk.count": 100}, (1, 1.5)),
    "westwood-10": (DUMBBELL, {"flows.bulk.protocol": "westwood"}, (1, 1.5)),
    "xcp-10": (DUMBBELL, {"flows.bulk.protocol": "xcp"}, (1, 1.5)),
    "bbr-10": (DUMBBELL, {"flows.bulk.protocol": "bbr"}, (1, 1.5)),
    "upwind-10": (DUMBBELL, {"flows.bulk.protocol": "upwind"}, (1, 1.5)),
    "lr-newreno": (LR, {"flows.*.protocol": "newreno", "warmup": "0s"}, (60, 120)),
}


def count(file, changes, seconds):
    """Packet-hops and instructions of one run."""
    words = [w for key, value in changes.items() for w in ("--set", f"{key}={value}")]
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
         os.environ["WINDWARD"], "run", file, "--json", "--quiet", *words,
         "--set", f"duration={seconds}s"],
        check=True, capture_output=True, text=True)
    return json.loads(run.stdout)["packet_hops"], int(re.search(r"Collected : (\d+)", run.stderr)[1])


compiler = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True)
compiler = f"{compiler.stdout.strip()} {platform.machine()}"
measured = {}
for name, (file, changes, lengths) in CASES.items():
    (hops_a, all_a), (hops_b, all_b) = (count(file, changes, length) for length in lengths)
    measured[name] = (all_b - all_a) / (hops_b - hops_a)

if sys.argv[1:] == ["--bless"]:
    with open(FILE, "w") as out:
        out.write(f"compiler,{compiler}\n")
        out.writelines(f"{name},{value:.1f}\n" for name, value in measured.items())
with open(FILE) as lines:
    known = dict(csv.reader(lines))
comparable = known.pop("compiler") == compiler
if not comparable:
    print(f"not compared: the values are not of {compiler}")
print("| scenario    | instructions per packet-hop | reference | ratio |")
print("|:------------|----------------------------:|----------:|------:|")
failed = False
for name, value in measured.items():
    reference = float(known[name])
    failed |= value > BOUND * reference
    print(f"| {name:11} | {value:27.1f} | {reference:9.1f} | {value / reference:5.3f} |")
if comparable and failed:
    sys.exit("instructions.sh: more than 5 % above the reference; if that is right, --bless it")
PYTHON
