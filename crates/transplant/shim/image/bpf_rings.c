// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings: buffers of entries from programs to user space, and from there to programs. Stands for kernel/bpf/ringbuf.c.
 *
 * The memory is user space's, too: a page with the reader's position, one with the writer's, and the data, whose pages
 * lie there twice, so that an entry may go over the end. The second ones hold nothing but that: both sides find an
 * entry by where it begins. A ring that nobody else sees gives a place to write to, and counts.
 */
#define RING_ROOM 65536
#define RING_HEADER 8ULL

static u64 *reader_of(struct img_map *map)
{
	return map->about.memory;
}
static u64 *writer_of(struct img_map *map)
{
	return (u64 *)((char *)map->about.memory + PAGE_SIZE);
}
static char *ring_data(struct img_map *map)
{
	return (char *)map->about.memory + 2 * PAGE_SIZE;
}

/* Behind an entry's length stands the number of its map; a kernel has the distance to its own there. */
static void *ring_take(struct img_map *map, u64 bytes)
{
	static char nowhere[RING_ROOM] __aligned(8);
	u64 length = round_up(bytes + RING_HEADER, 8), size = map->about.max_entries, written;
	u32 *header;

	if (map->about.kind != BPF_MAP_TYPE_RINGBUF || bytes > U32_MAX / 4)
		return NULL;
	if (!map->about.memory) {
		header = (u32 *)nowhere;
		if (length > RING_ROOM)
			return NULL;
	} else {
		written = *writer_of(map);
		if (written + length - READ_ONCE(*reader_of(map)) > size - 1)
			return NULL;
		header = (u32 *)(ring_data(map) + (written & (size - 1)));
		*writer_of(map) = written + length;
	}
	header[0] = bytes | BPF_RINGBUF_BUSY_BIT;
	header[1] = map->number;
	return header + 2;
}
static void ring_put(void *entry, u64 flags, bool discards)
{
	u32 *header = (u32 *)entry - 2;
	struct img_map *map = img_map_of(header[1]);
	u64 at;

	header[0] = (header[0] & ~BPF_RINGBUF_BUSY_BIT) | (discards ? BPF_RINGBUF_DISCARD_BIT : 0);
	map->sent += !discards;
	if (!map->about.memory)
		return;
	at = (char *)header - ring_data(map);
	if ((flags & BPF_RB_FORCE_WAKEUP) || !(flags & BPF_RB_NO_WAKEUP) &&
	    (READ_ONCE(*reader_of(map)) & (map->about.max_entries - 1)) == at)
		map->rung++;
}
unsigned long long img_bpf_rung(int map)
{
	return img_map_of(map)->rung;
}
unsigned long long img_bpf_sent(int map)
{
	return img_map_of(map)->sent;
}

HELPER(ringbuf_reserve)
{
	return c ? 0 : (u64)ring_take(MAP(a), b);
}
HELPER(ringbuf_submit)
{
	ring_put((void *)a, b, false);
	return 0;
}
HELPER(ringbuf_discard)
{
	ring_put((void *)a, b, true);
	return 0;
}
HELPER(ringbuf_output)
{
	void *entry = d & ~(u64)(BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP) ? NULL : ring_take(MAP(a), c);

	if (!entry)
		return d & ~(u64)(BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP) ? -EINVAL : -EAGAIN;
	memcpy(entry, (void *)b, c);
	ring_put(entry, d, false);
	return 0;
}
HELPER(ringbuf_query)
{
	struct img_map *map = MAP(a);
	bool seen = map->about.memory;

	switch (b) {
	case BPF_RB_AVAIL_DATA: return seen ? *writer_of(map) - *reader_of(map) : 0;
	case BPF_RB_RING_SIZE: return map->about.max_entries;
	case BPF_RB_CONS_POS: return seen ? *reader_of(map) : 0;
	case BPF_RB_PROD_POS: return seen ? *writer_of(map) : 0;
	}
	return 0;
}
