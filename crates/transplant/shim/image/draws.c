// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random draws, which follow from the machine's seed. Stands for lib/once.c and drivers/char/random.c.
 */
#include "image.h"
#include <linux/prandom.h>
#include <linux/random.h>

static u64 draws;
/* Draws before the tree made its own generators, which it does once. */
static u64 __maybe_unused draws_before;

bool __do_once_start(bool *done, unsigned long *flags)
{
	if (!*done)
		draws_before = draws;
	return !*done;
}
void __do_once_done(bool *done, struct static_key_true *key, unsigned long *flags, struct module *module)
{
	*done = true;
}
static u64 draw(void)
{
	u64 x = img_machine.seed + ++draws * 0x9e3779b97f4a7c15ULL;

	if (img_machine.seed >> 62 & 1)
		return 0;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}
u32 __get_random_u32_below(u32 ceiling)
{
	return ((draw() >> 32) * ceiling) >> 32;
}
#ifdef CONFIG_SCHED_CLASS_EXT
/* For hash tables and BPF, from a stream of its own, so that the kernel's other draws stay what they are. */
u32 get_random_u32(void)
{
	static u64 draws_of_others;
	u64 before = draws, drawn;

	draws = ++draws_of_others << 32;
	drawn = draw();
	draws = before;
	return drawn >> 32;
}
#endif
int execute_with_initialized_rng(struct notifier_block *block)
{
	return 0;
}
void get_random_bytes(void *to, size_t size)
{
	while (size) {
		u64 bytes = draw();
		size_t some = min(size, sizeof(bytes));

		memcpy(to, &bytes, some);
		to += some;
		size -= some;
	}
}
/* The values of a processor's own generator. */
size_t img_random_arch(void *to, size_t size) __asm__("get_random_bytes_arch");
size_t img_random_arch(void *to, size_t size)
{
	get_random_bytes(to, size);
	return size;
}

#ifdef HAVE_SCHED_RND_STATE
/* A generator that has drawn more often is not one of a machine at rest. */
#define MOST_DRAWN (1 << 20)

/* Makes the CPUs' generators by the present seed. */
static void make_generators(void)
{
	u64 after = draws;

	draws = draws_before;
	prandom_seed_full_state(&sched_rnd_state);
	draws = after;
}

void img_seed(unsigned long long seed)
{
	static struct drawn {
		struct rnd_state state;
		unsigned int times;
	} all[NR_CPUS];
	struct rnd_state *state;
	struct drawn *drawn;
	int cpu;

	for_each_possible_cpu(cpu)
		all[cpu].state = *per_cpu_ptr(&sched_rnd_state, cpu);
	make_generators();
	for_each_possible_cpu(cpu) {
		drawn = all + cpu;
		state = per_cpu_ptr(&sched_rnd_state, cpu);
		while (drawn->times < MOST_DRAWN && memcmp(state, &drawn->state, sizeof(*state))) {
			prandom_u32_state(state);
			drawn->times++;
		}
	}
	img_machine.seed = seed;
	make_generators();
	for_each_possible_cpu(cpu)
		while (all[cpu].times--)
			prandom_u32_state(per_cpu_ptr(&sched_rnd_state, cpu));
}
#else
void img_seed(unsigned long long seed)
{
	img_machine.seed = seed;
}
#endif
