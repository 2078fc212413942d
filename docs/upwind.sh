#!/bin/sh
# Makes all numbers about upwind with one program: docs/upwind.sh [WINDWARD [FOLDER]]
#
# Results, goals, ablation, worst links and the criteria of RFC 9743, into FOLDER (default: target/upwind);
# from there the tables of docs/upwind-results.md, the numbers that other pages cite from them, and the
# charts in docs/img. Some ten minutes on two cores. Without WINDWARD it compiles a release build.

set -eu
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
    cargo build --release --locked -p windward
fi
windward=${1:-target/release/windward}
folder=${2:-target/upwind}

"$windward" reproduce upwind experiments/upwind/goals-quinn.toml --out "$folder"
"$windward" evaluate upwind --quick --out "$folder/rfc9743"
"$windward" run experiments/upwind/idea.toml --plot "$folder/upwind-idea.svg"
for chart in alone beside growth idea; do
    cp "$folder/upwind-$chart.svg" docs/img/
done
python3 docs/tables.py docs/upwind-results.md "$folder" docs/upwind.md docs/protocols/upwind.md
