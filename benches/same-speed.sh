#!/usr/bin/env bash
# Fails if a program is slower than a reference: benches/same-speed.sh REFERENCE PROGRAM
#
# Both simulate the scenario of experiments/speed/dumbbell.toml in turns, five times; the fastest runs are compared. Up to
# 5 % is noise.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

speed() { "$1" bench --quiet --runs 1 --json | grep -o '"packet_hops_per_cpu_s": *[0-9.e+]*' | head -1 | grep -o '[0-9.e+]*$'; }

for _ in 1 2 3 4 5; do
    echo "$(speed "$1") $(speed "$2")"
done | awk '
    { if ($1 > reference) reference = $1; if ($2 > program) program = $2 }
    END {
        printf "%.1f and %.1f million packet-hops per second\n", reference / 1e6, program / 1e6
        exit program < 0.95 * reference
    }'
