#!/usr/bin/env bash
# Every check of the project as a named step, for CI and before a push.
#
#   ./ci.sh                 both lists
#   ./ci.sh first           what each change needs: format, lints, tests, documentation, a figure of each paper, Python
#   ./ci.sh second          what takes longer: all figures, other systems, fuzzing, the site, pages in a browser, ...
#   ./ci.sh format clippy   these steps
#
# A list has two lanes that run side by side, each with its steps in order. The output of one lane is shown as it comes,
# and that of the other at the end of each step. Needs bash, a Rust toolchain and, on a fresh machine, the package
# registries of Debian and of Rust. The last line is `N passed, N failed`: each test of each test runner counts one, and
# so does each command of README.md and each other check.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
exec </dev/null

# The first list compiles with the profile dev, as `cargo test` does, and the second with the release.
first=(format clippy docs tests figures)
beside_first=(house prose clocked python types)
second=(reproduce features kernel portability oldest fuzz guide)
beside_second=(c instructions clean_link validation readme site web browser)

# Incremental compilation would slow down a first build.
export CARGO_TARGET_DIR=$PWD/target CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never CARGO_NET_RETRY=10
windward=target/release/windward

scratch=$(mktemp -d)
# A line for each check, which both lanes append.
results=$scratch/results
touch "$results"

pass() { echo "passed ${1:-1}" >>"$results"; }
fail() { echo "FAILED: $1" | tee -a "$results"; }

# check NAME COMMAND...: one check, passed if the command succeeds.
check() {
    local name=$1
    shift
    if "$@"; then pass; else fail "$name"; fi
}

