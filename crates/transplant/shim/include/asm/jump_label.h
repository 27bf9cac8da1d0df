/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_JUMP_LABEL_H
#define _SIM_JUMP_LABEL_H
/* A branch is an instruction of five bytes that does nothing, or a jump: image/labels.c writes it. */
#define JUMP_LABEL_NOP_SIZE 5
#ifndef __ASSEMBLY__
#include <linux/types.h>
#define IMG_BRANCH(instruction, key, branch, taken)						\
	asm goto("1:\t" instruction "\n"							\
		 ".pushsection __jump_table, \"aw\"\n\t.balign 8\n\t"				\
		 ".long 1b - ., %l[" #taken "] - .\n\t.quad %c0 + %c1 - .\n\t"			\
		 ".popsection\n" : : "i" (key), "i" (branch) : : taken)
static __always_inline bool arch_static_branch(struct static_key *const key, const bool branch)
{
	IMG_BRANCH(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", key, branch, yes);
	return false;
yes:
	return true;
}
static __always_inline bool arch_static_branch_jump(struct static_key *const key, const bool branch)
{
	IMG_BRANCH(".byte 0xe9\n\t.long %l[yes] - (. + 4)", key, branch, yes);
	return false;
yes:
	return true;
}
#endif
#endif
