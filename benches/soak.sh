#!/usr/bin/env bash
# Does schedlab keep what it promises under long runs, kills and full disks? Three parts: a long simulation of a large
# machine whose invariants are walked; SIGKILL at random instants over simulated, live, guest and settings runs; a disk
# that is full at every write. docs/reliability.md says what is promised and what was seen.
# Exit code 0: all held. 1: something did not. 2: wrong option. 3: a tool is missing.
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
schedlab=${SCHEDLAB:-$here/target/release/schedlab}
cpus=1024 tasks=20000 minutes=60 portion=60 walk=4096 kills=500 seed=1 parts="sim kill full"

usage() {
    cat >&2 <<TEXT
usage: benches/soak.sh [-s] [-c CPUS] [-t TASKS] [-m MINUTES] [-p SECONDS] [-w STEPS] [-k KILLS] [-r SEED] [PART...]
  -s  short: 64 CPUs, 1000 tasks, 10 simulated seconds, 20 kills
  -c  CPUs ($cpus)   -t  tasks ($tasks)   -m  simulated minutes ($minutes)   -p  simulated seconds of a portion ($portion)
  -w  steps between two walks over the invariants, 1 to 4096 ($walk)
  -k  kills ($kills)   -r  seed of portions, of what is killed and when ($seed)
  parts: $parts
  SCHEDLAB names another executable than target/release/schedlab.
TEXT
    exit 2
}

seconds=""
while getopts sc:t:m:p:w:k:r: option; do
    case $option in
        s) cpus=64 tasks=1000 seconds=10 portion=5 kills=20 ;;
        c) cpus=$OPTARG ;;
        t) tasks=$OPTARG ;;
        m) minutes=$OPTARG seconds="" ;;
        p) portion=$OPTARG ;;
        w) walk=$OPTARG ;;
        k) kills=$OPTARG ;;
        r) seed=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
for number in "$cpus" "$tasks" "$minutes" "$portion" "$walk" "$kills" "$seed"; do
    case $number in '' | *[!0-9]*) usage ;; esac
done
[ "$portion" -gt 0 ] || usage
for part in "$@"; do
    case " $parts " in *" $part "*) ;; *) usage ;; esac
