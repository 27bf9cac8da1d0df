#!/usr/bin/env bash
# How much less does a build execute than another one? For each kind of work: both builds' cost, their ratio, and the aim.
# Instructions and cycles of user mode are the processor's counts (perf stat). Where it has none, valgrind counts those of
# shorter runs, and estimates cycles: an instruction 1, a miss in 32 KB 10 more, in 2 MB 100 more. User time is what other
# rows have, whatever counts. Two times in a row's command are a long run and a short one: the row has the difference,
# without the start. Builds alternate (A B, B A) and the least of a build's costs counts. Images are built before.
# Exit code 0: all rows were made. 1: a run failed. 2: wrong option. 3: there are neither perf's counters nor valgrind.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
times=1 rival="" list="" by=""

# Name, measure, aim as a ratio, and the command line. FILE-CPUSxTASKS is an rt-app file; "LONG:SHORT" are two times or
# numbers; with "LONG:SHORT/N" the difference is N runs. `fresh` before a command: with a cache that has no image.
rows="
periodic-16x80-v6.5    instructions 0.55 bench FILE-16x80 --backend sim --machine smp-16 --kernel v6.5 --runtime 300ms:1ms
periodic-16x80-v6.12   instructions 0.55 bench FILE-16x80 --backend sim --machine smp-16 --kernel v6.12 --runtime 300ms:1ms
periodic-64x640-v6.5   instructions 0.55 bench FILE-64x640 --backend sim --machine smp-64 --kernel v6.5 --runtime 200ms:1ms
periodic-64x640-v6.12  instructions 0.55 bench FILE-64x640 --backend sim --machine smp-64 --kernel v6.12 --runtime 200ms:1ms
storm-sim              instructions 0.55 bench nanosleep --backend sim --machine spr-2x56 --tasks 224 --runtime 40ms:1ms
crowd-1024x10240       instructions 0.30 bench FILE-1024x10240 --backend sim --machine smp-1024 --kernel v6.5 --runtime 50ms
storm-free             cycles       0.60 bench nanosleep --backend code --level free --kernel 6.1 --machine spr-2x56 --tasks 224 --runtime 40ms:1ms
storm-woven            cycles       0.50 bench nanosleep --backend code --level woven --kernel 6.1 --machine spr-2x56 --tasks 224 --runtime 20ms:1ms
try-storm-woven        user         0.50 try first-idle --source 6.1 --backend code --level woven --machine spr-2x56 --load storm --runs 6
next-seed              user         0.20 bench nanosleep --backend code --kernel 6.1 --machine spr-2x56 --tasks 224 --runtime 1ms --runs 20:10/10
first-difference       user         0.40 hunt 6.12 --first-difference --machine smp-8 --evals 50 --no-shrink
first-try              user         0.50 fresh try first-idle --source 6.1 --backend code --machine spr-2x56 --load storm --runs 1
memory-1024            memory       0.80 bench nanosleep --backend code --kernel 6.1 --machine smp-1024 --tasks 1024 --runtime 1ms
"

usage() {
    cat >&2 <<TEXT
usage: benches/instructions.sh [-n TIMES] [-r RIVAL] [-v] OLD NEW [ROW...]
       benches/instructions.sh -l
  OLD, NEW  executables, such as target/release/schedlab
  ROW       rows to make, by the beginnings of their names; all by default
  -n        runs of each build in each row ($times)
  -r        another simulator's command, in which FILE stands for an rt-app file, CPUS for its CPUs and TIME for ms: its cost by ours
  -v        valgrind counts, also where the processor does
  -l        list the rows
TEXT
    exit 2
}

while getopts n:r:vl option; do
    case $option in
        n) times=$OPTARG ;;
        r) rival=$OPTARG ;;
        v) by=valgrind ;;
        l) list=yes ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
case $times in '' | *[!0-9]* | 0) usage ;; esac
[ -z "$list" ] || { echo "${rows:1:-1}"; exit; }
[ $# -ge 2 ] || usage
builds=("$(realpath "$1")" "$(realpath "$2")")
for build in "${builds[@]}"; do
    [ -x "$build" ] || { echo "instructions: $build is not an executable: cargo build --release" >&2; exit 2; }
done
shift 2
if [ -z "$by" ] && perf stat -x, -e instructions:u true 2>&1 | grep -q '^[0-9]'; then by=perf; fi
by=${by:-valgrind}
command -v "$by" >/dev/null || { echo "instructions: this processor counts nothing for perf: install valgrind" >&2; exit 3; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/schedlab

# Runs a command; its output goes to a file that is shown if it fails.
made() {
    "$@" >"$scratch/said" 2>&1 || { cat "$scratch/said" >&2; echo "instructions: failed: $*" >&2; exit 1; }
}

# The cost of a command by a measure: a number.
cost() {
    local measure=$1
    shift
    rm -rf "$scratch/runs" "$scratch/cg".*
    case $measure-$by in
        user-* | memory-*)
            made /usr/bin/time -o "$scratch/time" -f '%U %M' "$@"
            awk -v field="$([ "$measure" = user ] && echo 1 || echo 2)" '{ print $field }' "$scratch/time"
            ;;
        *-perf)
            made perf stat -x, -o "$scratch/stat" -e "$measure:u" "$@"
            awk -F, '/^[0-9]/ { print $1 }' "$scratch/stat"
            ;;
        *-valgrind)
            local caches=()
            [ "$measure" != cycles ] || caches=(--cache-sim=yes --D1=32768,8,64 --LL=2097152,16,64)
            made valgrind --tool=callgrind --trace-children=yes "--callgrind-out-file=$scratch/cg.%p" "${caches[@]}" "$@"
            # Instructions; with caches also reads, writes, and misses: first by instructions, reads and writes, then last.
            awk '/^(summary|totals):/ && FILENAME != last {
                    last = FILENAME; sum += $2 + 10 * ($5 + $6 + $7) + 100 * ($8 + $9 + $10)
                } END { printf "%.0f\n", sum }' "$scratch/cg".*
            ;;
    esac
}