# counted NAME COMMAND...: runs a test runner and counts each of its tests, by the lines that end its output.
counted() {
    local name=$1 log status counts
    shift
    log=$(mktemp -p "$scratch")
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    # cargo test, pytest, node --test, and the scripts of docs.
    counts=$(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/p
        s/^.*\b([0-9]+) passed, ([0-9]+) failed$/\1 \2/p
        s/^[#ℹ] pass ([0-9]+)$/\1 0/p; s/^[#ℹ] fail ([0-9]+)$/0 \1/p
        s/^(.*[ =])?([0-9]+) failed.*, ([0-9]+) passed.* in .*/\3 \2/p; t
        s/^(.*[ =])?([0-9]+) passed.* in .*/\2 0/p' "$log" | awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
    pass "${counts% *}"
    # A runner that did not compile or was killed reports no failed test.
    local broken=${counts#* }
    if [ "$broken" -eq 0 ] && { [ "$status" -ne 0 ] || [ "${counts% *}" -eq 0 ]; }; then broken=1; fi
    for ((; broken > 0; broken--)); do fail "$name: see above"; done
}

# install PACKAGE: from Debian, where possible. One at a time, since lanes run side by side.
install() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
    (
        flock 9
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$1"
    ) 9>"$scratch/apt.lock" >"$scratch/apt.log" 2>&1 || tail -3 "$scratch/apt.log"
}

# offer COMMAND PACKAGE: true if the command exists or can be installed; else says what is skipped.
offer() {
    command -v "$1" >/dev/null || install "$2"
    command -v "$1" >/dev/null || { echo "skipped: there is no $1"; false; }
}

# A Python for the tests of the package and for the site, with virtual environments.
offer_python() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        { echo "skipped: there is no python3 of version 3.11 or later"; return 1; }
    python3 -c 'import ensurepip' 2>/dev/null || install python3-venv
}

# --- the first list ----------------------------------------------------------------------

# Prerequisites of all other steps.
setup() {
    local component
    command -v cargo >/dev/null || { fail "setup: no cargo; install Rust from https://rustup.rs"; return; }
    if ! command -v cc >/dev/null; then
        # The linker of rustc.
        install gcc
        install libc6-dev
        command -v cc >/dev/null || fail "setup: no C compiler"
    fi
    # For windward-kernel, which is a part of the workspace and not of the program's first build.
    [ -e /usr/include/libelf.h ] || install libelf-dev
    [ -e /usr/include/zlib.h ] || install zlib1g-dev
    [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ] || fail "setup: no libelf.h and zlib.h; install libelf-dev and zlib1g-dev"
    for component in rustfmt clippy; do
        cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component" ||
            fail "setup: $component"
    done
    cargo fetch --locked || fail "setup: dependencies"
}

step_format() {
    check format cargo fmt --all --check
}

# No circle of files or crates, and no import against the order of the layers.
step_house() {
    offer python3 python3 || return 0
    check "house: imports run one way" python3 docs/house.py --check
}

step_prose() {
    offer python3 python3 || return 0
    check "prose: plain technical English" python3 docs/prose.py
    check "prose: cited numbers are those of the tables" \
        python3 docs/tables.py --check docs/upwind-results.md docs/upwind.md docs/protocols/upwind.md
}

step_clippy() {
    check clippy lint --workspace
}

lint() {
    cargo clippy --all-targets --locked "$@" -- -D warnings
}

step_docs() {
    check docs env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked
}

# Tests by the wall clock, which wait more than they compute: these programs, and these modules of the command line's.
clocked=(router namespaces)
clocked_modules=(compare:: emulate:: perf:: web::)

cargo_test() {
    counted tests cargo test --workspace --exclude windward-py --locked --no-fail-fast "$@"
}

step_tests() {
    local path name others=()
    for path in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
        name=${path%/main.rs}
        name=$(basename "$name" .rs)
        [[ " cli kernel ${clocked[*]} ${others[*]} " == *" $name "* ]] || others+=("$name")
    done
    cargo_test --lib --bins "${others[@]/#/--test=}"
    cargo_test --test cli -- "${clocked_modules[@]/#/--skip=}" --skip clean_link::
    cargo_test --doc
}

step_clocked() {
    cargo_test "${clocked[@]/#/--test=}"
    cargo_test --test cli -- "${clocked_modules[@]}"
}

# A figure of each paper, with its verdicts.
step_figures() {
    check "figures: one of each paper" cargo run --locked -- reproduce --quiet --out "$scratch/figures" \
        lr2008-fig10 xcpr2005-fig4 estcp2010-fig2 eten2004-fig4 tcpwbr2003-fig2
    check "figures: a verdict on their claims" grep -q '"verdict"' "$scratch/figures/claims.json"
}

# The Python package, compiled for a short wait, its tests and the code blocks of its pages.
step_python() {
    offer_python || return 0
    local venv=$scratch/venv
    python3 -m venv "$venv" && "$venv/bin/pip" install -q --no-compile -r python/requirements-test.txt ||
        { fail "python: what the tests need"; return; }
    MATURIN_PEP517_ARGS="--profile dev" "$venv/bin/pip" install -v --no-deps . >"$scratch/pip.log" 2>&1 ||
        { tail -30 "$scratch/pip.log"; fail "python: the package"; return; }
    counted python "$venv/bin/pytest" -n 2 --dist loadfile --durations 8 --pyargs \
        python/tests docs/python.md docs/clusters.md windward
}

# The types of the package that step_python installed.
step_types() {
    local venv=$scratch/venv
    [ -x "$venv/bin/mypy" ] || { echo "skipped: the step python did not install the package"; return; }
    check "types: by mypy" "$venv/bin/mypy"
    check "types: the stub says what the extension has" "$venv/bin/python" -m mypy.stubtest \
        --allowlist python/stubtest-allowlist.txt windward._windward
    check "types: by pyright" "$venv/bin/basedpyright" --pythonpath "$venv/bin/python" --level error
}

# --- the second list ---------------------------------------------------------------------

step_build() {
    check build cargo build --release --locked
}

# The first command of README.md, exactly as printed, and its results.
step_reproduce() {
    rm -rf report
    check "reproduce" cargo run --release -- reproduce
    check "reproduce: a page" test -s report/index.html
    check "reproduce: nothing fetched from elsewhere" page_is_self_contained report/index.html
    check "reproduce: a verdict on each claim" has_all_claims report/claims.json
    offer python3 python3 || return 0
    check "reproduce: no check is too strict or too lax unawares" python3 docs/controls.py report/claims.json
}

page_is_self_contained() {
    ! grep -nE '(src|href)="(https?:)?//|@import|url\(["'\'']?https?:' "$1"
}

