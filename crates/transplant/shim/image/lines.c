// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cache lines of the kernel's memory, and the CPUs that have them. Stands for caches and their protocol.
 *
 * A line costs if another CPU has written it since this one had it, or if another CPU has a copy that this one's write
 * invalidates. Private caches hold everything: a CPU's lines are never evicted. Stacks are not in the arena, and cost
 * nothing.
 */
#include "host.h"
#include "image.h"

#ifdef CONFIG_SIM_COUNTED
#define ARENA (8UL << 30)	/* addresses of the kernel's memory; pages exist once they are touched */
#define LINES (ARENA / 64)
#define READ_WRITE 3		/* PROT_READ | PROT_WRITE */
#define PRIVATE 0x4022		/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE */

/* A cache line. */
struct line {
	unsigned long writer;	/* the CPU that wrote it last, from 1 on; 0: none did */
	unsigned long holders[];	/* bits of the CPUs that have it */
};

static char *arena, *arena_end, *lines;
static unsigned long nr_lines;	/* 0: nothing is charged */
static unsigned int line_near_ps, line_far_ps;
static unsigned long words, line_size;	/* words of the bits by CPU; size of a struct line */
/* By CPU: the CPUs with the same last-level cache. */
static unsigned long (*near)[BITS_TO_LONGS(NR_CPUS)];

/*
 * What most accesses need to know, next to that of neighbouring lines. `owners`: the CPU that may write the line, from
 * 1 on. `held`: for each eight CPUs the bits of those that have it. 64 lines have their bytes of eight CPUs in a row,
 * and behind them those of the next eight, so that memory which nobody touches takes none here.
 */
static unsigned short *owners;
static unsigned char *held;
/* The entered CPU: its number from 1 on, the bytes in which its bit is, and the bit. */
static unsigned int me;
static unsigned char *mine, my_bit;
static unsigned long others_held;	/* bytes of the other CPUs, of 64 lines */

/* Where a byte of `mine` is. */
static __always_inline unsigned long held_at(unsigned long number)
{
	return number + number / 64 * others_held;
}

static void *map(unsigned long size)
{
	void *at = host_mmap(NULL, size, READ_WRITE, PRIVATE, -1, 0);

	if (at == (void *)-1)
		img_fatal("no room for the cache lines of the kernel's memory: take a smaller machine");
	return at;
}

/* Memory for the kernel's allocations, all of it in one range. */
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

void img_lines_of(int cpu)
{
	me = cpu + 1;
	mine = held + cpu / 8 * 64;
	my_bit = 1 << cpu % 8;
}

/* Accesses are charged from here on. No CPU has a line. */
void img_lines_init(unsigned int near_ps, unsigned int far_ps)
{
	unsigned int a, b, nr = img_machine.nr_cpus;

	line_near_ps = near_ps;
	line_far_ps = far_ps;
	words = BITS_TO_LONGS(nr);
	line_size = sizeof(struct line) + words * sizeof(long);
	nr_lines = LINES;
	lines = map(LINES * line_size);
	owners = map(LINES * sizeof(*owners));
	others_held = (DIV_ROUND_UP(nr, 8) - 1) * 64;
	held = map(DIV_ROUND_UP(nr, 8) * LINES);
	near = map(nr * sizeof(*near));
	for (a = 0; a < nr; a++)
		for (b = 0; b < nr; b++)
			if (img_machine.llc[a] == img_machine.llc[b])
				near[a][b / BITS_PER_LONG] |= 1UL << b % BITS_PER_LONG;
}

static void hold(struct line *line, unsigned long number)
{
	line->holders[img_cpu / BITS_PER_LONG] |= 1UL << img_cpu % BITS_PER_LONG;
	mine[held_at(number)] |= my_bit;
}

/* No CPU has the line. */
static void invalidate(struct line *line, unsigned long number)
{
	const unsigned char *eight = (const unsigned char *)line->holders;
	unsigned long i;

	for (i = 0; i < words * sizeof(long); i++)
		if (eight[i])
			held[i * 64 + held_at(number)] = 0;
	memset(line->holders, 0, words * sizeof(long));
}

static unsigned int way_ps(unsigned int from, unsigned int to)
{
	return near[from][to / BITS_PER_LONG] >> to % BITS_PER_LONG & 1 ? line_near_ps : line_far_ps;
}

/* This CPU's caches lack the line in the state it needs. A line that nobody wrote is in the last-level cache. */
static noinline void img_miss(unsigned long number, bool write)
{
	struct line *line = (struct line *)(lines + number * line_size);
	unsigned int cpu = img_cpu;
	unsigned long i;

	if (!(mine[held_at(number)] & my_bit)) {
		img_comes(line->writer ? way_ps(cpu, line->writer - 1) : line_near_ps);
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
			img_comes(far ? line_far_ps : line_near_ps);
	}
	if (write) {
		invalidate(line, number);
		line->writer = me;
	}
	owners[number] = write ? me : 0;
	hold(line, number);
}

static __always_inline bool is_here(unsigned long number, bool write)
{
	return write ? owners[number] == me : mine[held_at(number)] & my_bit;
}

/* A read gets the value at the time when the line comes. */
static noinline void img_lost(unsigned long number, bool write)
{
	img_may_leave();
	if (!is_here(number, write))
		img_miss(number, write);
}

static __always_inline void touch(const volatile void *at, bool write)
{
	unsigned long number = (unsigned long)((const char *)at - arena) / 64;

	if (number < nr_lines && unlikely(!is_here(number, write)))
		img_lost(number, write);
}
void img_read(const void *at)
{
	touch(at, false);
}
void img_write(const void *at)
{
	touch(at, true);
}

/* The two halves of an atomic operation; nobody acts in between. It first waits for missing lines. */
void img_atomic_begin(const volatile void *at)
{
	touch(at, true);
	img_drain();
	img_halved = true;
}
void img_atomic_end(void)
{
	img_halved = false;
}

/* The compiler's names, by kind and size. */
#define ACCESS(name, function) void __tsan_##name(void *at) __attribute__((alias(#function)));
#define BOTH(kind, size) ACCESS(kind##read##size, img_read) ACCESS(kind##write##size, img_write)
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
void *img_arena(unsigned long size)
{
	return NULL;
}
#endif
