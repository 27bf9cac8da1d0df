// SPDX-License-Identifier: GPL-2.0-only
/*
 * Branches that are switched by writing the code: features, and whatever else is a static key. Stands for an
 * architecture's jump_label.c. kernel/jump_label.c is the tree's.
 */
#include "host.h"
#include "image.h"
#include <linux/jump_label.h>

/* init/main.c */
bool static_key_initialized;

#ifdef CONFIG_JUMP_LABEL
#define HOST_PAGE 4096UL
#define ALL 7			/* PROT_READ | PROT_WRITE | PROT_EXEC */

void arch_jump_label_transform(struct jump_entry *entry, enum jump_label_type type)
{
	static const unsigned char nothing[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	unsigned char *at = (unsigned char *)jump_entry_code(entry);
	unsigned long page = (unsigned long)at & ~(HOST_PAGE - 1);
	int way = jump_entry_target(entry) - (jump_entry_code(entry) + JUMP_LABEL_NOP_SIZE);

	if (host_mprotect((void *)page, (unsigned long)at + JUMP_LABEL_NOP_SIZE - page, ALL))
		img_fatal("the system lets no process write its own code, which static keys of the kernel need");
	if (type == JUMP_LABEL_NOP) {
		memcpy(at, nothing, sizeof(nothing));
		return;
	}
	at[0] = 0xe9;
	memcpy(at + 1, &way, sizeof(way));
}

/* Old trees write each branch at the start; it is as the compiler left it. */
void arch_jump_label_transform_static(struct jump_entry *entry, enum jump_label_type type)
{
}

/* kernel/extable.c */
int kernel_text_address(unsigned long address)
{
	return 1;
}

void img_labels_init(void)
{
	jump_label_init();
}
#else
void img_labels_init(void)
{
	static_key_initialized = true;
}
#endif
