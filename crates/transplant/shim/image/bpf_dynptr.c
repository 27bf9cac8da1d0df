// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pointers that know their size: struct bpf_dynptr. Stands for bpf_dynptr_*() of kernel/bpf/helpers.c, for memory of a
 * program and for entries of rings; and for the reader of rings that user space writes.
 */
enum { DYNPTR_NONE, DYNPTR_LOCAL, DYNPTR_RING };
/* The 16 bytes of a struct bpf_dynptr. A kernel keeps the same, in another order. */
struct sized {
	char *data;
	u32 bytes;
	u16 kind;
	u16 read_only;
};

static bool is_within(const struct sized *it, u64 at, u64 bytes)
{
	return it->data && at <= it->bytes && bytes <= it->bytes - at;
}

HELPER(dynptr_from_mem)
{
	struct sized *it = (void *)d;

	*it = (struct sized){ };
	if (b >> 24)
		return -E2BIG;
	if (c)
		return -EINVAL;
	*it = (struct sized){ .data = (char *)a, .bytes = b, .kind = DYNPTR_LOCAL };
	return 0;
}
HELPER(dynptr_read)
{
	struct sized *it = (void *)c;

	if (!it->data || e)
		return -EINVAL;
	if (!is_within(it, d, b))
		return -E2BIG;
	memmove((void *)a, it->data + d, b);
	return 0;
}
HELPER(dynptr_write)
{
	struct sized *it = (void *)a;

	if (!it->data || it->read_only || e)
		return -EINVAL;
	if (!is_within(it, b, d))
		return -E2BIG;
	memmove(it->data + b, (void *)c, d);
	return 0;
}
HELPER(dynptr_data)
{
	struct sized *it = (void *)a;

	return is_within(it, b, c) && !it->read_only ? (u64)(it->data + b) : 0;
}

HELPER(ringbuf_reserve_dynptr)
{
	struct sized *it = (void *)d;
	void *entry = c ? NULL : ring_take(MAP(a), b);

	*it = (struct sized){ .data = entry, .bytes = entry ? b : 0, .kind = DYNPTR_RING };
	return entry ? 0 : c ? -EINVAL : -EAGAIN;
}
static u64 put_dynptr(struct sized *it, u64 flags, bool discards)
{
	if (it->data)
		ring_put(it->data, flags, discards);
	*it = (struct sized){ };
	return 0;
}
HELPER(ringbuf_submit_dynptr)
{
	return put_dynptr((void *)a, b, false);
}
HELPER(ringbuf_discard_dynptr)
{
	return put_dynptr((void *)a, b, true);
}

/* Each entry of user space goes to a function of the program, until that returns 1. */
#define MOST_SAMPLES 131072		/* of one drain: BPF_MAX_USER_RINGBUF_SAMPLES of kernel/bpf/ringbuf.c */
HELPER(user_ringbuf_drain)
{
	struct img_map *map = MAP(a);
	u64 seen = 0, mask = map->about.max_entries - 1, looked = 0, at;

	if (map->about.kind != BPF_MAP_TYPE_USER_RINGBUF || d & ~(u64)(BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP))
		return -EINVAL;
	while (map->about.memory && looked++ < MOST_SAMPLES &&
	       (at = *reader_of(map)) < READ_ONCE(*writer_of(map))) {
		u32 *header = (u32 *)(ring_data(map) + (at & mask)), length = READ_ONCE(header[0]);
		struct sized it = { .data = (char *)(header + 2), .kind = DYNPTR_LOCAL, .read_only = 1 };
		bool ends = false;

		if (length & BPF_RINGBUF_BUSY_BIT)
			break;
		it.bytes = length & ~BPF_RINGBUF_DISCARD_BIT;
		if (it.bytes > mask)
			return -E2BIG;
		if (!(length & BPF_RINGBUF_DISCARD_BIT)) {
			seen++;
			ends = img_bpf_call(b, (u64)&it, c, 0, 0, 0);
		}
		WRITE_ONCE(*reader_of(map), at + round_up(it.bytes + RING_HEADER, 8));
		if (ends)
			break;
	}
	return seen;
}

__bpf_kfunc_start_defs();

__bpf_kfunc void *bpf_dynptr_slice(const struct bpf_dynptr *p, u64 offset, void *buffer__nullable, u64 buffer__szk)
{
	struct sized *it = (void *)p;

	return is_within(it, offset, buffer__szk) ? it->data + offset : NULL;
}
__bpf_kfunc void *bpf_dynptr_slice_rdwr(const struct bpf_dynptr *p, u64 offset, void *buffer__nullable,
					u64 buffer__szk)
{
	return ((struct sized *)p)->read_only ? NULL : bpf_dynptr_slice(p, offset, buffer__nullable, buffer__szk);
}
__bpf_kfunc int bpf_dynptr_adjust(struct bpf_dynptr *p, u64 start, u64 end)
{
	struct sized *it = (void *)p;

	if (!it->data || start > end)
		return -EINVAL;
	if (end > it->bytes)
		return -ERANGE;
	it->data += start;
	it->bytes = end - start;
	return 0;
}
__bpf_kfunc bool bpf_dynptr_is_null(const struct bpf_dynptr *p)
{
	return !((struct sized *)p)->data;
}
__bpf_kfunc bool bpf_dynptr_is_rdonly(const struct bpf_dynptr *p)
{
	return ((struct sized *)p)->data && ((struct sized *)p)->read_only;
}
__bpf_kfunc u64 bpf_dynptr_size(const struct bpf_dynptr *p)
{
	return ((struct sized *)p)->data ? ((struct sized *)p)->bytes : -EINVAL;
}
__bpf_kfunc int bpf_dynptr_clone(const struct bpf_dynptr *p, struct bpf_dynptr *clone__uninit)
{
	*(struct sized *)clone__uninit = *(struct sized *)p;
	return ((struct sized *)p)->data ? 0 : -EINVAL;
}

__bpf_kfunc_end_defs();
