#!/usr/bin/env bash
# Evaluates every protocol of the table and six controllers of QUIC stacks, and puts what came out beside this file:
# rfc9743.md those that need nothing of routers, upwind.md upwind beside others, assisted.md those that need routers. The
# first are evaluated with `--full`, which takes more than an hour on two cores, the others with `--quick`. noq:bbr3
# (noq-bbr3.md) looks at every packet of ten round trips for each acknowledgment: over 10 Gbit/s and 600 ms, `--full`
# takes days. The options of `windward evaluate` for the first may be given, as in
#
#   docs/evaluations/make.sh --quick

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build -q --release --locked
windward=target/release/windward

# Names of the rows that ask nothing of routers and read no notices of corruption, or of the others.
rows() {
    $windward list --json | python3 -c '
import json, sys
for row in json.load(sys.stdin):
    alone = row["router"] == "none" and row["feedback"] in ("none", "timestamps", "l4s", "help")
    if alone == (sys.argv[1] == "alone") and row["name"] != "upwind":
        print(row["name"])' "$1"
}

mapfile -t alone < <(rows alone)
mapfile -t assisted < <(rows assisted)
$windward evaluate "${alone[@]}" quinn:cubic quinn:newreno quinn:bbr noq:s2n-cubic noq:s2n-bbr \
    --out target/evaluations/rfc9743 "${@:---full}"
$windward evaluate upwind bbr1 bbr cubic copa abba lr-lmxtcp --quick --out target/evaluations/upwind
$windward evaluate noq:bbr3 --quick --out target/evaluations/noq-bbr3
$windward evaluate "${assisted[@]}" --quick --out target/evaluations/assisted
for name in rfc9743 upwind noq-bbr3 assisted; do
    cp "target/evaluations/$name/evaluation.md" "docs/evaluations/$name.md"
    cp "target/evaluations/$name/evaluation.json" "docs/evaluations/$name.json"
done
python3 docs/evaluations/table.py
