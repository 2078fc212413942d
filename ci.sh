#!/usr/bin/env bash
# Every check of the project as a named step, for CI and before a push.
#
#   ./ci.sh                 all steps
#   ./ci.sh format clippy   these steps
#   ./ci.sh quick           after a change in the core: format, lints and tests of the core, golden runs
#
# Steps run in parallel, and tests by the wall clock in parallel with all others. The output of one step is shown as it
# comes, and that of any other at its end. Needs bash 5.1, a Rust toolchain and, on a fresh machine, the package
# registries of Debian and of Rust. The last line is `N passed, N failed`: each test of each test runner counts
# one, and so does each command of README.md and each other step.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
exec </dev/null

# The place of target/release/windward, which README.md names.
export CARGO_TARGET_DIR=$PWD/target
export CARGO_TERM_COLOR=never CARGO_NET_RETRY=10

scratch=$(mktemp -d)

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

# offer COMMAND PACKAGE: true if the command exists; installs it from Debian where possible.
offer() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        install_debian "$2" >"$scratch/apt-$2.log" 2>&1 || tail -3 "$scratch/apt-$2.log"
    fi
    command -v "$1" >/dev/null
}

# One at a time, since steps run in parallel.
install_debian() {
    (
        flock 9
        apt-get update -q &&
            DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$1"
    ) 9>"$scratch/apt.lock"
}

# newer_python: true if there is a Python for the tests of the package, with virtual environments.
newer_python() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || return
    python3 -c 'import ensurepip' 2>/dev/null || install_debian python3-venv >"$scratch/apt-venv.log" 2>&1 ||
        tail -3 "$scratch/apt-venv.log"
}

# --- the steps ---------------------------------------------------------------------------

# Prerequisites of the other steps. Counts only if it fails.
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

# No cycle of files or crates, and no import against the order of the layers.
step_house() {
    check "house: imports run one way" python3 docs/house.py --check
}

step_prose() {
    check "prose: plain technical English" python3 docs/prose.py
}

step_clippy() {
    check clippy lint --workspace
    check "clippy: sim without parquet" lint -p windward-sim --no-default-features
    # With windward-stacks, so that dependencies have the same features as for the workspace.
    check "clippy: windward without stacks" lint -p windward -p windward-stacks --no-default-features
}

# lint WORD...: clippy of these packages, their tests and their examples. Like the steps docs and portability, it
# uses the macros and the build scripts' output of the release.
lint() {
    cargo clippy --release --all-targets --locked "$@" -- -D warnings
}

