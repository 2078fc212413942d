#!/usr/bin/env bash
# Every check of the project as a named step: what CI runs, and what you run before you push.
#
#   ./ci.sh                 all steps
#   ./ci.sh format clippy   these steps
#
# Needs a Rust toolchain and, on a fresh machine, the package registries of Debian and of Rust. The
# last line is `N passed, N failed`: each test of each test runner counts one, and so does
# each command of README.md and each other step.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
exec </dev/null

# README.md names target/release/windward; it has to be there.
export CARGO_TARGET_DIR=$PWD/target
# What helps to compile a second time costs the first time.
export CARGO_TERM_COLOR=never CARGO_NET_RETRY=10 CARGO_INCREMENTAL=0

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

passed=0
failed=0
failures=()

pass() { passed=$((passed + ${1:-1})); }
fail() { failed=$((failed + 1)); failures+=("$1"); echo "FAILED: $1"; }

# check NAME COMMAND...: one check, passed if the command succeeds.
check() {
    local name=$1
    shift
    if "$@"; then pass; else fail "$name"; fi
}

# --- the steps ---------------------------------------------------------------------------

# What the others need. Counts only if it fails.
step_setup() {
    if ! command -v cargo >/dev/null; then
        fail "setup: no cargo; install Rust from https://rustup.rs"
        return
    fi
    if ! command -v cc >/dev/null; then
        # The linker of rustc.
        local sudo=()
        [ "$(id -u)" -eq 0 ] || sudo=(sudo)
        "${sudo[@]}" apt-get update -q &&
            DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -qy gcc libc6-dev ||
            fail "setup: a C compiler"
    fi
    for component in fmt clippy; do
        cargo "$component" --version >/dev/null 2>&1 && continue
        rustup component add "${component/#fmt/rustfmt}" || fail "setup: cargo $component"
    done
    cargo fetch --locked || fail "setup: dependencies"
}

step_format() {
    check format cargo fmt --all --check
}

step_clippy() {
    check clippy cargo clippy --workspace --all-targets --locked -- -D warnings
    check "clippy: sim without parquet" \
        cargo clippy -p windward-sim --no-default-features --all-targets --locked -- -D warnings
    check "clippy: windward without stacks" \
        cargo clippy -p windward --no-default-features --all-targets --locked -- -D warnings
}

# The program, the library and their tests compile for other systems, without a warning: the type check
# needs neither their linker nor a C compiler of theirs. Says so and passes where their standard
# libraries are not to be had, but not on CI.
step_portability() {
    local target
    for target in aarch64-apple-darwin x86_64-pc-windows-gnu; do
        if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] &&
            ! rustup target add "$target" >"$scratch/rustup.log" 2>&1; then
            tail -3 "$scratch/rustup.log"
            if [ -n "${CI:-}" ]; then
                fail "portability: no standard library for $target"
            else
                echo "skipped: there is no standard library for $target; rustup target add $target"
            fi
            continue
        fi
        check "portability: $target" \
            cargo clippy --workspace --all-targets --locked --target "$target" -- -D warnings
    done
}

# In the test profile: optimised, with overflow checks and debug assertions on.
step_tests() {
    local log=$scratch/tests.log status tests
    cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    tests=$(sum_of passed "$log")
    pass "$tests"
    local broken
    broken=$(sum_of failed "$log")
    # A runner that did not compile or was killed reports no failed test.
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    if [ "$tests" -eq 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    failed=$((failed + broken))
    [ "$broken" -eq 0 ] || failures+=("tests: $broken")
}

# sum_of passed|failed LOG: over the `test result:` lines of all runners.
sum_of() {
    sed -n "s/^test result: .* \([0-9][0-9]*\) $1;.*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

step_docs() {
    check docs env RUSTDOCFLAGS="-D warnings" \
        cargo doc --workspace --no-deps --document-private-items --locked
}

step_build() {
    check build cargo build --release --locked
}

# The first command of README.md, exactly as printed, and what it leaves.
step_reproduce() {
    rm -rf report
    check "reproduce" cargo run --release -- reproduce
    check "reproduce: a page" test -s report/index.html
    check "reproduce: nothing fetched from elsewhere" page_is_self_contained report/index.html
    check "reproduce: a verdict on each claim" has_all_claims report/claims.json
}

page_is_self_contained() {
    ! grep -nE '(src|href)="(https?:)?//|@import|url\(["'\'']?https?:' "$1"
}

has_all_claims() {
    local missing=0 id
    for id in L{1..14} L4b R{1..6} R3b R6b S{1..5} E{1..8} E2b W{1..7}; do
        grep -q "\"$id\"" "$1" || { echo "no verdict on $id"; missing=1; }
    done
    return $missing
}

# The pages of that as a browser shows them; says so and passes where there is none to be had.
step_browser() {
    if ! command -v python3 >/dev/null; then
        echo "skipped: the pages are looked at by a Python script, and there is no python3"
        return
    fi
    if ! command -v chromium >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium; } \
            >"$scratch/apt.log" 2>&1 || tail -3 "$scratch/apt.log"
    fi
    if ! command -v chromium >/dev/null; then
        echo "skipped: there is no chromium"
        return
    fi
    check "browser: every page can be read, narrow and wide" \
        python3 crates/report/tests/browser/check.py report
}

# Goodput beside ns-2 on a few scenarios; says so and passes where there is no ns-2 to be had.
step_validation() {
    if ! command -v python3 >/dev/null; then
        echo "skipped: the comparison with ns-2 is a Python script, and there is no python3"
        return
    fi
    if ! command -v ns >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends ns2; } \
            >"$scratch/apt.log" 2>&1 || tail -3 "$scratch/apt.log"
    fi
    check "validation: goodput as in ns-2" env WINDWARD=target/release/windward \
        python3 validation/ns2/compare.py --quick
}

