// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of each CPU, and which CPU is entered. Stands for mm/percpu.c and an architecture's setup_percpu.c.
 *
 * The linker gathers the sections of per-CPU data. Each CPU has a copy of them with room behind it for what is
 * allocated later, and a pointer to per-CPU data is one into the original.
 */
#include "image.h"

/* Room for allocations, of each CPU. Task groups take some hundred bytes. */
#define ROOM (256UL << 10)

extern char __per_cpu_start[], __per_cpu_end[];
unsigned long __per_cpu_offset[NR_CPUS];
int img_cpu;
unsigned long img_cpu_offset;
unsigned long img_irqs = 1;
struct task_struct *img_current = &init_task;
struct task_struct *img_currents[NR_CPUS];
static unsigned long used;

static unsigned long fixed_size(void)
{
	return __per_cpu_end - __per_cpu_start;
}

void img_percpu_init(int cpu)
{
	/* Aligned as the original is, also where the allocator aligns less. */
	char *area = PTR_ALIGN((char *)img_alloc(fixed_size() + ROOM + 63), 64);

	memcpy(area, __per_cpu_start, fixed_size());
	__per_cpu_offset[cpu] = area - __per_cpu_start;
}

void img_go(int cpu)
{
	img_cpu = cpu;
	img_cpu_offset = __per_cpu_offset[cpu];
	img_current = img_currents[cpu];
}

static void *allocate(size_t size, size_t align)
{
	unsigned long at = ALIGN(fixed_size() + used, max_t(size_t, align, 8));

	used = at + size - fixed_size();
	if (used > ROOM)
		img_fatal("the memory of each CPU is full: there are too many task groups");
	return __per_cpu_start + at;
}

/* The name that alloc_percpu() ends in changed with the accounting of allocations. */
#ifdef HAVE_PCPU_ALLOC_NOPROF
void __percpu *pcpu_alloc_noprof(size_t size, size_t align, bool reserved, gfp_t flags)
{
	return (void __percpu *)allocate(size, align);
}
#else
void __percpu *__alloc_percpu(size_t size, size_t align)
{
	return (void __percpu *)allocate(size, align);
}
#endif

void free_percpu(void __percpu *at)
{
}
