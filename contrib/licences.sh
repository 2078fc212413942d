#!/usr/bin/env bash
# Writes LICENSE-THIRD-PARTY: the licences of the crates in the program and the wheel, and of the JavaScript in its pages.
#
# Needs cargo-about (cargo install cargo-about --features cli). Fails if a licence is not among those of about.toml.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo about generate --fail --locked --workspace -c contrib/about.toml -o LICENSE-THIRD-PARTY contrib/about.hbs
cat crates/web/dist/licences.txt >>LICENSE-THIRD-PARTY
