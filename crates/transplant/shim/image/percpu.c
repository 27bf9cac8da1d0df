// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of each CPU, and the entered CPU. Stands for mm/percpu.c and an architecture's setup_percpu.c.
 *
 * The linker gathers the sections of per-CPU data. Each CPU has a copy of them, followed by room for later allocations.
 * A pointer to per-CPU data points into the original.
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
	/* Aligned like the original, even if the allocator aligns less. */
	char *area = PTR_ALIGN((char *)img_alloc(fixed_size() + ROOM + 63), 64);

	memcpy(area, __per_cpu_start, fixed_size());
	__per_cpu_offset[cpu] = area - __per_cpu_start;
}

void img_go(int cpu)
{
	img_cpu = cpu;
#ifdef CONFIG_SIM_COUNTED
	img_lines_of(cpu);
#endif
	img_cpu_offset = __per_cpu_offset[cpu];
	img_current = img_currents[cpu];
}

/*
 * Allocations by the word of 8 bytes where they begin, counted from the first one after the fixed data: their sizes in
 * words and, if freed, the next freed one of that size, plus 1. Large ones are not used again.
 */
#define LARGE 64
static unsigned int words_of[ROOM / 8], next_freed[ROOM / 8], freed[LARGE];

static unsigned long first_word(void)
{
	return ALIGN(fixed_size(), 8);
}

/* A freed allocation, zeroed; or NULL. */
static void *freed_before(unsigned int words)
{
	unsigned int found = words < LARGE ? freed[words] : 0;
	char *at = __per_cpu_start + first_word() + 8UL * (found - 1);
	int cpu;

	if (!found)
		return NULL;
	freed[words] = next_freed[found - 1];
	for_each_possible_cpu(cpu)
		memset(at + __per_cpu_offset[cpu], 0, 8 * words);
	return at;
}

static void *allocate(size_t size, size_t align)
{
	unsigned long at = ALIGN(fixed_size() + used, max_t(size_t, align, 8));
	unsigned int words = DIV_ROUND_UP(size, 8);
	void *again = align <= 8 ? freed_before(words) : NULL;

	if (again)
		return again;
	used = at + size - fixed_size();
	if (used > ROOM)
		img_fatal("the memory of each CPU is full: there are too many task groups or processes");
	words_of[(at - first_word()) / 8] = words;
	return __per_cpu_start + at;
}

/* The function behind alloc_percpu() was renamed with the accounting of allocations. */
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
	unsigned long word = ((char __force *)at - __per_cpu_start - first_word()) / 8;
	unsigned int words;

	if (!at)
		return;
	words = words_of[word];
	if (words >= LARGE)
		return;
	next_freed[word] = freed[words];
	freed[words] = word + 1;
}