done
[ $# -eq 0 ] || parts=$*
seconds=${seconds:-$((minutes * 60))}
[ -x "$schedlab" ] || { echo "soak: $schedlab is missing: cargo build --release" >&2; exit 3; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 3
mkdir tmp state
export TMPDIR=$scratch/tmp SCHEDLAB_STATE_DIR=$scratch/state
failures=0
failed() {
    failures=$((failures + 1))
    echo "soak: FAILED: $*" >&2
}

# A simulated hour. Most tasks sleep, as on a large machine; some are always runnable, some wake each other.
sim() {
    local hogs=$((tasks / 200)) pairs=$((tasks / 100)) done_s=0 n=0 kernels=(v4.5 v6.5 v6.12) at took
    cat >many.json <<TEXT
{ "global": { "duration": $portion },
  "tasks": {
    "sleeper": { "instance": $((tasks - hogs - pairs)), "run": 150, "sleep": 900000 },
    "hog": { "instance": $hogs, "run": 8000, "sleep": 500 },
    "timer": { "instance": $pairs, "run": 300, "timer": { "ref": "unique", "period": 40000 } } } }
TEXT
    while [ "$done_s" -lt "$seconds" ]; do
        at=$(date +%s)
        if ! SCHEDLAB_WALK_EVERY=$walk "$schedlab" bench many.json --backend sim --machine "smt-$cpus" \
            --kernel "${kernels[n % 3]}" --seed $((seed + n)) --out sim --json --quiet >sim.json 2>sim.err; then
            failed "simulated portion $n, ${kernels[n % 3]}, seed $((seed + n)): $(tail -3 sim.err)"
        fi
        took=$(($(date +%s) - at)) n=$((n + 1)) done_s=$((done_s + portion))
        echo "sim: $done_s of $seconds simulated seconds, this portion in $took s (${kernels[(n - 1) % 3]})"
        rm -rf sim
    done
}

# Everything that belongs to a started schedlab carries this word in its environment. A process that has just been killed
# may be seen for a moment. True when one is still there after that; `orphans` then names it.
orphans() {
    local tries
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        # grep's status says nothing here: it is 2 whenever one process's environment can't be read.
        grep -lz "^SCHEDLAB_SOAK=$1\$" /proc/[0-9]*/environ >carriers 2>/dev/null
        grep -v "^/proc/$$/" carriers >orphans
        [ -s orphans ] || return 1
        sleep 0.3
    done
    return 0
}

# A check that can't fail shows nothing: it must find a process that lives and carries the word.
try_orphans() {
    local pid
    SCHEDLAB_SOAK=trial sleep 60 &
    pid=$!
    # Until it has become the sleep, the child's environment is this script's.
    sleep 0.5
    orphans trial && [ "$(cat orphans)" = "/proc/$pid/environ" ] || failed "the orphan check misses a living orphan"
    kill "$pid"
    wait "$pid" 2>/dev/null
    ! orphans trial || failed "the orphan check finds $(tr '\n' ' ' <orphans) where nothing is left"
}

# Every record is that of the seed its folder is named by.
own_seeds() {
    local record seed
    find "$1" -mindepth 3 -maxdepth 3 -name record.json -not -path '*/.*' 2>/dev/null | while IFS= read -r record; do
        seed=$(basename "$(dirname "$record")")
        grep -qE "\"seed\": ?$seed[,}]" "$record" || echo "$record"
    done >strangers
    [ ! -s strangers ] || failed "$(wc -l <strangers) records under another seed: $(head -3 strangers | tr '\n' ' ')"
}

# Whole runs: those under temporary names are none.
records() { find "$1" -mindepth 3 -maxdepth 3 -name record.json -not -path '*/.*' 2>/dev/null | wc -l; }

experiment() {
    cat >"$1.toml" <<TEXT
name = "$1"
runs = 1000
machines = ["smp-4"]
[workload]
name = "schbench"
runtime = "$2"
sleeptime = "1ms"
cputime = "1ms"
[[load]]
name = "$1"
message_threads = 1
threads = 4
[[variant]]
kernel = "$3"
TEXT
}

# The words of a run of a kind, in `words`.
of_kind() {
    case $1 in
        sim) words=(run sim.toml --out runs-sim --quiet) ;;
        live) words=(run live.toml --backend host --out runs-live --quiet) ;;
        guest) words=(bench schbench -m 1 -t 2 -r 1 --backend vm --kernel "$image" --machine smp-2 --out runs-guest --quiet) ;;
        settings) words=(exec --set autogroup=0 -- sleep 1) ;;
    esac
}

knob=system/proc/sys/kernel/sched_autogroup_enabled

# One kill: start, wait, kill, look.
one_kill() {
    local kind=$1 id=$2 before after pid words most=1500
    of_kind "$kind"
    before=$(records "runs-$kind")
    [ "$kind" != guest ] || most=12000
    case $kind in
        settings) SCHEDLAB_SYSTEM_ROOT=$scratch/system SCHEDLAB_SOAK=$id "$schedlab" "${words[@]}" >out 2>err & ;;
        *) SCHEDLAB_SOAK=$id "$schedlab" "${words[@]}" >out 2>err & ;;
    esac
    pid=$!
    sleep "$(awk -v ms=$((RANDOM * most / 32768)) 'BEGIN { print ms / 1000 }')"
    kill -KILL "$pid" 2>/dev/null || ended=$((ended + 1))
    wait "$pid" 2>/dev/null
    if orphans "$id"; then
        # A command that schedlab was told to run is the user's, and stays: the settings' sleep.
        [ "$kind" = settings ] || failed "kill $id ($kind) left $(tr '\n' ' ' <orphans)"
    fi
    after=$(records "runs-$kind")
    [ "$after" -ge "$before" ] || failed "kill $id ($kind): $before runs before, $after after"
    if [ "$kind" = settings ]; then
        SCHEDLAB_SYSTEM_ROOT=$scratch/system "$schedlab" restore >out 2>&1 || failed "restore after kill $id: $(cat out)"
        [ "$(cat $knob)" = 1 ] || failed "kill $id: the setting is $(cat $knob), not 1"
        [ -z "$(ls -A state/journal 2>/dev/null)" ] || failed "kill $id: the journal still holds $(ls -A state/journal)"
    elif [ "$after" -gt "$before" ]; then
        # Whatever is there must be whole.
        find "runs-$kind" -name record.json -not -path '*/.*' -newer mark -print0 | while IFS= read -r -d '' run; do
            "$schedlab" compare "$run" >/dev/null 2>err || { failed "kill $id: $run: $(cat err)"; touch unreadable; }
        done
        touch mark
    fi
}

