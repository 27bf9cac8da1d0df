#!/usr/bin/env bash
# cpu.max takes a number with a unit, drops the unit, and means microseconds: "5000ms" is a limit of 5 ms in 100 ms.
#
# Versions: Debian's linux-image-6.12.117+deb12-cloud-amd64 6.12.117-1~deb12u1, in QEMU, with busybox-static of Debian 12; run in
# November 2026. The function that reads it (cpu_period_quota_parse) is the same in 7.3.4.
# Behaviour: a write of "5000ms" to cpu.max of cgroup v2 succeeds, and the file reads "5000 100000", 5 % of a CPU, where 50 CPUs
# were meant. "5s" and "50ms" fail (EINVAL), but only because 5 and 50 us are below the least quota of 1 ms; so does a period
# with a unit. cpu.max.burst and cpu.weight refuse units. Who writes times with units to a limit gets an error or, from 1000 on,
# a thousandth of it.
# Output seen:
#   5000ms: 5000 100000
#   50ms: refused
#   200000us 100000: 200000 100000
#   burst 5000ms: refused
#   weight 50x: refused
#
# Exits with 1 if the kernel reads them otherwise. Needs Debian 12 with its lists (apt-get update), cpio and qemu-system-x86_64;
# installs nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get install --download-only --reinstall -y -q -o Dir::Cache::archives="$folder" busybox-static \
    'linux-image-6.12.117+deb12-cloud-amd64=6.12.117-1~deb12u1' >/dev/null 2>&1
for package in busybox-static_*.deb linux-image-*.deb; do dpkg -x "$package" unpacked; done
mkdir -p root/bin root/proc root/cg
cp unpacked/bin/busybox root/bin/busybox
cat >root/init <<'INIT'
#!/bin/busybox sh
busybox mount -t proc none /proc
busybox mount -t cgroup2 none /cg
echo +cpu >/cg/cgroup.subtree_control
busybox mkdir /cg/a
cd /cg/a
try() { # NAME FILE TEXT
    if (echo "$3" >"$2") 2>/dev/null; then echo "SAW $1: $(busybox cat "$2")"; else echo "SAW $1: refused"; fi
}
try "5000ms" cpu.max 5000ms
try "50ms" cpu.max 50ms
try "200000us 100000" cpu.max "200000us 100000"
try "burst 5000ms" cpu.max.burst 5000ms
try "weight 50x" cpu.weight 50x
busybox poweroff -f
INIT
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet) >initramfs
timeout 300 qemu-system-x86_64 -m 512 -nographic -no-reboot -kernel unpacked/boot/vmlinuz-* -initrd initramfs \
    -append 'console=ttyS0 quiet panic=-1' </dev/null >console 2>&1
said=$(tr -d '\r' <console | sed -n 's/^.*SAW //p')
echo "$said"
[ "$said" = "5000ms: 5000 100000
50ms: refused
200000us 100000: 200000 100000
burst 5000ms: refused
weight 50x: refused" ]
