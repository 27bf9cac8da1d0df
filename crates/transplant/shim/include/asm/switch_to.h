/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SWITCH_TO_H
#define _SIM_SWITCH_TO_H
/* A task has no stack of its own, except one that left a call in the middle: see image/stacks.c. */
extern struct task_struct *img_switch_to(struct task_struct *prev, struct task_struct *next);
#define switch_to(prev, next, last) ((last) = img_switch_to((prev), (next)))
#ifdef CONFIG_PREEMPT_DYNAMIC
/* A part of the generic entry code whose call the preemption model switches. Interrupts end in image/irq.c. */
#include <linux/static_call.h>
extern void img_exit_cond_resched(void);
DECLARE_STATIC_CALL(irqentry_exit_cond_resched, img_exit_cond_resched);
#define irqentry_exit_cond_resched_dynamic_enabled img_exit_cond_resched
#define irqentry_exit_cond_resched_dynamic_disabled NULL
#endif
#endif
