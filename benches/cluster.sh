#!/usr/bin/env bash
# Sweeps on a real cluster of one node: Debian's slurm-wlm and munge, started here in a scratch folder as root, on ports
# of their own, and stopped at the end. Shows that a cluster's runs have the bytes of local ones, also when the node dies
# in the middle, when the waiting command is interrupted, when two commands run at once, and when runs are carried by
# hand; and that errors are told. --full takes the whole study instead of a part of it.
#
# Usage: benches/cluster.sh [--full] [SCHEDLAB]
set -euo pipefail
cd "$(dirname "$0")/.."
full=no
[ "${1:-}" = --full ] && { full=yes; shift; }
schedlab=$(readlink -f "${1:-target/release/schedlab}")
for program in munged slurmctld slurmd sbatch squeue; do
    command -v "$program" >/dev/null || { echo "no $program: apt-get install slurm-wlm munge" >&2; exit 3; }
done
[ "$(id -u)" = 0 ] || { echo "slurmd starts tasks as root only" >&2; exit 3; }
[ -x "$schedlab" ] || { echo "no $schedlab: cargo build --release" >&2; exit 3; }

scratch=$(mktemp -d /tmp/schedlab-cluster.XXXXXX)
# munged wants a folder that everyone may enter.
chmod 755 "$scratch"
export SLURM_CONF=$scratch/slurm.conf
node=$(hostname -s)
slurmd=0 others=()
mounted=()