kill_part() {
    local n kinds=(sim live settings) kind ended=0 image="" counted
    image=$("$schedlab" kernel list --json 2>/dev/null | sed -n 's/.*"path": "\(.*\)".*/\1/p' | head -1)
    [ -z "$image" ] || kinds+=(guest)
    experiment sim 100ms v6.5
    experiment live 50ms running
    mkdir -p "$(dirname $knob)"
    echo 1 >$knob
    touch -d 2000-01-01 mark
    try_orphans
    RANDOM=$seed
    declare -A counted=()
    for ((n = 1; n <= kills; n++)); do
        # A guest takes seconds to boot: one kill of ten.
        kind=${kinds[RANDOM % 3]}
        [ -z "$image" ] || [ $((n % 10)) -ne 0 ] || kind=guest
        one_kill "$kind" "$n"
        counted[$kind]=$((${counted[$kind]:-0} + 1))
        [ $((n % 50)) -ne 0 ] || echo "kill: $n of $kills, $failures failures"
    done
    [ ! -e unreadable ] || failed "runs that can't be read"
    # The next run of each kind takes away what the killed ones left, once that is old enough.
    echo "kill: left before the next start: $(left | wc -l) temporary files and folders"
    left | xargs -r touch -d '10 minutes ago'
    local words
    for kind in "${!counted[@]}"; do
        case $kind in
            sim | live) of_kind "$kind"; "$schedlab" "${words[@]}" --runs $(($(records "runs-$kind") + 1)) >/dev/null 2>err ||
                failed "the next start of $kind: $(tail -2 err)" ;;
            guest) of_kind guest; "$schedlab" "${words[@]}" >/dev/null 2>err || failed "the next guest: $(tail -2 err)" ;;
        esac
    done
    [ -z "$(left)" ] || failed "never collected: $(left | tr '\n' ' ')"
    for kind in "${!counted[@]}"; do
        own_seeds "runs-$kind"
        echo "kill: ${counted[$kind]} of $kind, $(records "runs-$kind") runs kept"
    done
    echo "kill: $ended had ended before the signal"
}

# Temporary names that schedlab makes.
left() { find runs-* tmp state -name '.*.tmp' -o -name 'schedlab-*' -prune -o -name '*.tmp' 2>/dev/null; }

