#!/usr/bin/env bash
# Do two builds simulate the same, byte for byte? Runs are drawn from a seed: kernel, machine, workload with its options,
# features, tunables, attributes. `draw` makes them with one build and prints a line for each: the checksum of all that was
# stored and said, a tab, the command line. `check` makes the same runs with another build and holds them against those lines.
# Refused command lines count too: both builds must refuse them with the same words.
# Exit code 0: all the same. 1: some are not, and are printed. 2: wrong option.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
draws=300 seed=1 edit="" backend=sim jobs=$(getconf _NPROCESSORS_ONLN)

usage() {
    cat >&2 <<TEXT
usage: benches/same.sh [-n DRAWS] [-r SEED] [-b BACKEND] [-e SED] draw BUILD >LINES
       benches/same.sh [-e SED] [-k FOLDER] check BUILD LINES
  BUILD  an executable, such as target/release/schedlab
  -n     drawn runs ($draws), beside the studies with few runs and the rt-app examples
  -r     seed of the draws ($seed)
  -b     sim or code ($backend); code draws levels instead of features, and needs the images of 6.1, 6.12 and 7.3
  -e     edit of what was stored before it is summed (sed -E): fields renamed on purpose; give it to both
  -k     folder in which records that differ are kept
TEXT
    exit 2
}

kept=""
while getopts n:r:b:e:k: option; do
    case $option in
        n) draws=$OPTARG ;;
        r) seed=$OPTARG ;;
        b) backend=$OPTARG ;;
        e) edit=$OPTARG ;;
        k) kept=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
for number in "$draws" "$seed"; do
    case $number in '' | *[!0-9]*) usage ;; esac
