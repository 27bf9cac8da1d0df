/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Programs of BPF in the image: what image/bpf_*.c share. Stands for kernel/bpf of a kernel that interprets programs.
 *
 * Programs come decoded and relocated from the engine, which is the place where they are checked. They touch the
 * kernel's memory directly, and call the kernel's own functions by pointer. There is no verifier: a wild access faults,
 * and ends the run.
 */
#ifndef IMG_BPF_H
#define IMG_BPF_H
#include <linux/types.h>
#include "image.h"

#define IMG_BPF_STACK 512		/* bytes of a function's frame, as in a kernel */
#define IMG_BPF_DEPTH 64		/* frames; a kernel has 8 for each program, and callbacks add some */

/* A kernel's own loads through such a pointer fault, and give 0. */
static inline bool img_bpf_is_null(const void *at)
{
	return (unsigned long)at < 65536;
}

struct img_entry {			/* of a hash; its values, by CPU if the map has them so, are behind the key */
	struct img_entry *chain, *next, *prev;
	void *key, *values;
};
struct img_map {
	struct img_bpf_map about;
	int number;
	u32 value_bytes;		/* rounded up to 8 */
	unsigned long key_stride;	/* bytes of all values of a key */
	bool is_array, is_hash, is_by_cpu, is_of_maps, is_lru;
	void *values;			/* of an array: by index, and within an index by CPU */
	struct img_entry **buckets, *first, *last, *unused;
	u32 nr_buckets, nr;
	u64 head, tail;			/* of a queue or a stack: entries that came and went */
	u64 sent, rung;			/* of a ring: entries, calls of its reader */
	unsigned long *pages;		/* of an arena: those that are allocated */
};
struct img_map *img_map_of(int number);
void *img_map_find(struct img_map *map, const void *key, int cpu);
long img_map_write(struct img_map *map, const void *key, const void *value, u64 flags);
long img_map_delete(struct img_map *map, const void *key);
void *img_map_owned(struct img_map *map, const void *owner, const void *first, bool make);
u64 img_map_each(struct img_map *map, long callback, u64 context);
void *img_map_value_of(struct img_map *map, void *field, void **key);
struct img_entry *img_map_next(struct img_map *map, const void *key);

struct cgroup *img_cgroup_of(u64 id);
u64 img_bpf_call(long at, u64 a, u64 b, u64 c, u64 d, u64 e);
void img_bpf_reaches(const char *function, bool after, const u64 *arguments, unsigned int nr);
void img_bpf_dies(const char *format, ...);
typedef u64 img_bpf_helper_t(u64 a, u64 b, u64 c, u64 d, u64 e);
u64 img_bpf_function(struct img_bpf_called *called, u64 *r);
#endif
