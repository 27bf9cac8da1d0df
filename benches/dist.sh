#!/usr/bin/env bash
# Builds schedlab for packages: cargo's profile `dist` (all crates optimised as one), guided by a profile of its own runs. An
# instrumented build makes the runs of the training set, llvm-profdata merges their profiles, and the last build reads them.
# The result is dist/schedlab in target/HOST (rustc names the host); its `--version` ends in "dist, profile-guided)". Results must be
# the same bytes (benches/same.sh holds them).
# llvm-profdata must read the profiles of rustc's LLVM: rustup's component llvm-tools has it, or a package such as llvm-22.
# With -d the executable, its manual pages and completions become a tarball and a package of Debian in target/HOST/dist. The
# package is unpacked into an empty folder, and its executable has to simulate.
# With -t it is built for another target, without a profile: x86_64-unknown-linux-musl is static; of another architecture, it
# needs that one's compiler (ARCH-linux-gnu-gcc), and runs by qemu-user.
# Exit code 0: built, with or without a profile, as said. 1: something failed. 2: wrong option.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
guided=yes keep="" packages="" other="" same=""

usage() {
    cat >&2 <<TEXT
usage: benches/dist.sh [-p] [-d] [-k FOLDER] [-s BUILD] [-t TARGET]
  -p  plain: without a profile
  -d  also a tarball and a package of Debian (dpkg-deb)
  -t  for this target, plain: musl and aarch64, or as rustc names it
  -s  its drawn runs must give the same bytes as those of this executable (benches/same.sh)
  -k  keep the profiles in this folder
  LLVM_PROFDATA names the llvm-profdata to use, CARGO_TARGET_DIR another folder than target.
TEXT
    exit 2
}

while getopts pdk:s:t: option; do
    case $option in
        p) guided="" ;;
        d) packages=yes ;;
        k) keep=$OPTARG ;;
        s) same=$(realpath "$OPTARG") ;;
        t) other=$OPTARG guided="" ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || usage
cd "$here"
target=${CARGO_TARGET_DIR:-$here/target}
fail() { echo "dist: $*" >&2; exit 1; }
host=$(rustc -vV | sed -n 's/^host: //p')
machine=${host%%-*}
case $other in
    '') ;;
    musl) host=$machine-unknown-linux-musl ;;
    aarch64) host=aarch64-unknown-linux-gnu ;;
    *) host=$other ;;
esac
# How its executable is run here; "" where it can't be.
runner=""
if [ -n "$other" ]; then
    [ -d "$(rustc --print target-libdir --target "$host")" ] || fail "rustc lacks $host: rustup target add $host"
    if [ "${host%%-*}" != "$machine" ]; then
        arch=${host%%-*}
        command -v "$arch-linux-gnu-gcc" >/dev/null ||
            fail "$host needs a linker: $arch-linux-gnu-gcc, of package gcc-${arch/x86_64/x86-64}-linux-gnu"
        export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$host")_LINKER=$arch-linux-gnu-gcc"
        runner=qemu-$arch
        command -v "$runner" >/dev/null || runner=none
    fi
fi
# All that is temporary, gone however this ends.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')

# With the target named, flags are not those of build scripts, which would write profiles of their own.
build() { # FLAGS FOLDER
    RUSTFLAGS="${RUSTFLAGS:-} $1" cargo build --profile dist -p schedlab --target "$host" --target-dir "$2"
}