# Instructions per packet-hop beside the committed values; says so and passes where there is no
# valgrind to be had.
step_instructions() {
    if ! command -v python3 >/dev/null; then
        echo "skipped: instructions are counted by a Python script, and there is no python3"
        return
    fi
    if ! command -v valgrind >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends valgrind; } \
            >"$scratch/apt.log" 2>&1 || tail -3 "$scratch/apt.log"
    fi
    if ! command -v valgrind >/dev/null; then
        echo "skipped: there is no valgrind"
        return
    fi
    check "instructions: none more than 5 % above the reference" \
        env WINDWARD=target/release/windward benches/instructions.sh
}

# The Python package: built as a newcomer would, then its tests, the code blocks of its page and the
# types. Skipped, and said so, where there is no Python that it supports.
step_python() {
    local python=python3 venv=$scratch/venv log=$scratch/python.log status tests broken
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "skipped: there is no python3 of version 3.11 or later, which the tests need"
        return
    fi
    if ! "$python" -m venv "$venv" 2>/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-venv; } \
            >"$scratch/apt.log" 2>&1 || tail -3 "$scratch/apt.log"
        "$python" -m venv "$venv"
    fi
    if ! "$venv/bin/pip" install -q . || ! "$venv/bin/pip" install -q -r python/requirements-test.txt; then
        fail "python: the package and what its tests need"
        return
    fi
    "$venv/bin/pytest" -n 2 --dist loadfile --durations 8 --pyargs python/tests docs/python.md docs/clusters.md windward 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    tests=$(grep -oE '[0-9]+ passed' "$log" | tail -1 | cut -d' ' -f1)
    broken=$(grep -oE '[0-9]+ (failed|error)' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
    pass "${tests:-0}"
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    for ((; broken > 0; broken--)); do fail "python: a test, see above"; done
    check "python: types, by mypy" "$venv/bin/mypy"
    check "python: the stub says what the extension has" "$venv/bin/python" -m mypy.stubtest \
        --allowlist python/stubtest-allowlist.txt windward._windward
    check "python: types, by pyright" "$venv/bin/basedpyright" --pythonpath "$venv/bin/python" --level error
}

# Each parser of bytes that others wrote, for a minute from the kept corpus; says so and passes where there is no C++ compiler
# to be had.
step_fuzz() {
    if ! command -v g++ >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends g++; } \
            >"$scratch/apt.log" 2>&1 || tail -3 "$scratch/apt.log"
    fi
    if ! command -v g++ >/dev/null; then
        echo "skipped: there is no g++, which libFuzzer is compiled by"
        return
    fi
    check "fuzz: no input breaks a parser" fuzz/run.sh 60
}

# The documentation site: its first page as a newcomer has it, the site from what that installed, and
# every block of code on its pages. Skipped, and said so, where there is no Python that it supports.
step_site() {
    local python=python3 home=$scratch/home log=$scratch/site.log ran broken
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "skipped: there is no python3 of version 3.11 or later, which the site needs"
        return
    fi
    if ! "$python" -m venv "$scratch/probe" 2>/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-venv; } \
            >"$scratch/apt.log" 2>&1 || tail -3 "$scratch/apt.log"
    fi
    # The home of somebody who has a toolchain and no more.
    mkdir -p "$home"
    check "site: the first page works as printed, in a virtual environment of its own" \
        env CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        PIP_CACHE_DIR="${PIP_CACHE_DIR:-$HOME/.cache/pip}" \
        "$python" docs/site/blocks.py --home "$home" --only docs/index.md
    check "site: built without a warning, every link inside leads somewhere" \
        docs/build.sh --venv "$home/windward-venv"
    "$home/windward-venv/bin/python" docs/site/blocks.py --except docs/index.md 2>&1 | tee "$log"
    ran=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$log")
    broken=$(sed -n 's/^.* passed, \([0-9]*\) failed$/\1/p' "$log")
    pass "${ran:-0}"
    for ((; ${broken:-1} > 0; broken = ${broken:-1} - 1)); do fail "site: a block of code, see above"; done
    check "site: its own checks find what is wrong" "$home/windward-venv/bin/python" docs/site/tests.py
}

# Every command of README.md's `console` blocks, in order. Those that are steps of their own
# are not run a second time.
step_readme() {
    local command count=0
    while IFS= read -r command; do
        count=$((count + 1))
        case $command in
            ./ci.sh | "cargo run --release -- reproduce") continue ;;
        esac
        echo "\$ $command"
        check "readme: $command" bash -c "$command"
    done < <(awk '/^```console$/ { on = 1; next } /^```/ { on = 0 } on && sub(/^\$ /, "")' README.md)
    # Should the blocks ever be written differently, say so instead of testing nothing.
    check "readme: it has commands" test "$count" -ge 8
}

# --- running them ------------------------------------------------------------------------

all=(setup format clippy portability tests docs build reproduce browser validation instructions python site readme fuzz)
steps=("${@:-${all[@]}}")
for step in "${steps[@]}"; do
    if [[ " ${all[*]} " != *" $step "* ]]; then
        echo "there is no step $step; the steps are: ${all[*]}" >&2
        exit 2
    fi
done

for step in "${steps[@]}"; do
    printf '\n=== %s\n' "$step"
    since=$SECONDS
    "step_$step"
    echo "=== $step: $((SECONDS - since)) s"
done

echo
for failure in "${failures[@]+"${failures[@]}"}"; do echo "failed: $failure"; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
