// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's memory. Stands for mm/slab and mm/page_alloc.
 *
 * Memory is zeroed and never given back: a process holds one simulation, and its end frees all. With img_guard each
 * allocation has its own pages; nobody may touch the page after its end, nor any of them once it is freed.
 */
#include "host.h"
#include "image.h"

#define CHUNK (32UL << 20)
#define NOTHING 0		/* PROT_NONE */
#define READ_WRITE 3		/* PROT_READ | PROT_WRITE */
#define PRIVATE 0x4022		/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE */

static char *next, *end;

int img_guard;

void *img_map(unsigned long size)
{
	void *at = host_mmap(NULL, size, READ_WRITE, PRIVATE, -1, 0);

	if (at == (void *)-1)
		img_fatal("no memory is left");
	return at;
}

/* An allocation under img_guard. `by` and `freed_by`: the kernel's code that asked for it and freed it. */
struct block {
	char *pages;
	unsigned long size;
	void *by, *freed_by;
};
static struct block *blocks;
static unsigned long block_count, block_room;

static struct block *block_new(void)
{
	if (block_count == block_room) {
		unsigned long larger = block_room ? 2 * block_room : 16384;
		struct block *all = img_map(larger * sizeof(*all));

		memcpy(all, blocks, block_count * sizeof(*all));
		blocks = all;
		block_room = larger;
	}
	return &blocks[block_count++];
}

/* The block of an address; its guard page belongs to it, too. */
static struct block *block_of(const void *at)
{
	const char *address = at;
	unsigned long i = block_count;

	while (i--)
		if (address >= blocks[i].pages &&
		    address < blocks[i].pages + PAGE_ALIGN(blocks[i].size) + PAGE_SIZE)
			return &blocks[i];
	return NULL;
}

static void protect(char *at, unsigned long size)
{
	if (host_mprotect(at, size, NOTHING))
		img_fatal("no more memory can be guarded: vm.max_map_count bounds the pieces, take a smaller machine");
}

/* An access beyond its end faults, except for the few bytes of its alignment. */
static void *guarded(unsigned long size, void *by)
{
	unsigned long pages = PAGE_ALIGN(size);
	char *at = img_map(pages + PAGE_SIZE);

	*block_new() = (struct block){ at, size, by };
	protect(at + pages, PAGE_SIZE);
	return at + pages - ((size + 15) & ~15UL);
}

static void freed(const void *at, void *by)
{
	struct block *block = img_guard && at ? block_of(at) : NULL;

	if (!block)
		return;
	if (block->freed_by)
		img_fatal("memory is freed that was freed before");
	block->freed_by = by;
	protect(block->pages, PAGE_ALIGN(block->size));
}
void img_free(const void *at)
{
	freed(at, __builtin_return_address(0));
}

const char *img_memory_at(const void *at, void **by)
{
	static char words[128];
	struct block *block = block_of(at);

	if (!block)
		return NULL;
	*by = block->freed_by ?: block->by;
	snprintf(words, sizeof(words), block->freed_by ? "in %lu bytes that were freed" :
		 "behind the end of %lu bytes that were allocated", block->size);
	return words;
}

static __always_inline void *allocated(unsigned long size, void *by)
{
	char *at;

	if (unlikely(img_guard))
		return guarded(size, by);
	size = (size + 63) & ~63UL;
	if (size > end - next) {
		unsigned long chunk = size > CHUNK ? size : CHUNK;

		next = img_arena(chunk) ?: img_map(chunk);
		end = next + chunk;
	}
	at = next;
	next += size;
	return at;
}
/* Stacks are apart: accesses to them cost nothing. A stack overflow faults. */
void *img_stack_memory(void)
{
	char *at = img_map(PAGE_SIZE + IMG_STACK_SIZE);

	protect(at, PAGE_SIZE);
	return at + PAGE_SIZE;
}
void *img_alloc(unsigned long size)
{
	return allocated(size, __builtin_return_address(0));
}

/* A cache is known by its size alone. */
struct kmem_cache {
	unsigned int object_size;
};

/* kmalloc() of a constant size names a cache, which only needs to exist. */
__typeof__(kmalloc_caches) kmalloc_caches;

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

/*
 * The names that trees have had for an allocation, by the place of the size among the parameters. They are given only
 * to the linker: headers declare them with further parameters, which differ and don't matter, or as macros.
 */
#define GIVES(id, symbol, size, ...)						\
	void *img_give_##id(__VA_ARGS__) __asm__(symbol);			\
	void *img_give_##id(__VA_ARGS__) { return allocated(size, __builtin_return_address(0)); }
#define FIRST(id, symbol) GIVES(id, symbol, size, size_t size)
#define THIRD(id, symbol) GIVES(id, symbol, size, void *cache, gfp_t flags, size_t size)
#define FOURTH(id, symbol) GIVES(id, symbol, size, void *cache, gfp_t flags, int node, size_t size)
#define CACHE(id, symbol) GIVES(id, symbol, cache->object_size, struct kmem_cache *cache)
FIRST(1, "__kmalloc")
FIRST(2, "__kmalloc_node")
FIRST(3, "kmalloc_large")
FIRST(4, "kmalloc_large_node")
FIRST(5, "kvmalloc_node")
FIRST(6, "__kmalloc_noprof")
FIRST(7, "__kmalloc_node_noprof")
FIRST(8, "__kmalloc_large_noprof")
FIRST(9, "__kmalloc_large_node_noprof")
FIRST(10, "__kvmalloc_node_noprof")
FIRST(11, "kvmalloc_node_noprof")
FIRST(12, "kmalloc_order")
THIRD(13, "kmalloc_trace")
THIRD(14, "kmem_cache_alloc_trace")
THIRD(15, "__kmalloc_cache_noprof")
FOURTH(16, "kmalloc_node_trace")
FOURTH(17, "kmem_cache_alloc_node_trace")
FOURTH(18, "__kmalloc_cache_node_noprof")
CACHE(19, "kmem_cache_alloc")
CACHE(20, "kmem_cache_alloc_node")
CACHE(21, "kmem_cache_alloc_noprof")
CACHE(22, "kmem_cache_alloc_node_noprof")

struct kmem_cache *img_cache_create(const char *name, unsigned int size) __asm__("kmem_cache_create");
struct kmem_cache *img_cache_create(const char *name, unsigned int size)
{
	return cache_new(size);
}
struct kmem_cache *img_cache_create_args(const char *name, unsigned int size) __asm__("__kmem_cache_create_args");
struct kmem_cache *img_cache_create_args(const char *name, unsigned int size)
{
	return cache_new(size);
}

void kmem_cache_free(struct kmem_cache *cache, void *at)
{
	freed(at, __builtin_return_address(0));
}
void kfree(const void *at)
{
	freed(at, __builtin_return_address(0));
}
void kvfree(const void *at)
{
	freed(at, __builtin_return_address(0));
}
void img_kvfree_rcu(void) __asm__("kvfree_call_rcu");
void img_kvfree_rcu(void)
{
}
