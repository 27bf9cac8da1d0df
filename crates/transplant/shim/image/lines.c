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

/*
 * What a line's accesses need to know, next to that of neighbouring lines. `owners`: the CPU that alone has the line,
 * from 1 on, with READS_ONLY if its writes have to look at the line first; 0: no CPU has it, or several may. Most lines
 * are one CPU's, so most accesses read nothing else. `writers`: the CPU that wrote it last, from 1 on; 0: none did.
 */
#define READS_ONLY 0x8000
static unsigned short *owners, *writers;
/*
 * Of lines that several CPUs may have. `held`: for each eight CPUs the bits of those that have it; 64 lines have their
 * bytes of eight CPUs in a row, and behind them those of the next eight. `groups`: in which of these bytes bits may be
 * set, one bit for every `stride` of them. Memory is taken where it is touched: lines of one CPU take none here.
 */
static unsigned char *held;
static unsigned int *groups;
static unsigned int eights, stride;	/* bytes of `held` for a line; those of a bit of `groups` */

static char *arena, *arena_end;
static unsigned long nr_lines;	/* 0: nothing is charged */
static unsigned int line_near_ps, line_far_ps;
/* By CPU: the CPUs with the same last-level cache, as in `held`. */
static unsigned char (*near)[DIV_ROUND_UP(NR_CPUS, 8)];
/* The entered CPU: its number from 1 on, the bytes in which its bit is, and the bit. */
static unsigned int me;
static unsigned char *mine, my_bit;
static unsigned long others_held;	/* bytes of the other CPUs, of 64 lines */

/* Where a line's byte is; that of the next eight CPUs is 64 bytes behind. */
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
	nr_lines = LINES;
	eights = DIV_ROUND_UP(nr, 8);
	others_held = (eights - 1) * 64;
	stride = DIV_ROUND_UP(eights, 8 * sizeof(*groups));
	owners = map(LINES * sizeof(*owners));
	writers = map(LINES * sizeof(*writers));
	groups = map(LINES * sizeof(*groups));
	held = map(eights * LINES);
	near = map(nr * sizeof(*near));
	for (a = 0; a < nr; a++)
		for (b = 0; b < nr; b++)
			if (img_machine.llc[a] == img_machine.llc[b])
				near[a][b / 8] |= 1 << b % 8;
}

/* One of several CPUs has the line. */
static void hold(unsigned long number, unsigned int cpu)
{
	held[held_at(number) + cpu / 8 * 64] |= 1 << cpu % 8;
	groups[number] |= 1U << cpu / 8 / stride;
}

static bool is_near(unsigned int from, unsigned int to)
{
	return near[from][to / 8] >> to % 8 & 1;
}

/* No CPU has the line, which several had. Whether others than this one did, and, in `far`, whether one of them is. */
static bool invalidate(unsigned long number, unsigned int cpu, bool *far)
{
	unsigned char *bits = held + held_at(number);
	unsigned int rest = groups[number], i, end;
	bool others = false;

	for (; rest; rest &= rest - 1) {
		i = __builtin_ctz(rest) * stride;
		for (end = min(i + stride, eights); i < end; i++) {
			unsigned char had = bits[i * 64];

			if (i == cpu / 8)
				had &= ~(1 << cpu % 8);
			others |= had;
			*far |= had & ~near[cpu][i];
			bits[i * 64] = 0;
		}
	}
	groups[number] = 0;
	return others;
}

/* This CPU's caches lack the line in the state it needs. A line that nobody wrote is in the last-level cache. */
static noinline void img_miss(unsigned long number, bool write)
{
	unsigned int cpu = img_cpu, owner = owners[number] & ~READS_ONLY, writer = writers[number];
	bool is_mine = owner ? owner == me : mine[held_at(number)] & my_bit;
	bool others = false, far = false;

	if (!is_mine)
		img_comes(!writer || is_near(cpu, writer - 1) ? line_near_ps : line_far_ps);
	if (write) {
		if (!owner)
			others = invalidate(number, cpu, &far);
		if (is_mine && others)
			img_comes(far ? line_far_ps : line_near_ps);
		writers[number] = me;
		owners[number] = me;
	} else if (owner || groups[number]) {
		if (owner)
			hold(number, owner - 1);
		hold(number, cpu);
		owners[number] = 0;
	} else {
		owners[number] = me | READS_ONLY;
	}
}

static __always_inline bool is_here(unsigned long number, bool write)
{
	unsigned int owner = owners[number];

	if (write)
		return owner == me;
	return (owner & ~READS_ONLY) == me || (!owner && mine[held_at(number)] & my_bit);
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
