// SPDX-License-Identifier: GPL-2.0-only

/*
 * Memory of the kernel's. Stands for mm/slab and mm/page_alloc.
 *
 * Memory is zeroed and never given back: a process holds one simulation, and its end frees all.
 */
#include "host.h"
#include "image.h"

#define CHUNK (32UL << 20)
#define READ_WRITE 3		/* PROT_READ | PROT_WRITE */
#define PRIVATE 0x4022		/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE */
#define KMALLOC_SIZES 32

static char *next, *end;

void *img_alloc(unsigned long size)
{
	char *at;

	size = (size + 63) & ~63UL;
	if (size > end - next) {
		unsigned long chunk = size > CHUNK ? size : CHUNK;

		next = host_mmap(NULL, chunk, READ_WRITE, PRIVATE, -1, 0);
		if (next == (char *)-1)
			img_fatal("no memory is left");
		end = next + chunk;
	}
	at = next;
	next += size;
	return at;
}

/* A cache is known by its size alone. */
struct kmem_cache {
	unsigned int object_size;
};

/* kmalloc() of a constant size names a cache, which only need be there. */
__typeof__(kmalloc_caches) kmalloc_caches;

#define GIVES(name, size, ...) void *name(__VA_ARGS__) { return img_alloc(size); }
#undef kmem_cache_create
#undef kmem_cache_alloc
#undef kmem_cache_alloc_node
#undef __kmalloc
#undef __kmalloc_node
#undef kmalloc_large
#undef kvmalloc_node

static struct kmem_cache *cache_new(unsigned int size)
{
	struct kmem_cache *cache = img_alloc(sizeof(*cache));

	cache->object_size = size;
	return cache;
}

void img_memory_init(void)
{
	unsigned int type, shift;

	for (type = 0; type < NR_KMALLOC_TYPES; type++)
		for (shift = 0; shift <= KMALLOC_SHIFT_HIGH; shift++)
			*(struct kmem_cache **)&kmalloc_caches[type][shift] =
				cache_new(shift == 1 ? 96 : shift == 2 ? 192 : 1U << shift);
}

/* All names that trees have had for an allocation: the linker drops those that this tree does not call. */
GIVES(__kmalloc, size, size_t size, gfp_t flags)
GIVES(__kmalloc_node, size, size_t size, gfp_t flags, int node)
GIVES(kmalloc_trace, size, struct kmem_cache *cache, gfp_t flags, size_t size)
GIVES(kmalloc_node_trace, size, struct kmem_cache *cache, gfp_t flags, int node, size_t size)
GIVES(kmalloc_large, size, size_t size, gfp_t flags)
GIVES(kmalloc_large_node, size, size_t size, gfp_t flags, int node)
GIVES(kmem_cache_alloc, cache->object_size, struct kmem_cache *cache, gfp_t flags)
GIVES(kmem_cache_alloc_node, cache->object_size, struct kmem_cache *cache, gfp_t flags, int node)
GIVES(kvmalloc_node, size, size_t size, gfp_t flags, int node)

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align, slab_flags_t flags,
				     void (*constructor)(void *))
{
	return cache_new(size);
}
void kmem_cache_free(struct kmem_cache *cache, void *at)
{
}
void kfree(const void *at)
{
}
void kvfree(const void *at)
{
}
