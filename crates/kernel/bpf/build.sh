#!/bin/sh
# Compiles the BPF programs. The objects are committed; ./ci.sh compiles and compares them.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
for source in *.bpf.c; do
    object="$out/${source%.c}.o"
    clang -g -O2 -Wall -Werror -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -fdebug-compilation-dir=. \
        -c "$source" -o "$object"
    llvm-strip -g "$object"
done
