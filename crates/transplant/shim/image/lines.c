// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cache lines of the kernel's memory, and the CPUs that have them. Stands for caches and their protocol.
 *
 * A line costs if another CPU has written it since this one had it, or if another CPU has a copy that this one's write
 * invalidates. It comes from the nearest CPU that has it; a write waits for the farthest. Where CPUs are woven, a line
 * is handed on to one CPU after the other: who asks while it is on its way waits. Private caches hold everything: a
 * CPU's lines are never evicted. Stacks and the shims' own variables cost nothing.
 */
#include "host.h"
#include "image.h"

#ifdef CONFIG_SIM_COUNTED
#define IN_ARENA (IMG_ARENA / 64)

/* Variables of the tree with a fixed place. Each begins a line; in a kernel some share one. */
extern char img_fixed_start[], img_fixed_end[];

/*
 * What a line's accesses need to know, next to that of neighbouring lines: those of the arena, and behind them those of
 * the fixed variables. `owners`: the CPU that alone has the line, from 1 on, with READS_ONLY if its writes have to look
 * at the line first; 0: no CPU has it, or several may. Most lines are one CPU's, so most accesses read nothing else.
 */
#define READS_ONLY 0x8000
static unsigned short *owners;
/*
 * Of lines that several CPUs may have. `held`: for each eight CPUs the bits of those that have it; 64 lines have their
 * bytes of eight CPUs in a row, and behind them those of the next eight. `groups`: in which of these bytes bits may be
 * set, one bit for every `stride` of them. `free_at`: when it can be handed on again, ps. Memory is taken where it is
 * touched: lines of one CPU take none here.
 */
static unsigned char *held;
static unsigned int *groups;
static u64 *free_at;
static unsigned int eights, stride;	/* bytes of `held` for a line; those of a bit of `groups` */

static unsigned long nr_lines, nr_fixed;	/* of the arena, of fixed variables; 0: nothing is charged */
static bool queues;
bool img_has_queued;

/* Where a line comes from: a hardware thread of the core, a CPU of the same last-level cache, package, another one. */
enum way { SIBLING, NEAR, FAR, REMOTE, WAYS };
static unsigned int way_ps[WAYS];
/* By CPU: those that are at most so far, as in `held`. */
static unsigned char (*within[REMOTE])[DIV_ROUND_UP(NR_CPUS, 8)];
/* The entered CPU: its number from 1 on, the bytes in which its bit is, and the bit. */
static unsigned int me;
static unsigned char *mine, my_bit;
static unsigned long others_held;	/* bytes of the other CPUs, of 64 lines */

/* Where a line's byte is; that of the next eight CPUs is 64 bytes behind. */
static __always_inline unsigned long held_at(unsigned long number)
{
	return number + number / 64 * others_held;
}

void img_lines_of(int cpu)
{
	me = cpu + 1;
	mine = held + cpu / 8 * 64;
	my_bit = 1 << cpu % 8;
}

static bool is_within(enum way way, unsigned int a, unsigned int b)
{
	const struct img_machine *m = &img_machine;

	switch (way) {
	case SIBLING:
		return m->core[a] == m->core[b];
	case NEAR:
		return m->llc[a] == m->llc[b];
	default:
		return m->package[a] == m->package[b];
	}
}

/* Accesses are charged; or they cost nothing, and leave no trace. */
void img_lines_charge(bool on)
{
	nr_lines = on ? IN_ARENA : 0;
	nr_fixed = on ? (img_fixed_end - img_fixed_start + 63) / 64 : 0;
}

/* Accesses are charged from here on. No CPU has a line. */
void img_lines_init(const struct img_costs *costs)
{
	unsigned int way, a, b, nr = img_machine.nr_cpus;
	unsigned long all;

	way_ps[SIBLING] = costs->line_sibling_ps;
	way_ps[NEAR] = costs->line_near_ps;
	way_ps[FAR] = costs->line_far_ps;
	way_ps[REMOTE] = costs->line_remote_ps;
	img_lines_charge(true);
	all = ALIGN(nr_lines + nr_fixed, 64);
	eights = DIV_ROUND_UP(nr, 8);
	others_held = (eights - 1) * 64;
	stride = DIV_ROUND_UP(eights, 8 * sizeof(*groups));
	owners = img_reserve(all * sizeof(*owners));
	groups = img_reserve(all * sizeof(*groups));
	free_at = img_reserve(all * sizeof(*free_at));
	held = img_reserve(eights * all);
	for (way = SIBLING; way < REMOTE; way++) {
		within[way] = img_reserve(nr * sizeof(*within[way]));
		for (a = 0; a < nr; a++)
			for (b = 0; b < nr; b++)
				if (is_within(way, a, b))
					within[way][a][b / 8] |= 1 << b % 8;
	}
}

