#!/usr/bin/env bash
# Do the live programs cost what the original tools cost? Interleaved pairs of runs of each, in the order A B B A, on the
# kernel this runs on; the ratio of every pair, their geometric mean, and its 95% interval (Student's t on the logarithms).
# Ours are watched as they are by default. A case that ends in -pinned has all tasks of both on one CPU (taskset).
# Exit code 0: every interval lies inside 5% of 1. 1: one does not. 2: wrong option. 3: a tool is missing.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
schedlab=${SCHEDLAB:-$here/target/release/schedlab}
pairs=40 groups=2 loops=2000 trips=100000 cpu=0 ours_more="" first=ours
cases="pipe-process pipe-thread pipe-process-pinned pipe-thread-pinned
    hackbench-process-pipe hackbench-thread-pipe hackbench-process-socket hackbench-thread-socket"
cases=$(echo $cases)

usage() {
    cat >&2 <<EOF
usage: benches/parity.sh [-n PAIRS] [-g GROUPS] [-l LOOPS] [-t TRIPS] [-c CPU] [-o OPTION]... [CASE...]
  -n  pairs of runs, 5 to 40 ($pairs)        -g  groups of hackbench ($groups)
  -l  messages per hackbench sender and receiver ($loops)   -t  round trips of pipe ($trips)
  -c  the CPU of pinned cases ($cpu)          -o  an option more for ours, such as --counters
  -s  original against original: what the machine itself adds to the interval
  cases: $cases
  SCHEDLAB names another executable than target/release/schedlab.
EOF
    exit 2
}

while getopts n:g:l:t:c:o:s option; do
    case $option in
        n) pairs=$OPTARG ;;
        g) groups=$OPTARG ;;
        l) loops=$OPTARG ;;
        t) trips=$OPTARG ;;
        c) cpu=$OPTARG ;;
        o) ours_more="$ours_more $OPTARG" ;;
        s) first=theirs ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
for number in "$pairs" "$groups" "$loops" "$trips" "$cpu"; do
    case $number in '' | *[!0-9]*) usage ;; esac
done
[ "$pairs" -ge 5 ] && [ "$pairs" -le 40 ] || usage
for case in "$@"; do
    case " $cases " in *" $case "*) ;; *) usage ;; esac
done
[ $# -eq 0 ] || cases=$*

missing=""
lack() { echo "parity: $1" >&2; missing=yes; }
command -v awk >/dev/null || lack "awk is missing"
[ -x "$schedlab" ] || lack "$schedlab is missing: cargo build --release"
case $cases in
    *hackbench*) command -v hackbench >/dev/null || lack "hackbench is missing: it is in the package rt-tests" ;;
esac
case $cases in
    *pipe-process* | *pipe-thread*)
        perf bench -f simple sched pipe -T -l 1 >/dev/null 2>&1 ||
            lack "'perf bench sched pipe' does not run: perf is in the package linux-perf (or perf, linux-tools)"
        ;;
esac
case $cases in
    *-pinned*) taskset -c "$cpu" true 2>/dev/null || lack "can't run on CPU $cpu alone: taskset is in util-linux, -c names another CPU" ;;
esac
[ -z "$missing" ] || exit 3

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What stands before a command of a case.
where() {
    case $1 in *-pinned) echo "taskset -c $cpu" ;; esac
}

# The options both have in common.
how() {
    case $1 in
        pipe-thread*) echo -T ;;
        hackbench-process-pipe*) echo -P -p ;;
        hackbench-process-*) echo -P ;;
        hackbench-thread-pipe*) echo -T -p ;;
        hackbench-thread-*) echo -T ;;
    esac
}

# The original's time, in seconds.
theirs() {
    case $1 in
        pipe-*) $(where "$1") perf bench -f simple sched pipe $(how "$1") -l "$trips" ;;
        *) $(where "$1") hackbench $(how "$1") -g "$groups" -l "$loops" | sed -n 's/^Time: //p' ;;
    esac
}

# Ours, in seconds.
ours() {
    local tool=${1%%-*} size
    case $1 in
        pipe-*) size="-l $trips" ;;
        *) size="-g $groups -l $loops" ;;
    esac
    # The store is not what is measured.
    rm -rf "$scratch/runs"
    $(where "$1") "$schedlab" bench "$tool" $(how "$1") $size --backend host --json --quiet $ours_more \
        --out "$scratch/runs" >"$scratch/result" 2>"$scratch/errors" || {
        cat "$scratch/errors" >&2
        exit 3
    }
    seconds "$tool.elapsed" <"$scratch/result"
}

# The mean of a series (here of one value) in a JSON result with one member a line, in ns; printed in seconds.
seconds() {
    awk -v name="\"$1.mean\":" '
        $1 == name { here = 1 }
        here && $1 == "\"value\":" { printf "%.6f\n", $2 / 1e9; exit }'
}

both() {
    local case=$1 pair a b
    theirs "$case" >/dev/null && "$first" "$case" >/dev/null # warm caches; not counted
    for pair in $(seq 1 "$pairs"); do
        if [ $((pair % 2)) -eq 1 ]; then
            a=$(theirs "$case") b=$("$first" "$case")
        else
            b=$("$first" "$case") a=$(theirs "$case")
        fi
        echo "$pair $a $b"
    done
}

# Prints the pairs and the verdict; fails when the interval leaves 0.95..1.05. The quantile of t is its expansion about
# the normal one (Cornish and Fisher), good to three digits from 4 degrees of freedom on.
judge() {
    awk -v case="$1" '
        NF != 3 || $2 <= 0 || $3 <= 0 { print "parity: no times in: " $0 > "/dev/stderr"; broken = 1; exit }
        {
            ratio = $3 / $2; x = log(ratio); n++; sum += x; squares += x * x; original += log($2)
            printf "  pair %2d  original %8.3f s  schedlab %8.3f s  ratio %.3f\n", $1, $2, $3, ratio
            fflush()
        }
        END {
            if (broken || n < 5) exit 1
            d = n - 1; z = 1.959964
            t = z + (z^3 + z) / (4 * d) + (5 * z^5 + 16 * z^3 + 3 * z) / (96 * d^2) \
                + (3 * z^7 + 19 * z^5 + 17 * z^3 - 15 * z) / (384 * d^3)
            mean = sum / n; variance = (squares - n * mean * mean) / d
            half = t * sqrt((variance > 0 ? variance : 0) / n)
            low = exp(mean - half); high = exp(mean + half); inside = low > 0.95 && high < 1.05
            printf "%-24s ratio %.3f, 95%% interval %.3f to %.3f, %d pairs of %.2f s: %s\n", case, exp(mean), low, high, n, \
                exp(original / n), inside ? "inside 5% of 1" : "NOT inside 5% of 1"
            exit !inside
        }'
}

echo "load of the machine before: $(cut -d' ' -f1-3 /proc/loadavg) on $(getconf _NPROCESSORS_ONLN) CPUs"
failed=0
for case in $cases; do
    both "$case" | judge "$case" || failed=1
done
exit $failed
