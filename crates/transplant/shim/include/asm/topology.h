/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_TOPOLOGY_H
#define _SIM_TOPOLOGY_H
/* From img_machine: see image/topology.c. */
struct cpumask;
extern struct cpumask *img_smt_mask(int cpu), *img_package_mask(int cpu), *img_cluster_mask(int cpu);
extern struct cpumask *img_node_mask(int node);
extern int img_package(int cpu), img_core(int cpu), img_cluster(int cpu), img_node(int cpu);
extern int img_distance(int from, int to);
extern unsigned long img_capacity(int cpu);
#define topology_physical_package_id(c) img_package(c)
#define topology_cluster_id(c) img_cluster(c)
#define topology_core_id(c) img_core(c)
#define topology_sibling_cpumask(c) img_smt_mask(c)
#define topology_core_cpumask(c) img_package_mask(c)
#define topology_cluster_cpumask(c) img_cluster_mask(c)
extern const struct cpumask *cpu_coregroup_mask(int cpu), *cpu_clustergroup_mask(int cpu);
#define cpu_to_node(c) img_node(c)
#define early_cpu_to_node(c) img_node(c)
#define cpumask_of_node(n) ((const struct cpumask *)img_node_mask(n))
#define node_distance(a, b) img_distance(a, b)
#define pcibus_to_node(b) (-1)
#define arch_scale_cpu_capacity img_capacity
#include <asm-generic/topology.h>
#endif