# Slurm's steps and the tasks in them, and nothing else: their environment names this configuration and a job. One grep
# reads all processes: a loop of many would be slower than a task.
steps() {
    local at
    for at in $(grep -lsF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ); do
        at=${at%/environ}
        if [ "$(cat "$at/comm" 2>/dev/null)" = slurmstepd ] || grep -qs 'SLURM_JOB_ID=' "$at/environ"; then
            echo "${at#/proc/}"
        fi
    done
}
end_steps() { local pid; for pid in $(steps); do kill -9 "$pid" 2>/dev/null || true; done; }
clean() {
    local status=$? pid
    trap - EXIT
    set +e
    [ $status = 0 ] || { tail -n 5 "$scratch"/*.err "$scratch"/log/* 2>/dev/null; }
    scancel --user=root 2>/dev/null
    end_steps
    for pid in $(jobs -p); do kill "$pid" 2>/dev/null; done
    wait 2>/dev/null
    end_steps
    for at in "${mounted[@]}"; do umount "$at"; done
    rm -rf "$scratch"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT TERM
fail() { echo "cluster: $*" >&2; exit 1; }
say() { echo "== $* (${SECONDS}s)"; }

mkdir -p "$scratch"/{state,spool,log}
dd if=/dev/urandom of="$scratch/munge.key" bs=1024 count=1 2>/dev/null
chmod 400 "$scratch/munge.key"
# Two ports that nobody has.
ports=$(python3 -c 'import socket
s = [socket.socket() for _ in range(2)]
for one in s: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in s])')
cat >"$SLURM_CONF" <<CONF
ClusterName=schedlab
SlurmctldHost=$node(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.sock,cred_expire=10
CredType=cred/munge
SlurmUser=root
SlurmctldPort=${ports% *}
SlurmdPort=${ports#* }
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/log/slurmctld.log
SlurmdLogFile=$scratch/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdTimeout=15
KillWait=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=100000
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=1000 Feature=here State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=60 State=UP
CONF
start_slurmd() {
    slurmd -D -f "$SLURM_CONF" -N "$node" >>"$scratch/log/slurmd.out" 2>&1 &
    slurmd=$!
}
munged --foreground --key-file="$scratch/munge.key" --socket="$scratch/munge.sock" --pid-file="$scratch/munged.pid" \
    --log-file="$scratch/log/munged.log" --seed-file="$scratch/munge.seed" >/dev/null 2>&1 &
others+=($!)
for _ in $(seq 50); do [ -S "$scratch/munge.sock" ] && break; sleep 0.1; done
slurmctld -D -f "$SLURM_CONF" >"$scratch/log/slurmctld.out" 2>&1 &
others+=($!)
start_slurmd
for _ in $(seq 100); do [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break; sleep 0.2; done
[ "$(sinfo -h -o %T)" = idle ] || fail "the cluster does not start: $(sinfo -h)"

if [ $full = yes ]; then
    what=(study idle-sibling)
    tasks=36 lost_tasks=36
else
    what=(study idle-sibling --load 2x24@fb-2x12-smt --runs 4)
    # Tasks of the node that dies have many runs, so that one is lost in the middle.
    tasks=16 lost_tasks=3
fi
cluster=(--engine slurm --slurm tasks="$tasks" --slurm partition=main)
runs_in() { find "$1" -name record.json 2>/dev/null | wc -l; }
# Runs a study in a folder of that name; its result is in NAME.txt, what it told in NAME.err.
in_folder() {
    local name=$1
    shift
    mkdir -p "$scratch/$name"
    (cd "$scratch/$name" && exec "$schedlab" "$@") >"$scratch/$name.txt" 2>"$scratch/$name.err"
}
same() {
    diff -r --exclude=slurm "$scratch/local/runs" "$scratch/$1/runs" >&2 || fail "$1: other bytes in the store"
    cmp "$scratch/local.txt" "$scratch/$1.txt" || fail "$1: another comparison"
}
wait_for_runs() {
    for _ in $(seq 600); do [ "$(runs_in "$scratch/$1/runs")" -ge "$2" ] && return; sleep 0.1; done
    cat "$scratch/$1.err" >&2
    fail "$1: no $2 runs within a minute"
}

say "here"
in_folder local "${what[@]}"
all=$(runs_in "$scratch/local/runs")

say "the same $all runs by the cluster"
in_folder plain "${what[@]}" "${cluster[@]}"
same plain
in_folder plain "${what[@]}" "${cluster[@]}"
grep -q "0 runs made, $all found" "$scratch/plain.err" || fail "a second command made runs: $(cat "$scratch/plain.err")"

say "the node dies in the middle"
in_folder dies "${what[@]}" --engine slurm --slurm tasks="$lost_tasks" --slurm partition=main &
waiting=$!
wait_for_runs dies 3
kill -9 "$slurmd"
lost=$(steps)
end_steps
wait "$slurmd" 2>/dev/null || true
[ -n "$lost" ] && [ -n "$(squeue -h --states=running)" ] || fail "no task was lost"
before=$(runs_in "$scratch/dies/runs")
[ "$before" -lt "$all" ] || fail "nothing was left to lose"
# Slurm takes a node for dead that does not answer for SlurmdTimeout, and queues its tasks again.
for _ in $(seq 300); do [[ "$(sinfo -h -o %T)" = down* ]] && break; sleep 0.2; done
[[ "$(sinfo -h -o %T)" = down* ]] || fail "Slurm does not see that its node is dead: $(sinfo -h)"
[ "$(runs_in "$scratch/dies/runs")" = "$before" ] || fail "a dead node made runs"
start_slurmd
wait "$waiting" || { cat "$scratch/dies.err" >&2; fail "the command did not survive its node"; }
same dies

say "interrupted, and collected"
mkdir -p "$scratch/stops"
# A shell's background children ignore SIGINT; env gives it back.
(cd "$scratch/stops" && exec env --default-signal=INT "$schedlab" "${what[@]}" "${cluster[@]}") \
    >"$scratch/stops.txt" 2>"$scratch/stops.err" &
waiting=$!
wait_for_runs stops 2
kill -INT "$waiting"
status=0
wait "$waiting" || status=$?
[ $status = 1 ] || fail "an interrupted command ends with $status: $(cat "$scratch/stops.err")"
grep -q "which continue" "$scratch/stops.err" || fail "it does not say that the jobs continue"
[ -n "$(squeue -h)" ] || fail "the jobs did not go on"
cp "$scratch/stops.err" "$scratch/stops-first.err"
in_folder stops "${what[@]}" "${cluster[@]}"
same stops
grep -q "submitted before" "$scratch/stops.err" || fail "the jobs were not found again: $(cat "$scratch/stops.err")"
[ "$(ls "$scratch"/stops/runs/slurm | grep -cv lock)" = 1 ] || fail "it was submitted twice"

say "two commands at once"
in_folder both "${what[@]}" "${cluster[@]}" &
first=$!
mkdir -p "$scratch/both"
(cd "$scratch/both" && exec "$schedlab" "${what[@]}" "${cluster[@]}") >"$scratch/both2.txt" 2>"$scratch/both2.err" &
second=$!
wait "$first" || fail "the first one: $(cat "$scratch/both.err")"
wait "$second" || fail "the second one: $(cat "$scratch/both2.err")"
same both
cmp "$scratch/both.txt" "$scratch/both2.txt"
[ "$(ls "$scratch"/both/runs/slurm | grep -cv lock)" = 1 ] || fail "two commands did not share a job"

say "without a shared folder"
mkdir -p "$scratch/packs" "$scratch/far"
(cd "$scratch/packs" && "$schedlab" pack idle-sibling "${what[@]:2}" -o sweep.parcel -q)
(cd "$scratch/far" && "$schedlab" work ../packs/sweep.parcel --results ../packs/sweep.results -q)
(cd "$scratch/packs" && "$schedlab" unpack sweep.results && "$schedlab" unpack sweep.results) 2>"$scratch/unpack.err"
grep -q "$all runs put into runs, 0 were there" "$scratch/unpack.err" || fail "$(cat "$scratch/unpack.err")"
grep -q "0 runs put into runs, $all were there" "$scratch/unpack.err" || fail "$(cat "$scratch/unpack.err")"
in_folder packs "${what[@]}"
same packs
head -c 100000 "$scratch/packs/sweep.results" >"$scratch/packs/cut.results"
sed '2s/"sum":"./"sum":"g/' "$scratch/packs/sweep.results" >"$scratch/packs/sum.results"
sed '1s/"model":[0-9]*/"model":1/' "$scratch/packs/sweep.results" >"$scratch/packs/model.results"
sed 's/"model":[0-9]*/"model":1/' "$scratch/packs/sweep.parcel" >"$scratch/packs/model.parcel"
for kind in cut sum model; do
    status=0
    (cd "$scratch/packs" && "$schedlab" unpack $kind.results --out none) 2>>"$scratch/refused.err" || status=$?
    [ $status = 2 ] || fail "unpack $kind: exit code $status"
    [ "$(runs_in "$scratch/packs/none")" = 0 ] || fail "unpack $kind stored runs"
done
status=0
(cd "$scratch/packs" && "$schedlab" work model.parcel --out none) 2>>"$scratch/refused.err" || status=$?
[ $status = 2 ] || fail "work of another model: exit code $status"

say "errors"
# Ends a command with that exit code; its words are in error.err.
ends() {
    local wanted=$1 status=0
    shift
    (cd "$scratch" && "$@") >/dev/null 2>"$scratch/error.err" || status=$?
    [ "$status" = "$wanted" ] || fail "exit code $status, not $wanted, of $*: $(cat "$scratch/error.err")"
}
small=(study idle-sibling --load 2x24@fb-2x12-smt --runs 2)
ends 3 env PATH=/nowhere "$schedlab" "${small[@]}" --engine slurm --out e1
grep -q "without --engine slurm" "$scratch/error.err" || fail "no remedy without sbatch: $(cat "$scratch/error.err")"
ends 2 "$schedlab" "${small[@]}" --engine slurm --slurm partition=nope --out e2
[ "$(grep -ci "invalid partition" "$scratch/error.err")" = 1 ] || fail "a wrong partition: $(cat "$scratch/error.err")"
ends 2 "$schedlab" "${small[@]}" --slurm partition=main --out e3
mkdir "$scratch/hidden"
ends 3 unshare --mount sh -c "mount -t tmpfs none '$scratch/hidden' && exec '$schedlab' ${small[*]} --engine slurm \
    --out '$scratch/hidden/runs'"
grep -q "shared folder" "$scratch/error.err" || fail "a folder that nodes lack: $(cat "$scratch/error.err")"
mkdir "$scratch/tight"
mount -t tmpfs -o size=700k none "$scratch/tight"
mounted+=("$scratch/tight")
ends 3 "$schedlab" "${small[@]}" --engine slurm --out "$scratch/tight/runs"
grep -q "No space left" "$scratch/error.err" || fail "a full disk: $(cat "$scratch/error.err")"

say "live runs"
cat >"$scratch/live.toml" <<'TOML'
runs = 4
[workload]
name = "slice"
tasks = 2
runtime = "200ms"
[[variant]]
name = "plain"
kernel = "running"
[[variant]]
name = "nice"
kernel = "running"
nice = 5
TOML
ends 2 "$schedlab" run live.toml --backend host --engine slurm --out live
ends 0 "$schedlab" run live.toml --backend host --engine slurm --slurm constraint=here --out live
[ "$(runs_in "$scratch/live")" = 8 ] || fail "not all live runs"
python3 - "$scratch"/live/slurm/*/plan.json <<'PY'
import json, sys
plan = json.load(open(sys.argv[1]))
for task in plan["tasks"]:
    for block in task["blocks"]:
        cells = [cell for cell, _ in block]
        assert task["together"] and cells == [0, 1, 1, 0], block
PY
say "the cluster's runs are the local ones"
