// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arenas: memory that a scheduler's program and its user-space half share. Stands for kernel/bpf/arena.c.
 *
 * A kernel has an arena at two addresses, which have the same lower 32 bits; here they are one, since a cast between
 * them keeps an address. An arena has all 4 GB of the lower 32 bits, at a place that is the same in each run: addresses
 * may get into a scheduler's decisions. Untouched pages are zero and cost nothing; where a kernel's access to a page
 * that was not allocated faults, and gives 0, here it is one of zeros.
 */
#define ARENA_BYTES (1UL << 32)
#define ARENA_GUARD 65536UL		/* an instruction's offset is 16 bits */
#define ARENA_PLACE 0x100000000000UL	/* the first one, far from where a process has its own */
#define ARENA_PLACES 64UL
#define ARENA_PROTECTION 3		/* PROT_READ | PROT_WRITE */
#define ARENA_FLAGS 0x104022		/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE */

static char *arena_place(void)
{
	unsigned long at = ARENA_PLACE, size = ARENA_BYTES + 2 * ARENA_GUARD;

	for (; at < ARENA_PLACE + ARENA_PLACES * 2 * ARENA_BYTES; at += 2 * ARENA_BYTES) {
		void *wanted = (void *)(at - ARENA_GUARD);

		if (host_mmap(wanted, size, ARENA_PROTECTION, ARENA_FLAGS, -1, 0) == wanted)
			return (char *)at;
	}
	img_bpf_dies("there is no room for the 4 GB of addresses of an arena");
	return NULL;
}

/* Its memory. Page 0 is given to nobody: the lower half of its address is that of a null pointer. */
static void *arena_new(struct img_map *map)
{
	map->pages = img_alloc(BITS_TO_LONGS(map->about.max_entries) * sizeof(long));
	__set_bit(0, map->pages);
	return map->about.memory ?: arena_place();
}

/* The first pages are the program's variables. */
void img_bpf_arena_begins(int number, unsigned long bytes)
{
	struct img_map *map = img_map_of(number);
	u32 page;

	for (page = 0; page < DIV_ROUND_UP(bytes, PAGE_SIZE) && page < map->about.max_entries; page++)
		__set_bit(page, map->pages);
}

/* Number of the page that an address is on; of the arena's end if it is outside. */
static u32 page_of(const struct img_map *map, const void *at)
{
	unsigned long offset = (u32)((unsigned long)at - (unsigned long)map->values);

	return min(offset >> PAGE_SHIFT, (unsigned long)map->about.max_entries);
}
static bool are_unused(const struct img_map *map, u32 first, u32 nr)
{
	return nr <= map->about.max_entries - first && find_next_bit(map->pages, first + nr, first) >= first + nr;
}
/* The first place with so many unused pages in a row; the arena's end if there is none. */
static u32 place_for(const struct img_map *map, u32 nr)
{
	u32 most = map->about.max_entries, first = 0, end;

	for (;;) {
		first = find_next_zero_bit(map->pages, most, first);
		if (first >= most || nr > most - first)
			return most;
		end = find_next_bit(map->pages, first + nr, first);
		if (end >= first + nr)
			return first;
		first = end;
	}
}

static void *arena_take(struct img_map *map, void *at, u32 nr, u64 flags)
{
	u32 first, page;

	if (map->about.kind != BPF_MAP_TYPE_ARENA || flags || !nr)
		return NULL;
	if (at && (unsigned long)at % PAGE_SIZE)
		return NULL;
	first = at ? page_of(map, at) : place_for(map, nr);
	if (first >= map->about.max_entries || !are_unused(map, first, nr))
		return NULL;
	for (page = first; page < first + nr; page++)
		__set_bit(page, map->pages);
	return (char *)map->values + ((unsigned long)first << PAGE_SHIFT);
}
static void arena_give(struct img_map *map, void *at, u32 nr)
{
	u32 page = page_of(map, at);

	if (map->about.kind != BPF_MAP_TYPE_ARENA || !at)
		return;
	for (; nr && page < map->about.max_entries; nr--, page++)
		if (__test_and_clear_bit(page, map->pages))
			memset((char *)map->values + ((unsigned long)page << PAGE_SHIFT), 0, PAGE_SIZE);
}

/* What kernel/sched/ext/arena.c calls: its own allocations are from the arena, too. */
u64 bpf_arena_map_kern_vm_start(struct bpf_map *map)
{
	return (u64)((struct img_map *)map)->values;
}
void *bpf_arena_alloc_pages_sleepable(void *map, void *at, u32 nr, int node, u64 flags)
{
	return arena_take(map, at, nr, flags);
}
void *bpf_arena_alloc_pages_non_sleepable(void *map, void *at, u32 nr, int node, u64 flags)
{
	return arena_take(map, at, nr, flags);
}
void bpf_arena_free_pages_non_sleepable(void *map, void *at, u32 nr)
{
	arena_give(map, at, nr);
}

__bpf_kfunc_start_defs();

__bpf_kfunc void *bpf_arena_alloc_pages(void *p__map, void *addr__ign, u32 page_cnt, int node_id, u64 flags)
{
	return arena_take(p__map, addr__ign, page_cnt, flags);
}
__bpf_kfunc void bpf_arena_free_pages(void *p__map, void *ptr__ign, u32 page_cnt)
{
	arena_give(p__map, ptr__ign, page_cnt);
}
__bpf_kfunc int bpf_arena_reserve_pages(void *p__map, void *ptr__ign, u32 page_cnt)
{
	struct img_map *map = p__map;

	if (map->about.kind != BPF_MAP_TYPE_ARENA)
		return -EINVAL;
	if (!page_cnt)
		return 0;
	if (page_of(map, ptr__ign) + (u64)page_cnt > map->about.max_entries)
		return -EINVAL;
	return arena_take(map, ptr__ign, page_cnt, 0) ? 0 : -EBUSY;
}

__bpf_kfunc_end_defs();
