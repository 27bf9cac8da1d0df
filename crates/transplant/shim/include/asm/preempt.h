/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PREEMPT_H
#define _SIM_PREEMPT_H
/*
 * A task does not give way within a verb: the engine looks at the flag after each verb. Where CPUs are woven a verb is
 * left for other CPUs, never for another task of its CPU. The exception is a call that may sleep in the middle.
 */
#include <asm-generic/preempt.h>
#ifdef CONFIG_PREEMPTION
extern void img_preempt(void);
#else
#define img_preempt() do { } while (0)
#endif
#undef __preempt_schedule
#undef __preempt_schedule_notrace
#define __preempt_schedule() img_preempt()
#define __preempt_schedule_notrace() do { } while (0)
#endif