# The program, the library and their tests compile for other systems without a warning: the type check
# needs neither their linker nor their C compiler. Of a crate that names no target, only the library is checked, since
# its tests compile everywhere or nowhere. Passes with a note where the standard libraries of the other systems are not
# available, but not on CI.
step_portability() {
    local target crate targets=() others=()
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
        targets+=(--target "$target")
    done
    for crate in crates/*/; do
        grep -rqE 'cfg!?\(.*(unix|windows|target_)|std::os::' --include='*.rs' --include=Cargo.toml "$crate" ||
            others+=(--exclude "$(sed -n '0,/^name = /s/^name = "\(.*\)"/\1/p' "$crate/Cargo.toml")")
    done
    [ ${#targets[@]} -eq 0 ] || check portability check_types --workspace --all-targets "${others[@]}" "${targets[@]}"
}

check_types() {
    CARGO_TARGET_AARCH64_APPLE_DARWIN_RUSTFLAGS="-D warnings" CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS="-D warnings" \
        cargo check --release --locked "$@"
}

# The tests are compiled from the dependencies of the release, in its directory, but with overflow checks and debug
# assertions on (the profile `bench` of Cargo.toml). Programs that they start lie apart from those of the release.
test_flags=(--workspace --exclude windward-py --profile bench --locked --no-fail-fast)

# Output of cargo test with these arguments.
cargo_test() {
    CARGO_TARGET_DIR=$PWD/target/tests CARGO_BUILD_BUILD_DIR=$PWD/target cargo test "${test_flags[@]}" "$@" 2>&1
}

# run_tests WORD...: the same, and counts each test.
run_tests() {
    local log=$scratch/tests-$BASHPID-$RANDOM.log status tests broken
    cargo_test "$@" | tee "$log"
    status=${PIPESTATUS[0]}
    tests=$(sum_of passed "$log")
    broken=$(sum_of failed "$log")
    pass "$tests"
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

# Counts only if it fails.
step_compile() {
    cargo_test --lib --bins --test '*' --no-run || fail "compile: the tests"
}

# Tests by the wall clock, which wait more than they compute: these programs, and these modules of the tests of
# the command line.
clocked=(router namespaces)
clocked_modules=(clean_link:: compare:: emulate:: perf:: web::)

# All other tests.
step_tests() {
    local path name others=()
    for path in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
        name=${path%/main.rs}
        name=$(basename "$name" .rs)
        case " cli ${clocked[*]} ${others[*]} " in *" $name "*) ;; *) others+=("$name") ;; esac
    done
    run_tests --lib --bins "${others[@]/#/--test=}"
    run_tests --test cli -- "${clocked_modules[@]/#/--skip=}"
    run_tests --doc
}

step_clocked() {
    run_tests "${clocked[@]/#/--test=}"
    run_tests --test cli -- "${clocked_modules[@]:1}"
    # Alone, since it measures a rate: 65 s.
    run_tests --test cli -- "${clocked_modules[0]}"
}

step_docs() {
    check docs env RUSTDOCFLAGS="-D warnings" \
        cargo doc --release --workspace --no-deps --document-private-items --locked
}

step_build() {
    check build cargo build --release --locked
}

# A controller in C: compiled, evaluated for one criterion, and one that returns NaN.
step_c() {
    local out=$scratch/c
    mkdir -p "$out"
    for name in aimd notify; do
        check "c: $name compiles" cc -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -I crates/native/include \
            "examples/c/$name.c" -o "$out/$name.so"
        check "c: $name is evaluated" target/release/windward evaluate --quiet "$out/$name.so" --only high-loss --out "$out/$name"
    done
    # What a broken one returns or is made with, and a word of its verdict.
    local broken case from to said
    broken=(
        'return ((struct aimd .)state)->window|return 0.0 / 0.0|a window of NaN packets'
        'return ((struct aimd .)state)->window|return 0.0|a window of 0 packets'
        'return ((struct aimd .)state)->window|return -1e300|a window of -'
        'return ((struct aimd .)state)->window|return 4e9 * 1500|a window of'
        'return ((struct aimd .)state)->window|static double n; return 15000 + ++n|not deterministic'
        '.destroy = |.pacing_rate = tiny, .destroy = |a pacing rate of'
        '.create = |.needs = 0xffff, .create = |unknown bits 0xfffe'
    )
    for case in "${broken[@]}"; do
        IFS='|' read -r from to said <<<"$case"
        sed "s|$from|$to|" examples/c/aimd.c >"$out/nan.c"
        sed -i '/^const struct windward_controller/i static double tiny(void *state) { (void)state; return 1e-300; }' "$out/nan.c"
        cc -shared -fPIC -I crates/native/include "$out/nan.c" -o "$out/nan.so"
        # The name is a number of TOML.
        check "c: $to is a verdict" bash -c \
            "target/release/windward evaluate --quiet nan=$out/nan.so --only high-loss --out $out/nan 2>&1 | grep '$said'"
    done
}

# The additions that CONTRIBUTING.md describes, carried out in a copy.
step_guide() {
    local log=$scratch/guide.log ran broken
    if ! command -v python3 >/dev/null; then
        echo "skipped: the guide is carried out by a Python script, and there is no python3"
        return
    fi
    python3 docs/guide.py 2>&1 | tee "$log"
    ran=$(sed -n 's/^guide: \([0-9]*\) passed, .*/\1/p' "$log")
    broken=$(sed -n 's/^guide: .* passed, \([0-9]*\) failed$/\1/p' "$log")
    pass "${ran:-0}"
    for ((; ${broken:-1} > 0; broken = ${broken:-1} - 1)); do fail "guide: see above"; done
}

