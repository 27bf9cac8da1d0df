#!/usr/bin/env bash
# rtla has nothing to run on beside the kernels of its own release (Debian 12, November 2026).
#
# Versions: rtla 6.1.192-3, with configurations of linux-config-6.1 6.1.192-3 and linux-config-6.12
# 6.12.117-1~deb12u1, which are those that the kernel packages are built with.
# Behaviour: `rtla timerlat` and `rtla osnoise` need the tracers of these names (CONFIG_TIMERLAT_TRACER and
# CONFIG_OSNOISE_TRACER). The package is built from the kernel's own source, for each release. But the ordinary
# kernel and the one for clouds are built without both, in 6.1 and in 6.12; only the PREEMPT_RT one has them.
# So a package manager installs rtla without a complaint, and each measurement ends with a missing tracer.
# Output seen:
#   6.1 none_amd64: no timerlat, no osnoise
#   6.1 none_cloud-amd64: no timerlat, no osnoise
#   6.1 rt_amd64: timerlat, osnoise
#   6.12 none_amd64: no timerlat, no osnoise
#   6.12 none_cloud-amd64: no timerlat, no osnoise
#   6.12 rt_amd64: timerlat, osnoise
#
# Exits with 1 if that changes. Needs a Debian 12 with its lists of packages (apt-get update); installs nothing.
set -euo pipefail
expected=$(sed -n 's/^#   \(6\..*\)/\1/p' "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download rtla=6.1.192-3 linux-config-6.1=6.1.192-3 'linux-config-6.12=6.12.117-1~deb12u1' >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
strings -a root/usr/bin/rtla | grep -q 'timerlat' || { echo "rtla knows no timerlat"; exit 1; }
seen=$(
    for series in 6.1 6.12; do
        for flavour in none_amd64 none_cloud-amd64 rt_amd64; do
            config=$(xzcat "root/usr/src/linux-config-$series/config.amd64_$flavour.xz")
            words=()
            for tracer in TIMERLAT OSNOISE; do
                grep -q "^CONFIG_${tracer}_TRACER=y" <<<"$config" && words+=("${tracer,,}") || words+=("no ${tracer,,}")
            done
            echo "$series $flavour: ${words[0]}, ${words[1]}"
        done
    done
)
echo "$seen"
[ "$seen" = "$expected" ]
