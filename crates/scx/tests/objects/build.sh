#!/bin/sh
# Makes own.bpf.o and kernel.btf, which are checked in: tests need no compiler of BPF. clang and llvm of version 19.
set -e
cd "$(dirname "$0")"
flags="-target bpf -mcpu=v3 -O2 -g -Wall -Wno-unused -fdebug-prefix-map=$PWD=."
clang-19 $flags -c own.bpf.c -o own.bpf.o
llvm-strip-19 -g own.bpf.o
clang-19 $flags -c kernel.c -o kernel.o
llvm-objcopy-19 --dump-section .BTF=kernel.btf kernel.o
rm kernel.o
