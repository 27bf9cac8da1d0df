#!/usr/bin/env bash
# What does a sched_ext scheduler cost beside the fair class? For three loads on 224 CPUs: million instructions of the
# image's process at level free under both, and their ratio. valgrind counts; a short run is subtracted from a long one.
# Exit code 0: all rows were made. 1: a run failed. 2: wrong option. 3: there is no valgrind.
set -euo pipefail
export LC_ALL=C

if [ $# -lt 1 ]; then
    echo 'usage: benches/scx.sh "SCHEDULER" [EXECUTABLE], such as "bpfland.bpf.o sticky_tasks=0"' >&2
    exit 2
fi
scheduler=$1
schedlab=$(realpath "${2:-$(dirname "$0")/../target/release/schedlab}")
command -v valgrind >/dev/null || { echo "scx: install valgrind" >&2; exit 3; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Name, and the lines of the workload, of which one ends with a long and a short value.
loads='
schbench threads=224 runtime="300ms":"1ms"
hackbench groups=10 loops=8:1
nanosleep tasks=448 runtime="4ms":"1ms"
'

# Runs a load under a variant as the rest of the words; its output is shown if it fails.
made() {
    local store=$1 variant=$2
    shift 2
    "$@" "$schedlab" run "$scratch/load.toml" --backend code --variant "$variant" --quiet --out "$store" \
        >"$scratch/said" 2>&1 || { cat "$scratch/said" >&2; echo "scx: failed under $variant" >&2; exit 1; }
}

# The instructions of the process that holds the image.
cost() {
    local load=$1 value=$2 variant=$3 words=()
    read -ra words <<<"$load"
    {
        printf 'name = "speed"\nabout = "a bench"\nmachine = "spr-2x56"\nbaseline = "fair"\nruns = 1\n'
        printf '[workload]\nname = "%s"\n' "${words[0]}"
        printf '%s\n' "${words[@]:1:${#words[@]}-2}" "${words[-1]%%=*} = $value"
        printf '[[variant]]\nname = "fair"\nkernel = "7"\n'
        printf "[[variant]]\nname = \"scx\"\nkernel = \"7\"\nscx = '%s'\n" "$scheduler"
    } >"$scratch/load.toml"
    rm -rf "$scratch/runs" "$scratch"/cg.*
    # Images that it needs are in the cache then.
    [ -e "$scratch/built-$variant" ] || made "$scratch/built-$variant" "$variant"
    made "$scratch/runs" "$variant" valgrind --tool=callgrind --smc-check=all --trace-children=yes \
        "--callgrind-out-file=$scratch/cg.%p"
    awk '/^cmd:/ { ours = /__code/ } /^totals:/ && ours { sum += $2 } END { printf "%.0f\n", sum }' "$scratch"/cg.*
}

printf '%-10s %8s %8s %6s\n' load fair scx ratio
while read -r load; do
    [ -n "$load" ] || continue
    values=${load##*=}
    words=${load%%:*}
    costs=()
    for variant in fair scx; do
        long=$(cost "$words" "${values%:*}" "$variant")
        short=$(cost "$words" "${values#*:}" "$variant")
        costs+=($((long - short)))
    done
    awk -v name="${load%% *}" -v a="${costs[0]}" -v b="${costs[1]}" \
        'BEGIN { printf "%-10s %8.1f %8.1f %6.2f\n", name, a / 1e6, b / 1e6, b / a }'
done <<<"$loads"
