#!/usr/bin/env bash
# perf stat of 7.3 prints "nan CPUs" where the CPU has no counters (Debian's backports, November 2026).
#
# Versions: linux-perf 7.3.4-1~bpo13+1 on Linux 6.18.44 in a VM without a PMU. linux-perf 6.1.192 prints a number
# of "CPUs utilized" there.
# Behaviour: `perf stat true` counts task-clock, and CPUs_utilized beside it is nan; so it is with -r and -j ("nan"), and
# with -x the field is empty. The text for people has the elapsed time from which it would follow. With -a -A it is right.
# Output seen:
#   0.68 msec task-clock                       #      nan CPUs  CPUs_utilized
#
# Exits with 1 if the figure is there. Needs perf 7.3.4, and a machine whose `perf stat true` says <not supported> for
# cpu-cycles.
set -euo pipefail
said=$(perf stat true 2>&1)
grep 'task-clock' <<<"$said"
grep -q 'nan CPUs' <<<"$said"
