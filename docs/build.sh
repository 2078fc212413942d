#!/usr/bin/env bash
# Builds the documentation site: docs/build.sh [--venv DIR] [--report DIR]
#
# It is target/site/index.html afterwards. Warnings are errors, and so are dead links.
#
#   --venv DIR     a virtual environment that has the package windward; otherwise one is made in
#                  target/site-venv and the package is built into it
#   --report DIR   what `windward reproduce` wrote, which becomes a part of the site (default: report)
#
# Needs Python 3.11 or later and, without --venv, a Rust toolchain. The pages of cargo doc are part of
# the site if they are there: cargo doc --workspace --no-deps --document-private-items

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=
report=report
while [ $# -gt 0 ]; do
    case $1 in
        --venv) venv=$2 ;;
        --report) report=$2 ;;
        *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift 2
done
mkdir -p target
if [ -z "$venv" ]; then
    venv=target/site-venv
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
    echo "docs/build.sh: compiling the package, which takes minutes the first time" >&2
    "$venv/bin/pip" install -q .
fi
"$venv/bin/pip" install -q --no-compile -r docs/site/requirements.txt

sources=target/site-sources
site=target/site
rust=${CARGO_TARGET_DIR:-target}/doc
rm -rf "$site"
"$venv/bin/python" docs/site/stage.py "$sources" --report "$report" --rust "$rust"
# Kernels of notebooks are looked for on the path.
PATH=$PWD/$venv/bin:$PATH
case $venv in /*) PATH=$venv/bin:$PATH ;; esac
export PATH PYTHONWARNINGS=ignore::DeprecationWarning
"$venv/bin/sphinx-build" -q -W --keep-going -j auto -c docs/site -b html "$sources" "$site"
cp -r "$sources/schema" "$site/schema"
"$venv/bin/python" docs/site/playground.py "$site"
[ ! -d "$rust" ] || cp -r "$rust" "$site/rust"
[ ! -f "$report/index.html" ] || cp -r "$report" "$site/report"
"$venv/bin/python" docs/site/check.py "$site"
