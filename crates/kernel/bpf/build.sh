#!/bin/sh
# Compiles the BPF programs. The objects are committed; ./ci.sh compiles and compares them.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
for program in windward select; do
    clang -g -O2 -Wall -Werror -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -fdebug-compilation-dir=. \
        -c $program.bpf.c -o "$out/$program.bpf.o"
    llvm-strip -g "$out/$program.bpf.o"
done
