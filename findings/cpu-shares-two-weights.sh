#!/usr/bin/env bash
# One request of a container, two weights: containerd's library for cgroup v2 makes 39 or 100 of 1024 shares, by its release.
#
# Versions: github.com/containerd/cgroups v3.0.5 and v3.1.3 (Go modules), with Go 1.24 or later; run in November 2026.
# Behaviour: cgroup2.ToResources turns the shares of a container's specification into cpu.weight. v3.0.5 does it on a straight
# line from 2 to 262144 shares, v3.1.3 on a curve through 1024 shares and the weight of 100. So a container that asks for one
# CPU, which Kubernetes writes as 1024 shares, had 39 beside a service of systemd with its usual 100, and has 100 after a
# change of the runtime's library; two containers of one request, made before and after it, divide a busy CPU 28 : 72. Below
# 1024 shares the ratio of two weights changes, too: 102 and 1024 shares are 4 and 39, then 17 and 100.
# Output seen:
#   v3.0.5: 2=1 102=4 1024=39 4096=157 262144=10000
#   v3.1.3: 2=1 102=17 1024=100 4096=303 262144=10000
#
# Exits with 1 if the weights are others. Needs Go, and its modules' proxy.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
export GOPATH=$folder/go GOCACHE=$folder/cache GOFLAGS=-mod=mod

weights() {
    mkdir "$folder/$1"
    cd "$folder/$1"
    cat >main.go <<'GO'
package main

import (
	"fmt"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	for _, shares := range []uint64{2, 102, 1024, 4096, 262144} {
		made := cgroup2.ToResources(&specs.LinuxResources{CPU: &specs.LinuxCPU{Shares: &shares}})
		fmt.Printf(" %d=%d", shares, *made.CPU.Weight)
	}
}
GO
    go mod init weights 2>/dev/null
    go get "github.com/containerd/cgroups/v3@$1" 2>/dev/null
    echo "$1:$(go run .)"
}

said=$(weights v3.0.5; weights v3.1.3)
echo "$said"
[ "$said" = "v3.0.5: 2=1 102=4 1024=39 4096=157 262144=10000
v3.1.3: 2=1 102=17 1024=100 4096=303 262144=10000" ]
