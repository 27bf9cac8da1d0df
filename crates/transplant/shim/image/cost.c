// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of the kernel's code, from the compiler's calls while it runs: one at each basic block, and one before each
 * access to memory (CONFIG_SIM_COUNTED). Stands for a processor.
 *
 * A block costs its instructions. A cache line costs if another CPU has written it since this one had it, or if another
 * CPU has a copy that this one's write invalidates, whatever else the caches of the executing CPU hold. Lines that are
 * requested within `lookahead` instructions come side by side, as in a processor that executes out of order: the CPU
 * stands still when it has executed that many instructions after the first missing line, or before an atomic operation.
 *
 * Private caches hold everything: a CPU's lines are never evicted. Stacks are not in the arena, and cost nothing.
 */
#include "host.h"
#include "image.h"

unsigned long long img_charged_ps;

#ifdef CONFIG_SIM_COUNTED
#define ARENA (8UL << 30)	/* addresses of the kernel's memory; pages exist once they are touched */
#define NO_ACCESS 0		/* PROT_NONE */
#define READ_WRITE 3		/* PROT_READ | PROT_WRITE */
#define PRIVATE 0x4022		/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE */

/* A cache line. The bits of the words after it are the CPUs that have it. */
struct line {
	unsigned int writer;	/* the CPU that wrote it last, from 1 on; 0: none did */
	unsigned int alone;	/* 1: no other CPU has it */
	unsigned long holders[];
};

static struct img_costs costs;
static unsigned long executed;	/* instructions */
static unsigned long missing_since;	/* the value of `executed` at the first line that is still missing */
static u64 missing_until;	/* when all missing lines have come, by img_charged_ps; 0: none is missing */
static bool halved;	/* an atomic operation is under way */
bool img_exact;
static u64 unsampled_ps;		/* since the last sample */
static char *arena, *arena_end, *lines;
static unsigned long words, line_size;	/* words of the bits by CPU; size of a struct line */
/* By CPU: the CPUs with the same last-level cache. */
static unsigned long (*near)[BITS_TO_LONGS(NR_CPUS)];
extern char _end[] __attribute__((visibility("hidden"))), __ehdr_start[] __attribute__((visibility("hidden")));

static void *map(unsigned long size)
{
	void *at = host_mmap(NULL, size, READ_WRITE, PRIVATE, -1, 0);

	if (at == (void *)-1)
		img_fatal("no room for the cache lines of the kernel's memory: take a smaller machine");
	return at;
}

/* Memory for the kernel's allocations, all of it in one range; NULL: the range is full. */
void *img_arena(unsigned long size)
{
	char *at;

	if (!arena) {
		arena = map(ARENA);
		arena_end = arena;
	}
	at = arena_end;
	if (size > arena + ARENA - at)
		img_fatal("the kernel has allocated 8 GB, whose lines are known: shorten the run, or use level free");
	arena_end += size;
	return at;
}

int img_count(const struct img_costs *given)
{
	unsigned int a, b, nr = img_machine.nr_cpus;

	costs = *given;
	costs.sample_ps = costs.sample_ps ?: ~0ULL;
	words = BITS_TO_LONGS(nr);
	line_size = sizeof(struct line) + words * sizeof(long);
	lines = map((ARENA + (_end - __ehdr_start)) / 64 * line_size + PAGE_SIZE);
	near = map(nr * sizeof(*near));
	for (a = 0; a < nr; a++)
		for (b = 0; b < nr; b++)
			if (img_machine.llc[a] == img_machine.llc[b])
				near[a][b / BITS_PER_LONG] |= 1UL << b % BITS_PER_LONG;
	return 0;
}

/* Charges time of the kernel's code. */
static __always_inline void passes(u64 ps)
{
	img_charged_ps += ps;
	unsampled_ps += ps;
	if (unlikely(unsampled_ps >= costs.sample_ps)) {
		unsampled_ps = 0;
		img_sample();
	}
}

/* Lets others act first if the CPU's time has passed the horizon, but not between the halves of an atomic operation. */
void img_may_leave(void)
{
	if (img_charged_ps >= img_horizon_ps && img_weaving && !halved)
		img_leave(0);
}

/* Waits until all missing lines have come. */
void img_drain(void)
{
	if (missing_until > img_charged_ps)
		passes(missing_until - img_charged_ps);
	missing_until = 0;
}

void __sanitizer_cov_trace_pc(void)
{
	unsigned long at, instructions;

	if (unlikely(!costs.instructions))
		return;
	at = (char *)__builtin_return_address(0) - (char *)costs.text;
	instructions = costs.instructions[at];
	costs.times[at]++;
	executed += instructions;
	passes(instructions * costs.instruction_ps);
	if (unlikely(missing_until) && executed - missing_since >= costs.lookahead)
		img_drain();
	if (unlikely(img_exact))
		img_may_leave();
}

