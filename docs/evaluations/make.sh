#!/usr/bin/env bash
# Evaluates every protocol that is for the Internet as it is, and two QUIC stacks, and puts what came out
# beside this file. Takes the options of `windward evaluate`; a quick look takes some ten minutes.
#
#   docs/evaluations/make.sh --quick

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=target/evaluations
# Those that need nothing of routers: of the table what asks for none, and reads no notices of corruption.
mapfile -t rows < <(cargo run -q --release -- list --json | python3 -c '
import json, sys
for row in json.load(sys.stdin):
    if row["router"] == "none" and row["feedback"] in ("none", "timestamps", "l4s"):
        print(row["name"])')
cargo run -q --release -- evaluate "${rows[@]}" quinn:cubic quinn:newreno --out "$out" "$@"
cp "$out/evaluation.md" docs/evaluations/rfc9743.md
cp "$out/evaluation.json" docs/evaluations/rfc9743.json
