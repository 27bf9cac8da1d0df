// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine in the form that kernel/sched/topology.c reads. Stands for an architecture's smpboot.c and for
 * arch_topology.c and cacheinfo.c of drivers/base.
 */
#include "image.h"
#include <linux/nodemask.h>
#include <linux/topology.h>

static const struct img_machine *machine;
static struct cpumask **smt, **cluster, **llc, **package, **node;
nodemask_t node_states[NR_NODE_STATES];
struct pglist_data *node_data[MAX_NUMNODES];
#if MAX_NUMNODES > 1
unsigned int nr_node_ids = 1, nr_online_nodes = 1;
#endif
int __weak node_reclaim_distance = RECLAIM_DISTANCE;

/* For each CPU the mask of the CPUs in its group; the CPUs of a group share one mask. */
static struct cpumask **masks_of(bool (*same)(int a, int b))
{
	struct cpumask **masks = img_alloc(machine->nr_cpus * sizeof(*masks));
	int cpu, first;

	for (cpu = 0; cpu < machine->nr_cpus; cpu++) {
		for (first = 0; first < cpu && !same(first, cpu); first++)
			;
		masks[cpu] = first == cpu ? img_alloc(cpumask_size()) : masks[first];
		cpumask_set_cpu(cpu, masks[cpu]);
	}
	return masks;
}

static bool same_node(int a, int b)
{
	return machine->node[a] == machine->node[b];
}
static bool same_package(int a, int b)
{
	return machine->package[a] == machine->package[b];
}
static bool same_llc(int a, int b)
{
	return same_package(a, b) && machine->llc[a] == machine->llc[b];
}
static bool same_core(int a, int b)
{
	return same_package(a, b) && machine->core[a] == machine->core[b];
}
static bool same_cluster(int a, int b)
{
	return same_core(a, b) || (same_package(a, b) && machine->cluster[a] == machine->cluster[b]);
}

#ifdef HAVE_CACHEINFO_LLC
#include <linux/cacheinfo.h>

struct cacheinfo *get_cpu_cacheinfo_llc(unsigned int cpu)
{
	static struct cacheinfo cache;

	cache.level = 3;
	cache.size = min_t(unsigned long long, machine->llc_bytes, UINT_MAX);
	cpumask_copy(&cache.shared_cpu_map, llc[cpu]);
	return &cache;
}
#endif
#ifdef HAVE_NUMA_NEAREST
int numa_nearest_node(int from, unsigned int state)
{
	int n, nearest = from;

	if (from < 0 || node_state(from, state))
		return from;
	for_each_node_state(n, state)
		if (nearest == from || node_distance(from, n) < node_distance(from, nearest))
			nearest = n;
	return nearest;
}
#endif

static struct cpumask nobody;

int img_topology_init(const struct img_machine *given)
{
	int cpu, state;

	machine = given;
	if (machine->reclaim_distance)
		node_reclaim_distance = machine->reclaim_distance;
	if (!machine->nr_cpus || machine->nr_cpus > NR_CPUS || machine->nr_nodes > MAX_NUMNODES)
		return -EINVAL;
	smt = masks_of(same_core);
	cluster = masks_of(same_cluster);
	llc = masks_of(same_llc);
	package = masks_of(same_package);
	node = img_alloc(MAX_NUMNODES * sizeof(*node));
	for (cpu = 0; cpu < MAX_NUMNODES; cpu++)
		node[cpu] = &nobody;
	for (cpu = 0; cpu < machine->nr_cpus; cpu++) {
		int n = machine->node[cpu];

		if (n >= MAX_NUMNODES)
			return -EINVAL;
		if (node[n] == &nobody)
			node[n] = img_alloc(cpumask_size());
		cpumask_set_cpu(cpu, node[n]);
		for (state = 0; state < NR_NODE_STATES; state++)
			node_set(n, node_states[state]);
		node_data[n] = node_data[n] ?: img_alloc(sizeof(struct pglist_data));
	}
#if MAX_NUMNODES > 1
	nr_node_ids = max(machine->nr_nodes, 1U);
	nr_online_nodes = num_node_state(N_ONLINE);
#endif
	return 0;
}

/* Threads of the core that has the most. */
unsigned int img_threads_of_core(void)
{
	unsigned int cpu, most = 1;

	for (cpu = 0; cpu < machine->nr_cpus; cpu++)
		most = max(most, cpumask_weight(smt[cpu]));
	return most;
}

int img_node(int cpu)
{
	return machine->node[cpu];
}
int img_package(int cpu)
{
	return machine->package[cpu];
}
int img_core(int cpu)
{
	return machine->core[cpu];
}
int img_cluster(int cpu)
{
	return machine->cluster[cpu];
}
int img_distance(int from, int to)
{
	return machine->distance[from * machine->nr_nodes + to];
}
unsigned long img_capacity(int cpu)
{
	return machine->capacity[cpu];
}
struct cpumask *img_smt_mask(int cpu)
{
	return smt[cpu];
}
struct cpumask *img_cluster_mask(int cpu)
{
	return cluster[cpu];
}
struct cpumask *img_package_mask(int cpu)
{
	return package[cpu];
}
struct cpumask *img_node_mask(int n)
{
	return n < 0 ? (struct cpumask *)cpu_all_mask : node[n];
}
/* The CPUs that share the last-level cache, as on x86. */
const struct cpumask *cpu_coregroup_mask(int cpu)
{
	return llc[cpu];
}
const struct cpumask *cpu_clustergroup_mask(int cpu)
{
	return cluster[cpu];
}