done
[ $# -ge 2 ] || usage
build=$(realpath "$2")
[ -x "$build" ] || { echo "same: $2 is no executable: cargo build --release" >&2; exit 2; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Command lines of drawn runs. Numbers are Park and Miller's, which awk's floats hold exactly.
drawn() {
    local features
    features=$("$build" kernel features --json |
        awk '/"kind": "feature"/ { yes = 1 } /"name":/ && yes { gsub(/[",]/, "", $2); print $2; yes = 0 }' | tr '\n' ' ')
    awk -v draws="$draws" -v seed="$seed" -v features="$features" -v backend="$backend" '
        function draw(n) { state = (state * 16807) % 2147483647; return int(state / 2147483647 * n) }
        function from(a, b) { return a + draw(b - a + 1) }
        function one(words, all, n) { n = split(words, all, " "); return all[1 + draw(n)] }
        function workload(kind) {
            kind = one("schbench schbench schbench-modern nanosleep hackbench hackbench pipe rr stream-rr embedded-db slice slice batch")
            if (kind == "schbench")
                return kind " -m " from(1, 4) " -t " from(1, 16) " -r " from(40, 150) "ms -c " from(1, 40) "00us -s " from(1, 12) "ms"
            if (kind == "schbench-modern")
                return kind " -m " from(1, 2) " -t " from(1, 12) " -r " from(40, 120) "ms -R " one("0 0 400 2000")
            if (kind == "nanosleep")
                return kind " --tasks " from(1, 24) " --sleep " one("1us 20us 300us 2ms") " --run " one("0us 5us 80us 1500us") " -r " from(20, 80) "ms"
            if (kind == "hackbench")
                return kind " -g " from(1, 3) " -f " from(2, 8) " -l " from(5, 40) (draw(2) ? " -p " : " ") one("-P -T")
            if (kind == "pipe")
                return kind " -l " from(50, 1500) " --pairs " from(1, 6)
            if (kind == "rr")
                return kind " --pairs " from(1, 8) " --protocol " one("tcp udp") " -l " from(20, 60) "ms"
            if (kind == "stream-rr")
                return kind " --clients " from(1, 6) " -t " from(20, 50) "ms"
            if (kind == "embedded-db")
                return kind " --clients " from(1, 12) " -r " from(20, 80) "ms"
            if (kind == "slice")
                return kind " --tasks " from(1, 24) " --wakers " from(0, 3) " --rate " one("100 1000 4000") " --wake-work " from(1, 20) "0us --interval 50ms --hog-nice " from(-4, 6) " --waker-policy " one("other other batch idle") " --placement " one("free free pinned") " -r " from(100, 400) "ms"
            return kind " --jobs " from(1, 16) " --touched 4096 --compute " from(1, 20) "00us --sleep " from(1, 5) "ms --wakers " from(0, 3) " -r " from(50, 150) "ms"
        }
        BEGIN {
            state = seed % 2147483646 + 1; draw(2); draw(2)
            n = split(features, name, " ")
            for (i = 0; i < draws; i++) {
                line = workload()
                line = line " --machine " one("1cpu 2cpu 4cpu smp-6 8cpu smt-8 smt-16 x5570-2x4-smt desktop-8-smt nodes-2x4 icount-4 icount-8-smt icount-16 fb-2x12-smt fb-2x24 spr-2x56 epyc-2x64-smt")
                if (backend == "code") {
                    line = line " --kernel " one("v6.1 v6.12 v7.3") " --level " one("free free counted woven")
                    if (draw(6) == 0) line = line " --policy " one("batch idle fifo:10 rr:10")
                    if (draw(6) == 0) line = line " --nice=" from(-10, 10)
                    print "bench " line " --backend code --seed " from(1, 9)
                    continue
                }
                line = line " --kernel " one("v2.6.27 v2.6.30 v3.4 v4.5 v5.4 v5.10 v5.15 v6.1 v6.5 v6.6 v6.12 v6.18 v7.3")
                for (k = one("0 0 1 2 3"); k > 0; k--)
                    line = line " --feature " one("NO_ ") name[1 + draw(n)] (draw(3) == 0 ? "@" from(5, 40) "ms" : "")
                if (draw(4) == 0) line = line " --tunable " one("hz=100 hz=1000 migration_cost_ns=0 migration_cost_ns=5000000 nr_migrate=4 wakeup_granularity_ns=4000000 min_granularity_ns=200000 base_slice_ns=3000000 latency_ns=30000000 timer_slack_ns=1000 probe_batch=1 probe_batch=0")
                if (draw(6) == 0) line = line " --policy " one("batch idle")
                if (draw(6) == 0) line = line " --nice=" from(-10, 10)
                if (draw(8) == 0) line = line " --slice " from(1, 50) "00us"
                if (draw(12) == 0) line = line " --uncertainty --runs 2"
                print "bench " line " --backend sim --seed " from(1, 9)
            }
        }'
}

lines() {
    local study file
    if [ "$backend" = code ]; then drawn; return; fi
    for study in first-idle newidle fair-sleepers idle-cfs-rq; do
        echo "study $study --runs 1"
    done
    for file in "$here"/examples/rtapp/*.json; do
        echo "bench examples/rtapp/${file##*/} --backend sim --machine 4cpu -r 200ms"
    done
    drawn
}

# The sum of what a command line stores and says. Cells are named by hashes, which a renamed field changes: the files count.
sum() {
    local out=$1 line=$2 code=0
    mkdir -p "$out"
    # shellcheck disable=SC2086 # a line is words
    (cd "$here" && "$build" $line --quiet --out "$out/runs") >"$out/said" 2>"$out/errors" </dev/null || code=$?
    echo "exit code $code" >>"$out/errors"
    # Where a run was stored is named by a hash, too.
    sed -E -i "s#$out#OUT#g; s#OUT/runs/[0-9a-f]+#OUT/runs/CELL#g" "$out/said" "$out/errors"
    [ -z "$edit" ] || find "$out" -type f -exec sed -E -i "$edit" {} +
    find "$out" -type f -exec sha256sum {} + | cut -d' ' -f1 | sort | sha256sum | cut -c1-32
}

# Sums of the lines on standard input, in their order, some at a time.
sums() {
    local number=0 line
    while IFS= read -r line; do
        number=$((number + 1))
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
        (
            printf '%s\t%s\n' "$(sum "$scratch/$number" "$line")" "$line" >"$scratch/$number.sum"
            [ -n "$kept" ] || rm -rf "${scratch:?}/$number"
        ) &
    done
    wait
    local i
    for i in $(seq 1 "$number"); do cat "$scratch/$i.sum"; done
}

case $1 in
    draw)
        [ $# -eq 2 ] || usage
        lines | sums
        ;;
    check)
        [ $# -eq 3 ] || usage
        cut -f2- "$3" | sums >"$scratch/now"
        differ=0 number=0
        while IFS= read -r was <&3 && IFS= read -r is <&4; do
            number=$((number + 1))
            [ "$was" = "$is" ] && continue
            differ=$((differ + 1))
            echo "differs: ${was#*$'\t'}"
            [ -z "$kept" ] || { mkdir -p "$kept" && cp -r "$scratch/$number" "$kept/$number"; }
        done 3<"$3" 4<"$scratch/now"
        echo "$number command lines, $differ of them differ"
        [ "$differ" -eq 0 ]
        ;;
    *) usage ;;
esac