/* A CPU leaves a verb, or takes it up again: it keeps its own missing lines. */
void img_missing_keep(struct img_missing *missing)
{
	missing->wait_ps = missing_until > img_charged_ps ? missing_until - img_charged_ps : 0;
	missing->executed = executed - missing_since;
	missing_until = 0;
}
void img_missing_restore(const struct img_missing *missing)
{
	missing_until = missing->wait_ps ? img_charged_ps + missing->wait_ps : 0;
	missing_since = executed - missing->executed;
}

static noinline void img_comes(unsigned int ps)
{
	if (!missing_until)
		missing_since = executed;
	missing_until = max(missing_until, img_charged_ps + ps);
	if (!costs.lookahead)
		img_drain();
}

static bool has(const struct line *line, unsigned int cpu)
{
	return line->holders[cpu / BITS_PER_LONG] >> cpu % BITS_PER_LONG & 1;
}

static unsigned int way_ps(unsigned int from, unsigned int to)
{
	return near[from][to / BITS_PER_LONG] >> to % BITS_PER_LONG & 1 ? costs.line_near_ps : costs.line_far_ps;
}

/* This CPU's caches lack the line in the state it needs. A line that nobody wrote is in the last-level cache. */
static noinline void img_miss(struct line *line, bool write)
{
	unsigned int cpu = img_cpu;
	unsigned long i;

	if (!has(line, cpu)) {
		img_comes(line->writer ? way_ps(cpu, line->writer - 1) : costs.line_near_ps);
	} else {
		bool others = false, far = false;

		for (i = 0; i < words; i++) {
			unsigned long rest = line->holders[i];

			if (i == cpu / BITS_PER_LONG)
				rest &= ~(1UL << cpu % BITS_PER_LONG);
			others |= rest != 0;
			far |= (rest & ~near[cpu][i]) != 0;
		}
		if (others)
			img_comes(far ? costs.line_far_ps : costs.line_near_ps);
	}
	if (write) {
		for (i = 0; i < words; i++)
			line->holders[i] = 0;
		line->writer = cpu + 1;
	}
	line->alone = write;
	line->holders[cpu / BITS_PER_LONG] |= 1UL << cpu % BITS_PER_LONG;
}

static __always_inline bool is_here(const struct line *line, bool write)
{
	return write ? line->alone && line->writer == img_cpu + 1 : has(line, img_cpu);
}

static __always_inline void touch(const void *address, bool write)
{
	unsigned long at = (const char *)address - arena;
	struct line *line;

	if (at >= ARENA) {
		at = (const char *)address - __ehdr_start;
		if (at >= _end - __ehdr_start)
			return;
		at += ARENA;
	}
	if (unlikely(!lines))
		return;
	line = (struct line *)(lines + at / 64 * line_size);
	if (is_here(line, write))
		return;
	/* A read gets the value at the time when the line comes. */
	img_may_leave();
	if (!is_here(line, write))
		img_miss(line, write);
}

/* The two halves of an atomic operation; nobody acts in between. It first waits for missing lines. */
void img_atomic_begin(const volatile void *at)
{
	touch((const void *)at, true);
	img_drain();
	halved = true;
}
void img_atomic_end(void)
{
	halved = false;
}

#define ACCESS(name, write)			\
void __tsan_##name(void *at);			\
void __tsan_##name(void *at)			\
{						\
	touch(at, write);			\
}
#define BOTH(kind, size) ACCESS(kind##read##size, false) ACCESS(kind##write##size, true)
#define SIZES(kind) BOTH(kind, 2) BOTH(kind, 4) BOTH(kind, 8) BOTH(kind, 16)
BOTH(, 1)
SIZES()
SIZES(unaligned_)
BOTH(volatile_, 1)
SIZES(volatile_)
SIZES(unaligned_volatile_)

static void touch_range(char *at, unsigned long size, bool write)
{
	unsigned long i;

	for (i = 0; i < size; i += 64)
		touch(at + i, write);
}
void __tsan_read_range(void *at, unsigned long size);
void __tsan_read_range(void *at, unsigned long size)
{
	touch_range(at, size, false);
}
void __tsan_write_range(void *at, unsigned long size);
void __tsan_write_range(void *at, unsigned long size)
{
	touch_range(at, size, true);
}
void __tsan_init(void);
void __tsan_init(void)
{
}
#else
int img_count(const struct img_costs *given)
{
	return -ENOSYS;
}
void *img_arena(unsigned long size)
{
	return NULL;
}
void img_drain(void)
{
}
void img_may_leave(void)
{
}
#endif
