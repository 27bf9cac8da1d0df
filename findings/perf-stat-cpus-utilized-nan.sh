#!/usr/bin/env bash
# perf stat of 7.3 prints "nan CPUs" where the CPU has no counters (Debian 13's backports, November 2026).
#
# Versions: linux-perf 7.3.4-1~bpo13+1 on Linux 6.18.44 in a VM without a PMU. linux-perf 6.1.192 prints a number
# of "CPUs utilized" there.
# Behaviour: `perf stat true` counts task-clock, and CPUs_utilized beside it is nan; so it is with -r and -j ("nan"), and
# with -x the field is empty. The text for people has the elapsed time from which it would follow. With -a -A it is right.
# Output seen:
#   0.68 msec task-clock                       #      nan CPUs  CPUs_utilized
#
# Exits with 1 if the figure is there. Needs a Debian 13 with the lists of its backports (apt-get update), and a machine
# without a PMU (`perf stat true` says <not supported> for cpu-cycles); installs nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get install --download-only -y -q -o Dir::Cache::archives="$folder" --reinstall 'linux-perf=7.3.4-1~bpo13+1' >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" unpacked; done
export LD_LIBRARY_PATH="$folder/unpacked/usr/lib/x86_64-linux-gnu"
said=$("$folder/unpacked/usr/bin/perf" stat true 2>&1)
grep 'task-clock' <<<"$said"
grep -q 'nan CPUs' <<<"$said"
