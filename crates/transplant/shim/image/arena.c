// SPDX-License-Identifier: GPL-2.0-only
/*
 * The range of addresses from which the kernel's memory comes. Stands for memory.
 *
 * Where lines are known (lines.c) all of the kernel's allocations lie in one range, so that a line's number follows
 * from its address.
 */
#include "host.h"
#include "image.h"

#ifdef CONFIG_SIM_COUNTED
#define READ_WRITE 3		/* PROT_READ | PROT_WRITE */
#define PRIVATE 0x4022		/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE */

char *img_arena_start;
static char *arena_end;

/* Zeroed memory, of which pages exist once they are touched. */
void *img_reserve(unsigned long size)
{
	void *at = host_mmap(NULL, size, READ_WRITE, PRIVATE, -1, 0);

	if (at == (void *)-1)
		img_fatal("no room for the cache lines of the kernel's memory: take a smaller machine");
	return at;
}

void *img_arena(unsigned long size)
{
	char *at;

	if (!img_arena_start) {
		img_arena_start = img_reserve(IMG_ARENA);
		arena_end = img_arena_start;
	}
	at = arena_end;
	if (size > img_arena_start + IMG_ARENA - at)
		img_fatal("the kernel has allocated 8 GB, whose lines are known: shorten the run, or use level free");
	arena_end += size;
	return at;
}
#else
void *img_arena(unsigned long size)
{
	return NULL;
}
#endif