has_all_claims() {
    local missing=0 id
    for id in L{1..14} L4b R{1..6} R3b R5b R6b S{1..5} E{1..8} E2b W{1..7}; do
        grep -q "\"$id\"" "$1" || { echo "no verdict on $id"; missing=1; }
    done
    return $missing
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
        cargo check --locked "$@"
}

# Crates without their default features.
step_features() {
    check "features: sim without parquet" lint -p windward-sim --no-default-features
    # With windward-stacks, so that dependencies have the same features as for the workspace.
    check "features: windward without stacks" lint -p windward -p windward-stacks --no-default-features
}

# Controllers in the TCP of this machine's kernel: the objects are those of the sources, and real connections behind a
# lossy link, where the kernel has controllers by BPF.
step_kernel() {
    [ -e /usr/include/bpf/bpf_helpers.h ] || install libbpf-dev
    if offer clang clang && offer llvm-strip llvm; then
        check "kernel: the objects are those of the sources" same_objects
    fi
    counted kernel cargo test -p windward --features kernel --locked --lib --test kernel
}

same_objects() {
    local object
    crates/kernel/bpf/build.sh "$scratch" || return 1
    for object in crates/kernel/bpf/*.bpf.o; do
        cmp "$object" "$scratch/${object##*/}" || return 1
    done
}

# Transfers over a clean link, which must use it: alone, since they measure a rate.
step_clean_link() {
    cargo_test --test cli -- clean_link::
}

# The oldest compiler that Cargo.toml promises: the program, and what other crates use.
step_oldest() {
    local oldest
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! rustup toolchain install "$oldest" --profile minimal >"$scratch/rustup.log" 2>&1; then
        tail -3 "$scratch/rustup.log"
        [ -z "${CI:-}" ] || fail "oldest: no Rust $oldest"
        return
    fi
    check "oldest: Rust $oldest compiles it" cargo "+$oldest" check --workspace --locked --target-dir target/oldest
}

# Each parser of foreign bytes: the kept corpus, then some seconds from it (fuzz/run.sh alone takes a minute each).
step_fuzz() {
    offer g++ g++ || return 0
    check "fuzz: no input breaks a parser" fuzz/run.sh 5
}

# The additions that CONTRIBUTING.md describes, carried out in a copy.
step_guide() {
    offer python3 python3 || return 0
    counted guide python3 docs/guide.py
}