# One that reads the profiles of this rustc: those of other versions of LLVM refuse them.
profdata() {
    local one
    for one in "${LLVM_PROFDATA:-}" "$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata" \
        "llvm-profdata-$major" llvm-profdata; do
        [ -n "$one" ] && command -v "$one" >/dev/null || continue
        if "$one" merge -o "$work/probe.profdata" "$work"/probe/*.profraw 2>/dev/null; then
            echo "$one"
            return
        fi
    done
    return 1
}

# Runs an executable of the target.
run_there() {
    case $runner in
        '') "$@" ;;
        *) "$runner" -L "/usr/${host%%-*}-linux-gnu" "$@" ;;
    esac
}
built() { run_there "$target/$host/dist/schedlab" "$@"; }

# A tarball and a package of Debian beside the executable.
packaged() {
    local version arch name page shell tree=$work/tree
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    [ "$runner" != none ] || fail "manual pages are written by the executable itself: qemu-user runs it"
    arch=${host%%-*}
    name=schedlab-$version-${host#*-unknown-}-$arch
    mkdir -p "$tree/usr/bin" "$tree/usr/share/man/man1" "$tree/usr/share/doc/schedlab" "$tree/DEBIAN" \
        "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" "$tree/usr/share/fish/vendor_completions.d"
    cp "$target/$host/dist/schedlab" "$tree/usr/bin/schedlab"
    built man >"$tree/usr/share/man/man1/schedlab.1"
    for page in $(built --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'); do
        built man "$page" >"$tree/usr/share/man/man1/schedlab-$page.1"
    done
    gzip -9 -n "$tree"/usr/share/man/man1/*
    for shell in bash:bash-completion/completions/schedlab zsh:zsh/vendor-completions/_schedlab \
        fish:fish/vendor_completions.d/schedlab.fish; do
        built completions "${shell%%:*}" >"$tree/usr/share/${shell#*:}"
    done
    cp README.md CHANGELOG.md "$tree/usr/share/doc/schedlab"
    cp LICENSE "$tree/usr/share/doc/schedlab/copyright"
    tar -C "$tree" --exclude=DEBIAN --transform "s,^\./usr,$name," --owner=0 --group=0 --sort=name -cJf "$target/$host/dist/$name.tar.xz" ./usr
    case $arch in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
    local depends="Depends: libc6 (>= 2.34)"
    case $host in *-musl) depends="" ;; esac
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: schedlab
Version: $version
Architecture: $arch
Maintainer: developers of schedlab <root@localhost>
${depends:+$depends
}Suggests: qemu-system-x86, linux-perf
Section: devel
Priority: optional
Description: laboratory for the Linux CPU scheduler
 One workload, run unchanged in a deterministic simulator, on the scheduler's own code on simulated machines, on the
 running kernel and on any kernel in a VM, and one comparison at the end.
CONTROL
    dpkg-deb --root-owner-group --build "$tree" "$target/$host/dist/schedlab_${version}_$arch.deb" >/dev/null
    tree=$work/unpacked
    dpkg-deb -x "$target/$host/dist/schedlab_${version}_$arch.deb" "$tree"
    (cd "$tree" && run_there usr/bin/schedlab bench nanosleep --backend sim --quiet >/dev/null) || fail "the package's executable fails"
    ls -l "$target/$host/dist/$name.tar.xz" "$target/$host/dist/schedlab_${version}_$arch.deb"
}

# Drawn runs of both builds.
compared() {
    local folder=$work/compared
    mkdir "$folder"
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${runner:+$runner -L /usr/${host%%-*}-linux-gnu}" "$target/$host/dist/schedlab" >"$folder/build"
    chmod 755 "$folder/build"
    benches/same.sh -n 40 draw "$same" >"$folder/lines"
    benches/same.sh -k "$target/$host/dist/kept" check "$folder/build" "$folder/lines" ||
        fail "results differ: $target/$host/dist/kept"
}

finished() {
    if [ "$runner" = none ]; then
        echo "dist: built and not run: qemu-user is not there" >&2
    else
        built --version
    fi
    [ -z "$packages" ] || packaged
    [ -z "$same" ] || [ "$runner" = none ] || compared
}

plain() {
    [ -z "${1:-}" ] || echo "dist: $1: built without a profile" >&2
    build "" "$target"
    finished
    exit 0
}

[ -n "$guided" ] || plain
mkdir "$work/probe" "$work/raw"
# Before the long build: does any llvm-profdata here read what this rustc's programs write?
echo 'fn main() {}' >"$work/probe.rs"
rustc -C "profile-generate=$work/probe" -o "$work/probe.bin" "$work/probe.rs" && "$work/probe.bin"
profdata=$(profdata) || plain "no llvm-profdata reads profiles of LLVM $major ('rustup component add llvm-tools', or package llvm-$major)"

echo "dist: instrumented build" >&2
build "-Cprofile-generate=$work/raw" "$target/instrumented"
trained=$target/instrumented/$host/dist/schedlab
run() { "$trained" "$@" >/dev/null 2>"$work/err" || { cat "$work/err" >&2; echo "dist: failed: $*" >&2; exit 1; }; }

# The training set: what users wait for. Both fair classes, small and large machines, programs of benchmarks and of rt-app
# files, recordings in, and comparisons.
echo "dist: training runs" >&2
cd "$work"
sim() { run bench "$@" --backend sim --quiet; }
sim nanosleep --machine spr-2x56 --tasks 224 -r 300ms
for kernel in v6.5 v6.12; do
    sim schbench --machine fb-2x24-smt --kernel "$kernel" -m 6 -t 24 -r 1s
    sim hackbench --machine smp-16 --kernel "$kernel" -g 4 -l 200
    awk 'BEGIN { printf "{ \"tasks\": {"
        for (i = 0; i < 640; i++) printf "%s\"t%d\": { \"run\": %d, \"timer\": { \"ref\": \"tick%d\", \"period\": %d } }",
            i ? ", " : "", i, 200 + i * 7 % 900, i, 10000 + i * 37 % 20000
        printf "}, \"global\": { \"duration\": 2 } }\n" }' >640.json
    sim 640.json --machine smp-64 --kernel "$kernel"
done
recording=$(find "$here/crates/import/tests" -name '*.data' -size +20k | sort | head -n 1)
[ -z "$recording" ] || run import "$recording" --out imported
run study idle-sibling --load 6x24 --machine fb-2x24-smt --runs 2 --out studied --quiet
run compare studied
cd "$here"

"$profdata" merge -o "$work/schedlab.profdata" "$work"/raw/*.profraw
[ -z "$keep" ] || { mkdir -p "$keep" && cp "$work/schedlab.profdata" "$keep"; }
echo "dist: optimised build" >&2
build "-Cprofile-use=$work/schedlab.profdata" "$target"
finished
