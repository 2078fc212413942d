#!/usr/bin/env bash
# Builds the package for JavaScript in target/npm/windward, and the playground: crates/web/build.sh [--page]
#
#   --page   also writes crates/web/dist: the pages of `windward play` and of `--web`, which are committed
#
# Needs a Rust toolchain, Node 18 or later and npm; fetches crates and npm packages of the lock files.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../.. && pwd)
target=$root/target
export CARGO_TERM_COLOR=never

rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null | xargs test -d ||
    rustup target add wasm32-unknown-unknown >&2
# Paths of this machine do not belong into the module. Its memory ends before that of a small machine, where a browser
# would end the page without a word; MEMORY in package/windward.ts is the same limit.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
flags="--remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$root=/windward -C link-arg=--max-memory=$((1 << 30))"
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=$flags \
    cargo build --quiet --locked --profile web -p windward-web --target wasm32-unknown-unknown --target-dir "$target"
cargo build --quiet --locked --release --manifest-path bindgen/Cargo.toml --target-dir "$target/tools"
"$target/tools/release/windward-bindgen" "$target/wasm32-unknown-unknown/web/windward_web.wasm" "$target/web"
[ node_modules -nt package-lock.json ] || { npm ci --silent --no-progress && touch node_modules; }
node build.mjs "$@"