# Run in a private mount namespace: a small disk of its own, filled but for ever more of it.
full_inside() {
    local free_kb=0 code tried=0 none=0 some=0 all=0 disk=$scratch/disk stored
    failures=0
    mkdir -p "$disk"
    mount -t tmpfs -o size=4m,nr_inodes=4k soak "$disk" || { echo "soak: no tmpfs in a namespace here" >&2; return 3; }
    experiment full 50ms v6.5
    # A run folder needs about a dozen pages; between none and plenty, page by page.
    for ((free_kb = 0; free_kb <= 160; free_kb += 4)); do
        rm -rf "${disk:?}"/*
        mkdir "$disk/state"
        head -c 8m /dev/zero >"$disk/fill" 2>/dev/null
        truncate -s -"$((free_kb * 1024))" "$disk/fill"
        "$schedlab" run full.toml --runs 2 --out "$disk/runs" --quiet >out 2>err
        code=$?
        tried=$((tried + 1))
        case $code in
            0 | 3) ;;
            *) failed "full disk, $free_kb KB free: exit code $code: $(tail -2 err)" ;;
        esac
        [ -z "$(find "$disk/runs" -name '*.tmp' 2>/dev/null)" ] || failed "full disk, $free_kb KB free: half a run is left"
        stored=$(records "$disk/runs")
        case $stored in 0) none=$((none + 1)) ;; 1) some=$((some + 1)) ;; *) all=$((all + 1)) ;; esac
        own_seeds "$disk/runs"
        if [ "$stored" -gt 0 ]; then
            "$schedlab" compare "$disk/runs" --json >compared 2>err || failed "full disk, $free_kb KB: $(tail -2 err)"
            grep -q "\"runs\": $stored" compared || failed "full disk, $free_kb KB: $stored stored runs, others compared"
        fi
        [ "$code" -ne 0 ] || [ "$stored" -eq 2 ] || failed "full disk, $free_kb KB: exit code 0 with $stored of 2 runs"
        # A setting is changed only when the old value is safe.
        head -c 8m /dev/zero >>"$disk/fill" 2>/dev/null
        [ "$free_kb" -eq 0 ] || truncate -s -"$((free_kb % 24 * 1024))" "$disk/fill"
        echo 1 >$knob
        SCHEDLAB_STATE_DIR=$disk/state SCHEDLAB_SYSTEM_ROOT=$scratch/system "$schedlab" exec --set autogroup=0 -- true >out 2>err
        [ "$(cat $knob)" = 1 ] || failed "full disk, $((free_kb % 24)) KB: the setting is $(cat $knob), not 1"
        "$schedlab" compare "$scratch/whole" --plot "$disk/p.svg" >out 2>err
        code=$?
        [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || failed "plot on a full disk: exit code $code: $(tail -2 err)"
        [ "$code" -eq 0 ] || [ -z "$(find "$disk" -maxdepth 1 -name '*p.svg*')" ] || failed "plot on a full disk left $(ls -A "$disk")"
    done
    "$schedlab" run full.toml --runs 2 --out "$scratch/whole2" --quiet >/dev/full 2>err
    [ $? -eq 3 ] || failed "standard output on a full device: $(tail -2 err)"
    echo "full: $tried free sizes tried; no run of two fitted in $none, one in $some, both in $all"
    if [ -n "${image:-}" ]; then
        rm -rf "${disk:?}"/*
        mkdir "$disk/tmp"
        of_kind guest
        TMPDIR=$disk/tmp "$schedlab" "${words[@]}" >out 2>err
        [ $? -eq 3 ] || failed "a guest on a full disk: $(tail -2 err)"
        [ -z "$(ls -A "$disk/tmp")" ] || failed "a guest on a full disk left $(ls -A "$disk/tmp")"
        echo "full: a guest whose files do not fit: $(head -1 err)"
    fi
    return $((failures > 0))
}

full_part() {
    mkdir -p "$(dirname $knob)"
    experiment full 50ms v6.5
    "$schedlab" run full.toml --runs 2 --out whole --quiet >/dev/null 2>err || failed "a run on a disk with room: $(tail -2 err)"
    image=$("$schedlab" kernel list --json 2>/dev/null | sed -n 's/.*"path": "\(.*\)".*/\1/p' | head -1)
    export schedlab scratch knob image failures
    export -f full_inside failed experiment records of_kind own_seeds
    unshare -rm bash -c full_inside
    case $? in
        0) ;;
        3) echo "full: left out: this user can make no mount namespace" ;;
        *) failures=$((failures + 1)) ;;
    esac
}

for part in $parts; do
    at=$(date +%s)
    case $part in
        sim) sim ;;
        kill) kill_part ;;
        full) full_part ;;
    esac
    echo "$part: $(($(date +%s) - at)) s, $failures failures so far"
done
[ "$failures" -eq 0 ]