# The cost of a row for a build: the long command, less the short one.
row_cost() {
    local build=$1 measure=$2 words=() word long=() short=() both="" per=1 environment=()
    read -ra words <<<"$3"
    if [ "${words[0]}" = fresh ]; then
        words=("${words[@]:1}")
        rm -rf "$scratch/cache"
        mkdir -p "$scratch/cache/schedlab"
        find "$cache" -mindepth 1 -maxdepth 1 ! -name images -exec ln -s -t "$scratch/cache/schedlab" {} +
        environment=("XDG_CACHE_HOME=$scratch/cache")
    fi
    for word in "${words[@]}"; do
        case $word in
            FILE-*) word=$scratch/${word#FILE-}.json ;;
            [0-9]*:*/*) per=${word#*/} word=${word%/*} ;;&
            [0-9]*:*) both=yes; long+=("${word%:*}"); short+=("${word#*:}"); continue ;;
        esac
        long+=("$word") short+=("$word")
    done
    local out=(--out "$scratch/runs") begin end=0
    begin=$(cost "$measure" env "${environment[@]}" "$build" "${long[@]}" "${out[@]}")
    [ -z "$both" ] || end=$(cost "$measure" env "${environment[@]}" "$build" "${short[@]}" "${out[@]}")
    awk -v a="$begin" -v b="$end" -v n="$per" 'BEGIN { printf "%.6g\n", (a - b) / n }'
}

# What the rival pays for the row's file, in the same way.
rival_cost() {
    local cpus=$1 file=$2 times=$3 costs=() ms words
    for ms in "${times%:*}" "${times#*:}"; do
        words=${rival//FILE/$file}
        words=${words//CPUS/$cpus}
        words=${words//TIME/${ms%ms}}
        # The command is split into words, as a shell's user writes it.
        # shellcheck disable=SC2086
        costs+=("$(cost instructions $words)")
    done
    echo $((costs[0] - costs[1]))
}

"$here/benches/periodic.sh" -w "$scratch" -- -- 16x80:1 64x640:1 1024x10240:1

echo "counted by $by"
printf '%-22s %-12s %12s %12s %6s %5s%s\n' row measure old new ratio aim "${rival:+ new by the rival}"
while read -r name measure aim command; do
    [ -n "$name" ] || continue
    asked=$([ $# -eq 0 ] && echo yes || true)
    for begin in "$@"; do [ "${name#"$begin"}" = "$name" ] || asked=yes; done
    [ -n "$asked" ] || continue
    : >"$scratch/all"
    # Images that the row needs are in the cache then.
    if [[ $command =~ "--backend code"|first-difference && $command != fresh* ]]; then
        for build in "${builds[@]}"; do row_cost "$build" user "$command" >/dev/null; done
    fi
    for ((i = 0; i < times; i++)); do
        for b in $([ $((i % 2)) -eq 0 ] && echo 0 1 || echo 1 0); do
            echo "$b $(row_cost "${builds[b]}" "$measure" "$command")" >>"$scratch/all"
        done
    done
    beside=""
    if [ -n "$rival" ] && [[ $command =~ FILE-([0-9]+)x([0-9]+).*\ ([0-9]+ms:[0-9]+ms)$ ]]; then
        beside=$(rival_cost "${BASH_REMATCH[1]}" "$scratch/${BASH_REMATCH[1]}x${BASH_REMATCH[2]}.json" "${BASH_REMATCH[3]}")
    fi
    awk -v name="$name" -v measure="$measure" -v aim="$aim" -v rival="$beside" '
        !($1 in least) || $2 < least[$1] { least[$1] = $2 }
        END {
            printf "%-22s %-12s %12.6g %12.6g %6.2f %5s", name, measure, least[0], least[1],
                least[1] / (least[0] > 0 ? least[0] : 1e-9), aim
            if (rival > 0) printf " %.2f", least[1] / rival
            print ""
        }' "$scratch/all"
done <<<"$rows"
