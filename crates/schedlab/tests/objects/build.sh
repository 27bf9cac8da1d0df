#!/bin/sh
# Makes the objects, which are checked in: tests need no compiler of BPF. clang and llvm of version 19.
set -e
cd "$(dirname "$0")"
compile() {
	clang-19 -target bpf -mcpu=v3 -O2 -g -Wall -Wno-unused -fdebug-prefix-map="$PWD"=. "$@"
}
compile -c runtime.bpf.c -o runtime.bpf.o
compile -DNOWHERE -c runtime.bpf.c -o nowhere.bpf.o
llvm-strip-19 -g runtime.bpf.o nowhere.bpf.o
