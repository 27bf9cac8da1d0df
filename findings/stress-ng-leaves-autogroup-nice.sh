#!/usr/bin/env bash
# stress-ng's stressor cpu-sched leaves its session with another nice value (Debian 13, November 2026).
#
# Versions: stress-ng 0.19.02-1, Linux 6.18.44 with CONFIG_SCHED_AUTOGROUP and sched_autogroup_enabled 1. 0.15.06-2 of
# Debian 12 leaves the value as it was.
# Behaviour: `stress-ng --cpu-sched 1 -t 1` writes nice values to /proc/self/autogroup and does not put the first one
# back. The value is of the session and not of the process: all that the shell starts afterwards runs with it. A
# session was left at 17, that is 1/45 of the weight of another one. `stress-ng --class scheduler` has the stressor
# among others. `echo 0 > /proc/self/autogroup` mends the session.
# Output seen (the values are random): nice 0 before; then 5, 5, 8
#
# Exits with 1 if the value is 0 after each of five runs. Works in a session of its own. Needs a Debian 13 with its
# lists of packages (apt-get update), and autogroup; installs nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get install --download-only -y -q -o Dir::Cache::archives="$folder" --reinstall stress-ng=0.19.02-1 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" unpacked; done
export PATH="$folder/unpacked/usr/bin:$PATH" LD_LIBRARY_PATH="$folder/unpacked/usr/lib/x86_64-linux-gnu"
setsid -w bash -c '
    value() { sed "s/.*nice //" /proc/self/autogroup; }
    echo "nice $(value) before"
    for _ in 1 2 3 4 5; do
        stress-ng --cpu-sched 1 -t 1 >/dev/null 2>&1
        echo "nice $(value) after a run"
        [ "$(value)" = 0 ] || exit 0
    done
    exit 1'