# A controller in C: compiled, evaluated for one criterion, and one that returns NaN.
step_c() {
    local out=$scratch/c
    mkdir -p "$out"
    for name in aimd notify; do
        check "c: $name compiles" cc -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -I crates/native/include \
            "examples/c/$name.c" -o "$out/$name.so"
        check "c: $name is evaluated" $windward evaluate --quiet "$out/$name.so" --only high-loss --out "$out/$name"
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
            "$windward evaluate --quiet nan=$out/nan.so --only high-loss --out $out/nan 2>&1 | grep '$said'"
    done
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

# Instructions per packet-hop compared with the committed values.
step_instructions() {
    offer python3 python3 && offer valgrind valgrind || return 0
    check "instructions: none more than 5 % above the reference" env WINDWARD=$windward benches/instructions.sh
}

# Goodput compared with ns-2 on a few scenarios.
step_validation() {
    offer python3 python3 && offer ns ns2 || return 0
    check "validation: goodput as in ns-2" env WINDWARD=$windward python3 validation/ns2/compare.py --quick
}

# after STEP: waits for a step of the other lane, if it runs.
after() {
    while [ -e "$scratch/$1.began" ] && [ ! -e "$scratch/$1.ended" ]; do sleep 1; done
}

# The documentation site: its first page as for a new user, the site from that installation, and every block of code on
# its pages.
step_site() {
    offer_python || return 0
    after reproduce
    # The home of a user who has only a toolchain.
    local home=$scratch/home
    mkdir -p "$home"
    check "site: the first page works as printed, in a virtual environment of its own" \
        env CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        PIP_CACHE_DIR="${PIP_CACHE_DIR:-$HOME/.cache/pip}" \
        python3 docs/site/blocks.py --home "$home" --only docs/index.md
    check "site: built without a warning, every link inside leads somewhere" docs/build.sh --venv "$home/windward-venv"
    counted site "$home/windward-venv/bin/python" docs/site/blocks.py --except docs/index.md
    check "site: its own checks find what is wrong" "$home/windward-venv/bin/python" docs/site/tests.py
}

# The pages of the report in a browser.
step_browser() {
    offer python3 python3 && offer chromium chromium || return 0
    after reproduce
    check "browser: every page can be read, narrow and wide" python3 crates/report/tests/browser/check.py report
}

# The package for JavaScript, built, compared with the program, packed, and installed into an empty project; and the
# playground, driven in a browser.
step_web() {
    offer node nodejs && offer npm npm || return 0
    crates/web/build.sh || { fail "web: the package"; return; }
    check "web: the page in the program is the one that crates/web/build.sh --page makes" node crates/web/tests/dist.mjs
    counted web sh -c 'cd crates/web && exec node --test tests/*.test.mjs'
    check "web: the package gives the same in Deno" \
        crates/web/node_modules/.bin/deno test -A crates/web/tests/package.test.mjs
    mkdir "$scratch/npm"
    check "web: the package installs into an empty project and its example runs" install_package "$scratch/npm"
    offer chromium chromium || return 0
    check "web: the playground, driven in a browser, agrees with the program" node crates/web/tests/play.mjs
    check "web: live charts of a shell in a browser" node crates/web/tests/live.mjs
    check "web: reports in a browser" node crates/web/tests/report.mjs
    command -v firefox-esr >/dev/null || return 0
    check "web: the playground in Firefox" env FIREFOX=/usr/bin/firefox-esr node crates/web/tests/play.mjs
    check "web: live charts in Firefox" env FIREFOX=/usr/bin/firefox-esr node crates/web/tests/live.mjs
}

install_package() (
    local tarball
    tarball=$(cd target/npm/windward && npm pack --silent --pack-destination "$1") &&
        cd "$1" && npm init -y >/dev/null && npm install --silent --offline "./$tarball" &&
        cp node_modules/windward/example.mjs node_modules/windward/first.toml . &&
        node example.mjs | grep -q "^upwind: .* fingerprint [0-9a-f]\{16\}$"
)

# --- running them ------------------------------------------------------------------------

for word in "$@"; do
    [[ $word == first || $word == second ]] || declare -F "step_$word" >/dev/null ||
        { echo "there is no step or list $word; the head of ci.sh names them" >&2; exit 2; }
done

# Each lane is a process group, which ends with this script.
set -m
lanes=()
stop() {
    local lane
    for lane in "${lanes[@]+"${lanes[@]}"}"; do kill -TERM -- "-$lane" 2>/dev/null; done
    rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT TERM

# run STEP: one step, and the time that it took. Steps by the wall clock have a higher priority than all others.
run() {
    local began=$SECONDS
    printf '\n=== %s\n' "$1"
    touch "$scratch/$1.began"
    (
        [[ $1 == clocked || $1 == clean_link ]] || renice -n 19 -p "$BASHPID" >/dev/null
        "step_$1"
    )
    [ $? -lt 128 ] || fail "$1: it was ended"
    touch "$scratch/$1.ended"
    echo "=== $1: $((SECONDS - began)) s"
}

shown() { for step in "$@"; do run "$step"; done; }

shown_at_end() {
    for step in "$@"; do
        run "$step" >"$scratch/$step.said" 2>&1
        cat "$scratch/$step.said"
    done
}

# side_by_side LIST LIST: the lanes of a list, by the names of their arrays.
side_by_side() {
    local -n list=$1 beside=$2
    shown "${list[@]}" &
    lanes=($!)
    shown_at_end "${beside[@]}" &
    lanes+=($!)
    for lane in "${lanes[@]}"; do wait "$lane" || fail "a lane was ended"; done
    lanes=()
}

setup
[ $# -gt 0 ] || set -- first second
for word in "$@"; do
    case $word in
        first) side_by_side first beside_first ;;
        # Both lanes need the program.
        second) run build && side_by_side second beside_second ;;
        *) run "$word" ;;
    esac
done

echo
grep '^FAILED' "$results"
echo "=== all: $SECONDS s"
failed=$(grep -c '^FAILED' "$results")
echo "$(awk '/^passed/ { n += $2 } END { print n + 0 }' "$results") passed, $failed failed"
[ "$failed" -eq 0 ]
