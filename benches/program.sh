# Names the program to measure in WINDWARD: target/release/windward, which is built, unless WINDWARD
# names another binary. Sourced in the project's root.
if [ -z "${WINDWARD:-}" ]; then
    cargo build --release -q -p windward
    WINDWARD="${CARGO_TARGET_DIR:-target}/release/windward"
fi
export WINDWARD