/* CPUs act at the times of their accesses: lines are handed on in that order. */
void img_lines_queue(void)
{
	queues = true;
}

/* One of several CPUs has the line. */
static void hold(unsigned long number, unsigned int cpu)
{
	held[held_at(number) + cpu / 8 * 64] |= 1 << cpu % 8;
	groups[number] |= 1U << cpu / 8 / stride;
}

/* The ways to the CPUs of a byte of `held`, bits by enum way. */
static unsigned int ways_to(unsigned int cpu, unsigned int i, unsigned char had)
{
	unsigned int ways = 0, way;
	unsigned char closer = 0;

	for (way = SIBLING; way < REMOTE; way++) {
		if (had & within[way][cpu][i] & ~closer)
			ways |= 1 << way;
		closer |= within[way][cpu][i];
	}
	return had & ~closer ? ways | 1 << REMOTE : ways;
}

/* The ways to the other CPUs that have a line. If this one `takes` it, they have it no longer. */
static unsigned int ways_to_holders(unsigned long number, unsigned int cpu, bool takes)
{
	unsigned char *bits = held + held_at(number);
	unsigned int rest = groups[number], ways = 0, i, end;

	for (; rest; rest &= rest - 1) {
		i = __builtin_ctz(rest) * stride;
		for (end = min(i + stride, eights); i < end; i++) {
			unsigned char had = bits[i * 64];

			if (!had)
				continue;
			if (i == cpu / 8)
				had &= ~(1 << cpu % 8);
			ways |= ways_to(cpu, i, had);
			if (takes)
				bits[i * 64] = 0;
		}
	}
	if (takes)
		groups[number] = 0;
	return ways;
}

/*
 * The line comes that way. One that is handed on is on its way until it is there, and the next one waits for that; of
 * those who wait the nearest gets it, so that it moves on by the near way as long as some do. 192 CPUs on two sockets
 * add to one counter every 52 ns (netperf UDP_RR, ip_idents, 2022); the mean way between two of them is twice that.
 */
static void fetch(unsigned long number, unsigned int way, bool write, bool handed_on)
{
	u64 now = img_now * 1000 + img_charged_ps(), begin;

	begin = queues ? max(now, free_at[number]) : now;
	/* Others act up to then, and may take it again. */
	img_has_queued |= begin > now;
	img_comes(begin - now + way_ps[way], write);
	if (handed_on && queues)
		free_at[number] = begin + way_ps[begin > now ? min_t(unsigned int, way, NEAR) : way];
	if (!write)
		img_queues_for(begin - now);
}

/* This CPU's caches lack the line in the state it needs. A line that no CPU has is in the last-level cache. */
static noinline void img_miss(unsigned long number, bool write)
{
	unsigned int cpu = img_cpu, owner = owners[number] & ~READS_ONLY, ways = 0;
	bool is_mine = owner ? owner == me : mine[held_at(number)] & my_bit;

	if (owner && !is_mine)
		ways = ways_to(cpu, (owner - 1) / 8, 1 << (owner - 1) % 8);
	else if (!owner && groups[number])
		ways = ways_to_holders(number, cpu, write);
	if (ways)
		fetch(number, write ? __fls(ways) : __ffs(ways), write, write || owner);
	else if (!is_mine)
		img_comes(way_ps[NEAR], write);
	if (write) {
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
	unsigned long number = (unsigned long)((const char *)at - img_arena_start) / 64;

	if (number >= nr_lines) {
		number = (unsigned long)((const char *)at - img_fixed_start) / 64;
		if (likely(number >= nr_fixed))
			return;
		number += IN_ARENA;
	}
	if (unlikely(!is_here(number, write)))
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
void img_store_begin(const volatile void *at)
{
	touch(at, true);
	img_halved = true;
}
void img_atomic_end(void)
{
	img_halved = false;
	if (unlikely(img_has_queued))
		img_may_leave();
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
void __tsan_read_range(void *at, unsigned long size)
{
	touch_range(at, size, false);
}
void __tsan_write_range(void *at, unsigned long size)
{
	touch_range(at, size, true);
}
void __tsan_init(void)
{
}
#endif
