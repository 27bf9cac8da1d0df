#!/bin/sh
# Builds the scheduler's program into the folder given, by clang and libbpf (Debian: clang-19 libbpf-dev). Its object
# alone, fifo.bpf.o, lies here built.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?the folder for the program}
clang=$(command -v clang-19 || command -v clang)
mkdir -p "$out"
"$clang" -target bpf -mcpu=v3 -O2 -g -Wall -ffile-prefix-map="$here"=. -c "$here/fifo.bpf.c" \
	-o "$out/fifo.bpf.o"
{
	echo 'const unsigned char fifo_object[] __attribute__((aligned(8))) = {'
	od -An -v -tu1 "$out/fifo.bpf.o" | sed 's/  */,/g; s/^,//; s/$/,/'
	echo '};'
	echo 'const unsigned int fifo_object_len = sizeof(fifo_object);'
} > "$out/fifo_object.c"
cc -O2 -Wall -o "$out/scx_fifo" "$here/fifo.c" "$out/fifo_object.c" -lbpf
