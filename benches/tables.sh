#!/bin/sh
# All tables of docs/performance.md but that of emulation, on one machine in one session: about
# half an hour. Needs ns2, valgrind, libns3-dev, libgsl-dev and pkg-config (Debian packages) and an
# idle machine.
#
#     benches/tables.sh
set -eu
cd "$(dirname "$0")/.."
. benches/program.sh
floor=$(mktemp)
trap 'rm -f "$floor"' EXIT
rustc -O benches/floor.rs -o "$floor"
benches/instructions.sh
benches/simulators.sh 5
benches/protocols.sh 7 newreno westwood xcp bbr upwind
benches/growth.sh 3
"$floor"
benches/threads.sh 7
