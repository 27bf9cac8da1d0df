#!/usr/bin/env bash
# How long do simulations of periodic tasks take? Makes rt-app files of N tasks and times one or two builds on them, in
# turn, and prints the least user time of each file, kernel and build with the events of a user second.
# A file's tasks come from a fixed rule: task i has a period drawn evenly from the range of periods, and works for a part of
# it. Its share of a CPU is the load of all CPUs by the number of tasks, times a draw from 0.5 to 1.5, and at most 0.8.
# Exit code 0: all were timed. 1: a run failed. 2: wrong option.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
times=5 load=80 periods=6000-60000 kernels="v6.5 v6.12" machine=smp- keep=""
sizes="4x20:300 16x80:75 64x640:10 64x10:60 64x100:20 64x1000:10 64x10000:2"

usage() {
    cat >&2 <<TEXT
usage: benches/periodic.sh [-n TIMES] [-l LOAD] [-p RANGE] [-k KERNELS] [-m MACHINE] [-w FOLDER] BUILD [BUILD] [-- SIZE...]
  BUILD  an executable, such as target/release/schedlab
  SIZE   CPUSxTASKS:SECONDS, simulated seconds ($sizes)
  -n     runs of each build, in turn; the least user time counts ($times)
  -l     load of all CPUs in per cent ($load)
  -p     shortest and longest period in us ($periods)
  -k     kernels ($kernels)
  -m     a machine's name, or its beginning if it ends with a dash: the number of CPUs is put behind it ($machine)
  -w     only write the files into this folder; no BUILD
TEXT
    exit 2
}

while getopts n:l:p:k:m:w: option; do
    case $option in
        n) times=$OPTARG ;;
        l) load=$OPTARG ;;
        p) periods=$OPTARG ;;
        k) kernels=$OPTARG ;;
        m) machine=$OPTARG ;;
        w) keep=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
case $periods in *[!0-9-]* | *-*-* | -* | *-) usage ;; *-*) ;; *) usage ;; esac
for number in "$times" "$load"; do
    case $number in '' | *[!0-9]* | 0) usage ;; esac
done
builds=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [ -x "$1" ] || { echo "periodic: $1 is no executable: cargo build --release" >&2; exit 2; }
    builds+=("$(realpath "$1")")
    shift
done
[ $# -eq 0 ] || shift
[ $# -eq 0 ] || sizes=$*
case ${#builds[@]} in
    0) [ -n "$keep" ] || usage ;;
    1 | 2) ;;
    *) usage ;;
esac
for size in $sizes; do
    [[ $size =~ ^[1-9][0-9]*x[1-9][0-9]*:[1-9][0-9]*$ ]] || usage
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ -z "$keep" ] || mkdir -p "$keep"
files=${keep:-$scratch}

# The file of a size. Numbers are Park and Miller's, which awk's floats hold exactly.
file() {
    awk -v cpus="$1" -v tasks="$2" -v seconds="$3" -v load="$load" -v shortest="${periods%-*}" -v longest="${periods#*-}" '
        function draw(n) { state = (state * 16807) % 2147483647; return int(state / 2147483647 * n) }
        BEGIN {
            state = cpus * 7 + tasks; draw(2); draw(2)
            printf "{ \"global\": { \"duration\": %d }, \"tasks\": {\n", seconds
            for (i = 0; i < tasks; i++) {
                period = shortest + draw(longest - shortest + 1)
                share = load / 100 * cpus / tasks * (50 + draw(101)) / 100
                run = int(period * (share < 0.8 ? share : 0.8))
                printf "\"t%d\": { \"run\": %d, ", i, (run > 1 ? run : 1)
                printf "\"timer\": { \"ref\": \"unique\", \"period\": %d } }%s\n", period, i + 1 < tasks ? "," : ""
            }
            print "} }"
        }'
}

# User seconds of one run, and its number of events.
timed() {
    local build=$1 path=$2 on=$3 kernel=$4 line
    rm -rf "$scratch/runs"
    { TIMEFORMAT=%U; time "$build" bench "$path" --backend sim --machine "$on" --kernel "$kernel" --timing \
        --out "$scratch/runs" >/dev/null 2>"$scratch/said"; } 2>"$scratch/time" || {
        cat "$scratch/said" >&2
        exit 1
    }
    line=$(grep -E '^schedlab: +[0-9]+ +[0-9]+ ' "$scratch/said" || grep -E '^ +[0-9]+ +[0-9]+ ' "$scratch/said")
    echo "$(cat "$scratch/time") $(awk '{ sub(/^schedlab:/, ""); print $2 }' <<<"$line")"
}

for size in $sizes; do
    cpus=${size%%x*} rest=${size#*x}
    file "$cpus" "${rest%:*}" "${rest#*:}" >"$files/$cpus"x"${rest%:*}.json"
done
[ -z "$keep" ] || exit 0

printf '%-12s %-8s' size kernel
for build in "${builds[@]}"; do printf ' %10s %10s' 'user s' 'M events/s'; done
[ ${#builds[@]} -lt 2 ] || printf ' %8s' ratio
echo
for size in $sizes; do
    cpus=${size%%x*} rest=${size#*x}
    case $machine in *-) on=$machine$cpus ;; *) on=$machine ;; esac
    for kernel in $kernels; do
        for ((i = 0; i < times; i++)); do
            # A B, then B A: what else the machine does falls on both.
            order=$(seq 0 $((${#builds[@]} - 1)))
            [ $((i % 2)) -eq 0 ] || order=$(echo "$order" | sort -r)
            for b in $order; do
                echo "$b $(timed "${builds[b]}" "$files/$cpus"x"${rest%:*}.json" "$on" "$kernel")"
            done
        done >"$scratch/all"
        awk -v size="$size" -v kernel="$kernel" -v builds="${#builds[@]}" '
            !($1 in least) || $2 < least[$1] { least[$1] = $2 }
            { events[$1] = $3 }
            END {
                printf "%-12s %-8s", size, kernel
                for (b = 0; b < builds; b++)
                    printf " %10.3f %10.2f", least[b], events[b] / 1e6 / (least[b] > 0 ? least[b] : 0.001)
                if (builds == 2) printf " %8.3f", least[1] / (least[0] > 0 ? least[0] : 0.001)
                print ""
            }' "$scratch/all"
    done
done