# The first command of README.md, exactly as printed, and its results.
step_reproduce() {
    rm -rf report
    check "reproduce" cargo run --release -- reproduce
    check "reproduce: a page" test -s report/index.html
    check "reproduce: nothing fetched from elsewhere" page_is_self_contained report/index.html
    check "reproduce: a verdict on each claim" has_all_claims report/claims.json
    command -v python3 >/dev/null || return 0
    check "reproduce: no check is too strict or too lax unawares" python3 docs/controls.py report/claims.json
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

# The pages of that report in a browser; passes with a note without a browser.
step_browser() {
    if ! command -v python3 >/dev/null; then
        echo "skipped: the pages are looked at by a Python script, and there is no python3"
    elif ! offer chromium chromium; then
        echo "skipped: there is no chromium"
    else
        check "browser: every page can be read, narrow and wide" \
            python3 crates/report/tests/browser/check.py report
    fi
}

# The package for JavaScript, built, compared with the program, packed, and installed into an empty project; and the
# playground, driven in a browser.
step_web() {
    local log=$scratch/web.log status project=$scratch/npm
    if ! offer node nodejs || ! offer npm npm; then
        echo "skipped: there is no node with npm"
        return
    fi
    if ! crates/web/build.sh; then
        fail "web: the package"
        return
    fi
    check "web: the page in the program is the one that crates/web/build.sh --page makes" node crates/web/tests/dist.mjs
    (cd crates/web && node --test tests/*.test.mjs) 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    pass "$(sed -n 's/^[#ℹ] pass //p' "$log")"
    [ "$status" -eq 0 ] || fail "web: a test, see above"
    check "web: the package gives the same in Deno" \
        crates/web/node_modules/.bin/deno test -A crates/web/tests/package.test.mjs
    if offer chromium chromium; then
        check "web: the playground, driven in a browser, agrees with the program" node crates/web/tests/play.mjs
        check "web: live charts of a shell in a browser" node crates/web/tests/live.mjs
        check "web: reports in a browser" node crates/web/tests/report.mjs
        if command -v firefox-esr >/dev/null; then
            check "web: the playground in Firefox" env FIREFOX=/usr/bin/firefox-esr node crates/web/tests/play.mjs
            check "web: live charts in Firefox" env FIREFOX=/usr/bin/firefox-esr node crates/web/tests/live.mjs
        fi
    else
        echo "skipped: there is no chromium"
    fi
    mkdir -p "$project"
    check "web: the package installs into an empty project and its example runs" install_package "$project"
}

install_package() {
    local tarball
    tarball=$(cd target/npm/windward && npm pack --silent --pack-destination "$1") &&
        cd "$1" && npm init -y >/dev/null && npm install --silent --offline "./$tarball" &&
        cp node_modules/windward/example.mjs node_modules/windward/first.toml . &&
        node example.mjs | grep -q "^upwind: .* fingerprint [0-9a-f]\{16\}$"
}

# Goodput compared with ns-2 on a few scenarios; passes with a note without ns-2.
step_validation() {
    if ! command -v python3 >/dev/null; then
        echo "skipped: the comparison with ns-2 is a Python script, and there is no python3"
        return
    fi
    offer ns ns2
    check "validation: goodput as in ns-2" env WINDWARD=target/release/windward \
        python3 validation/ns2/compare.py --quick
}

# Instructions per packet-hop compared with the committed values; passes with a note without
# valgrind.
step_instructions() {
    if ! command -v python3 >/dev/null; then
        echo "skipped: instructions are counted by a Python script, and there is no python3"
    elif ! offer valgrind valgrind; then
        echo "skipped: there is no valgrind"
    else
        check "instructions: none more than 5 % above the reference" \
            env WINDWARD=target/release/windward benches/instructions.sh
    fi
}

# The Python package: a wheel as in docs/install.md, its tests and the code blocks of its page. Skipped with a
# note without a Python that it supports.
step_python() {
    local venv=$scratch/venv log=$scratch/python.log status tests broken
    if ! newer_python; then
        echo "skipped: there is no python3 of version 3.11 or later, which the tests need"
        return
    fi
    python3 -m venv "$venv"
    rm -rf target/wheels
    if ! "$venv/bin/pip" wheel -v --no-deps -w target/wheels . >"$log" 2>&1; then
        tail -30 "$log"
        fail "python: the package"
        return
    fi
    if ! "$venv/bin/pip" install -q --no-compile target/wheels/*.whl -r python/requirements-test.txt; then
        fail "python: what the tests need"
        return
    fi
    "$venv/bin/pytest" -n 2 --dist loadfile --durations 8 --pyargs python/tests docs/python.md docs/clusters.md windward 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    tests=$(grep -oE '[0-9]+ passed' "$log" | tail -1 | cut -d' ' -f1)
    broken=$(grep -oE '[0-9]+ (failed|error)' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
    pass "${tests:-0}"
    if [ "$status" -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
    for ((; broken > 0; broken--)); do fail "python: a test, see above"; done
}

# The types of the package that step_python installed.
step_types() {
    local venv=$scratch/venv
    if ! [ -x "$venv/bin/mypy" ]; then
        echo "skipped: the step python, which installs the package, did not run or did not get there"
        return
    fi
    check "types: by mypy" "$venv/bin/mypy"
    check "types: the stub says what the extension has" "$venv/bin/python" -m mypy.stubtest \
        --allowlist python/stubtest-allowlist.txt windward._windward
    check "types: by pyright" "$venv/bin/basedpyright" --pythonpath "$venv/bin/python" --level error
}

# Each parser of foreign bytes: the kept corpus, then some seconds from it (fuzz/run.sh alone takes a minute
# each). Passes with a note without a C++ compiler.
step_fuzz() {
    if ! offer g++ g++; then
        echo "skipped: there is no g++, which libFuzzer is compiled by"
        return
    fi
    check "fuzz: no input breaks a parser" fuzz/run.sh 5
}

# The documentation site: its first page as for a new user, the site from that installation, and every
# block of code on its pages. Skipped with a note without a Python that it supports.
step_site() {
    local home=$scratch/home log=$scratch/site.log ran broken
    if ! newer_python; then
        echo "skipped: there is no python3 of version 3.11 or later, which the site needs"
        return
    fi
    # The home of a user who has only a toolchain.
    mkdir -p "$home"
    check "site: the first page works as printed, in a virtual environment of its own" \
        env CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        PIP_CACHE_DIR="${PIP_CACHE_DIR:-$HOME/.cache/pip}" \
        python3 docs/site/blocks.py --home "$home" --only docs/index.md
    check "site: built without a warning, every link inside leads somewhere" \
        docs/build.sh --venv "$home/windward-venv"
    "$home/windward-venv/bin/python" docs/site/blocks.py --except docs/index.md 2>&1 | tee "$log"
    ran=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$log")
    broken=$(sed -n 's/^.* passed, \([0-9]*\) failed$/\1/p' "$log")
    pass "${ran:-0}"
    for ((; ${broken:-1} > 0; broken = ${broken:-1} - 1)); do fail "site: a block of code, see above"; done
    check "site: its own checks find what is wrong" "$home/windward-venv/bin/python" docs/site/tests.py
}

# Every command of README.md's `console` blocks, in order, except those that are steps of their own.
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
    # Fails if the blocks have another form, instead of testing nothing.
    check "readme: it has commands" test "$count" -ge 8
}

# A change in the core: incremental compilation, for this step alone.
step_quick() {
    export CARGO_INCREMENTAL=1
    step_format
    check "clippy of the core" lint -p windward-core
    test_flags=(--locked --no-fail-fast)
    run_tests -p windward-core --tests
    run_tests -p windward-sim --lib golden
}

# --- running them ------------------------------------------------------------------------

all=(setup format house prose clippy docs portability build compile clocked reproduce tests guide c python site readme
    fuzz types instructions validation browser web)
# Steps that use one core on average.
narrow=" format house prose c python types instructions validation browser web "
# Steps that must end before a step, if they run too.
declare -A after=(
    [docs]=clippy [guide]=build [c]=build [reproduce]=build [tests]=compile [python]=build [site]="docs reproduce python" [readme]="build python"
    [clocked]=compile [types]=python [instructions]=build [validation]=build [browser]=reproduce [web]=build
)

# Incremental compilation would slow down the first build.
export CARGO_INCREMENTAL=0
steps=("${@:-${all[@]}}")
for step in "${steps[@]}"; do
    if [[ " ${all[*]} quick " != *" $step "* ]]; then
        echo "there is no step $step; the steps are: ${all[*]} quick" >&2
        exit 2
    fi
done

cores=$(nproc 2>/dev/null || echo 2)
# Of the steps that may run at once: most of them wait now and then, for a lock, a disk or another process. More at once
# keep the cores busier and take no less time.
places=$((cores + (cores + 1) / 2))
began=$SECONDS
pending=("${steps[@]}")
# Running steps by process, their start, and the number of cores in use.
declare -A running=() since=()
used=0
# The step whose output is shown as it comes.
shown=

# Each step is a process group, which ends with this script.
set -m
stop() {
    local pid
    for pid in "${!running[@]}"; do kill -TERM -- "-$pid" 2>/dev/null; done
    rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT TERM

# width_of STEP: number of cores that it uses.
width_of() {
    if [ "$1" = clocked ]; then
        echo 0
    elif [[ $narrow == *" $1 "* ]]; then
        echo 1
    else
        echo "$cores"
    fi
}

# is_ready STEP: true if no step before it is pending or running.
is_ready() {
    local before
    [ "$1" = setup ] || [[ " ${pending[*]} ${running[*]} " != *" setup "* ]] || return
    for before in ${after[$1]:-}; do
        [[ " ${pending[*]} ${running[*]} " != *" $before "* ]] || return
    done
}

# carry_out STEP: runs it and writes its counts. Steps by the wall clock have a higher priority than all others.
carry_out() {
    trap - EXIT INT TERM
    [ "$1" = clocked ] || renice -n 19 -p "$BASHPID" >/dev/null
    passed=0 failed=0 failures=()
    "step_$1"
    printf '%s\n' "$passed" "$failed" "${failures[@]+"${failures[@]}"}" >"$scratch/$1.counts"
    # The last line: user and system time of all commands of the step.
    times >"$scratch/$1.times"
    tail -1 "$scratch/$1.times" | tr 'ms' '  ' | awk '{ printf "%.0f\n", $1 * 60 + $2 + $3 * 60 + $4 }' >"$scratch/$1.cpu"
}

# start: starts the first pending step that can run now; false if there is none.
start() {
    local index step width
    for index in "${!pending[@]}"; do
        step=${pending[index]}
        width=$(width_of "$step")
        if is_ready "$step" && [ $((used + width)) -le "$places" ]; then
            unset "pending[index]"
            if [ "$width" -eq "$cores" ] && [ -z "$shown" ]; then
                shown=$step
                printf '\n=== %s\n' "$step"
                carry_out "$step" &
            else
                carry_out "$step" >"$scratch/$step.said" 2>&1 &
            fi
            running[$!]=$step
            since[$step]=$SECONDS
            used=$((used + width))
            return
        fi
    done
    return 1
}

# finish PID: prints the output of a step and adds its counts.
finish() {
    local step=${running[$1]} counts
    unset "running[$1]"
    used=$((used - $(width_of "$step")))
    if [ "$step" = "$shown" ]; then
        shown=
    elif [ -f "$scratch/$step.said" ]; then
        printf '\n=== %s\n' "$step"
        cat "$scratch/$step.said"
    fi
    if [ -f "$scratch/$step.counts" ]; then
        mapfile -t counts <"$scratch/$step.counts"
        passed=$((passed + counts[0]))
        failed=$((failed + counts[1]))
        failures+=("${counts[@]:2}")
    else
        fail "$step: it was ended"
    fi
    echo "=== $step: $((SECONDS - since[$step])) s, $(cat "$scratch/$step.cpu" 2>/dev/null || echo ?) s of CPU time"
}

while [ ${#pending[@]} -gt 0 ] || [ ${#running[@]} -gt 0 ]; do
    while start; do :; done
    wait -n -p ended "${!running[@]}"
    finish "$ended"
done

echo
for failure in "${failures[@]+"${failures[@]}"}"; do echo "failed: $failure"; done
echo "=== all: $((SECONDS - began)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
