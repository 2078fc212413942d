#!/usr/bin/env bash
# Fuzzes the parsers of foreign bytes, from the corpus in this folder; needs g++.
#
#   fuzz/run.sh                  every target, 60 s each, two at a time
#   fuzz/run.sh 600 wire qlog    these targets, 600 s each
#
# Coverage-guided by libFuzzer, on the stable toolchain. An input that breaks a target is written to
# target/fuzz/TARGET/ and named; the exit status is then 1. Other inputs are kept there too: `--merge` adds
# those with new coverage to the corpus.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
merge=0
if [ "${1:-}" = --merge ]; then
    merge=1
    shift
fi
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(wire frames packets record qlog scenario)
host=$(rustc -vV | sed -n 's/^host: //p')
out=$PWD/../target/fuzz

# The flags of `cargo fuzz --sanitizer none`: coverage of edges and of comparisons, without nightly.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
# With a target named, build scripts and macros are not instrumented.
RUSTFLAGS=$(echo $coverage) CARGO_TARGET_DIR=$out/build \
    cargo build --release --locked --target "$host"
program=$out/build/$host/release/windward-fuzz

fuzz() {
    local target=$1 log=$out/$1.log
    mkdir -p "$out/$target/new" "corpus/$target"
    if ! WINDWARD_FUZZ=$target "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -max_len=4096 -verbosity=1 -print_final_stats=1 -artifact_prefix="$out/$target/" \
        "$out/$target/new" "corpus/$target" >"$log" 2>&1; then
        grep -aE 'panicked|ERROR|SUMMARY|Test unit written' "$log" || tail -5 "$log"
        echo "FAILED: $target, see $log"
        return 1
    fi
    echo "$target: $(grep -aoE 'stat::number_of_executed_units: *[0-9]+' "$log" | grep -oE '[0-9]+$') inputs, $(grep -aoE 'cov: [0-9]+' "$log" | tail -1)"
    if [ $merge -eq 1 ]; then
        WINDWARD_FUZZ=$target "$program" -merge=1 "corpus/$target" "$out/$target/new" >>"$log" 2>&1
    fi
}

status=0
running=()
for target in "${targets[@]}"; do
    fuzz "$target" &
    running+=($!)
    if [ ${#running[@]} -eq 2 ]; then
        wait "${running[0]}" || status=1
        running=("${running[@]:1}")
    fi
done
for process in "${running[@]}"; do wait "$process" || status=1; done
exit $status
