/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PREEMPT_H
#define _SIM_PREEMPT_H
/* Tasks have no kernel stack, so kernel code is not left in the middle: the agent looks at the flag after each verb. */
#include <asm-generic/preempt.h>
#undef __preempt_schedule
#undef __preempt_schedule_notrace
#define __preempt_schedule() do { } while (0)
#define __preempt_schedule_notrace() do { } while (0)
#endif
