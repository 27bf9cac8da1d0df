#!/usr/bin/env bash
# What do lists, comparisons and reports of many stored runs cost? Makes a store of 1,000 cells with 10 runs each (2 simulated
# seconds of schbench on 8 CPUs, 3 GB) unless it is there, then tells user and system time, and peak memory, of each command,
# and holds the comparison with the index against the one without.
# Exit code 0: done. 1: the comparisons differ, or a command failed. 2: wrong option.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")/.." && pwd)
schedlab=${SCHEDLAB:-$here/target/release/schedlab}
[ $# -eq 1 ] || { echo "usage: benches/index.sh FOLDER    (of the store; SCHEDLAB names another executable)" >&2; exit 2; }
store=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/many.toml" <<'TOML'
name = "many"
runs = 10
machines = ["smt-8"]
baseline = "v6.5"
[workload]
name = "schbench"
runtime = "2s"
cputime = "500us"
warmup = "0"
message_threads = 1
[[load]]
threads = { range = [1, 10], step = 1 }
sleeptime = { sweep = ["1ms", "2ms", "3ms", "4ms", "5ms"] }
[[variant]]
name = "v6.5"
kernel = "v6.5"
[[variant]]
name = "granularity"
kernel = "v6.5"
tunables = { min_granularity_ns = { sweep = [500000, 1000000, 1500000, 2000000, 2500000, 3000000, 3500000, 4000000, 5000000] } }
[[variant]]
name = "ticks"
kernel = "v6.5"
tunables = { hz = { sweep = [100, 200, 250, 300, 500] }, wakeup_granularity_ns = { sweep = [500000, 2000000] } }
TOML
[ -d "$store" ] || "$schedlab" run "$work/many.toml" --out "$store" --quiet >/dev/null

timed() { # NAME OUTPUT COMMAND...
    local name=$1 output=$2
    shift 2
    /usr/bin/time -f "$name|%U|%S|%e|%M" -o "$work/time" "$@" >"$output" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
    awk -F'|' '{ printf "%-36s user %6.2f s  system %5.2f s  wall %6.2f s  %6.0f MB\n", $1, $2, $3, $4, $5 / 1024 }' "$work/time"
}
rm -rf "$store/.index"
cell=$(basename "$(find "$store" -mindepth 1 -maxdepth 1 -type d -name '[0-9a-f]*' | sort | head -n 1)")
timed "runs" "$work/list" "$schedlab" runs --out "$store"
timed "runs show CELL" "$work/show" "$schedlab" runs show "$cell" --out "$store"
timed "compare, beyond the index (p97.3)" "$work/beyond" "$schedlab" compare "$store" --metric wakeup_delay.p97.3
timed "compare, no index yet" "$work/without" "$schedlab" compare "$store"
timed "compare" "$work/with" "$schedlab" compare "$store"
timed "compare --json" "$work/json" "$schedlab" compare "$store" --json
# An empty file in the index's place: nothing can be kept, all records are read.
rm -r "$store/.index"
: >"$store/.index"
timed "compare --json, without" "$work/json.without" "$schedlab" compare "$store" --json
rm "$store/.index"
timed "runs index" "$work/index" "$schedlab" runs index --out "$store"
timed "runs index --check" "$work/check" "$schedlab" runs index --check --out "$store"
timed "report --no-strips" "$work/report" "$schedlab" report "$store" --no-strips -o "$work/page.html"
cat "$work/check"
for path in "$store" "$store/.index" "$work/page.html"; do du -sh "$path"; done
cmp "$work/with" "$work/without"
cmp "$work/json" "$work/json.without"
