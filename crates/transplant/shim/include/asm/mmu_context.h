/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_MMU_CONTEXT_H
#define _SIM_MMU_CONTEXT_H
#include <linux/mm_types.h>
/* The generic header lost switch_mm() when it was split in two. */
#if __has_include(<asm-generic/nommu_context.h>)
static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next, struct task_struct *task)
{
}
#endif
#include <asm-generic/mmu_context.h>
#endif
