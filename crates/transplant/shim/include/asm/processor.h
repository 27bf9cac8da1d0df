/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PROCESSOR_H
#define _SIM_PROCESSOR_H
#include <asm/page.h>
#define TASK_SIZE 0x7ffffffff000UL
#define TASK_UNMAPPED_BASE (TASK_SIZE / 3)
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX TASK_SIZE
#define KSTK_EIP(t) 0UL
#define KSTK_ESP(t) 0UL
struct task_struct;
/* The stack on which a task left a call in the middle; NULL: it did not. */
struct img_stack;
struct thread_struct {
	struct img_stack *parked;
};
#define INIT_THREAD { }
#define cpu_relax() img_relax()
extern void img_relax(void);
static inline void release_thread(struct task_struct *t)
{
}
extern unsigned long __get_wchan(struct task_struct *p);
extern unsigned long get_wchan(struct task_struct *p);
#define task_pt_regs(t) ((struct pt_regs *)0)
#define current_pt_regs() ((struct pt_regs *)0)
extern void start_thread(void *regs, unsigned long pc, unsigned long sp);
#endif
