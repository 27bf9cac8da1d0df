#!/usr/bin/env bash
# Builds schedlab for packages: cargo's profile `dist` (all crates optimised as one), guided by a profile of its own runs. An
# instrumented build makes the runs of the training set, llvm-profdata merges their profiles, and the last build reads them.
# The result is dist/schedlab in target/HOST (rustc names the host); its `--version` ends in "dist, profile-guided)". Results must be
# the same bytes (benches/same.sh holds them).
# llvm-profdata must read the profiles of rustc's LLVM: rustup's component llvm-tools has it, or a package such as llvm-22.
# Exit code 0: built, with or without a profile, as said. 1: something failed. 2: wrong option.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
guided=yes keep=""

usage() {
    cat >&2 <<TEXT
usage: benches/dist.sh [-p] [-k FOLDER]
  -p  plain: without a profile
  -k  keep the profiles in this folder
  LLVM_PROFDATA names the llvm-profdata to use, CARGO_TARGET_DIR another folder than target.
TEXT
    exit 2
}

while getopts pk: option; do
    case $option in
        p) guided="" ;;
        k) keep=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || usage
cd "$here"
target=${CARGO_TARGET_DIR:-$here/target}
host=$(rustc -vV | sed -n 's/^host: //p')
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

plain() {
    [ -z "${1:-}" ] || echo "dist: $1: built without a profile" >&2
    build "" "$target"
    "$target/$host/dist/schedlab" --version
    exit 0
}

[ -n "$guided" ] || plain
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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
"$target/$host/dist/schedlab" --version
