/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PREEMPT_H
#define _SIM_PREEMPT_H
/*
 * A task does not give way within a verb: the engine looks at the flag after each of them. Where CPUs are woven a verb
 * is left for other CPUs, never for another task of its own.
 */
#include <asm-generic/preempt.h>
#undef __preempt_schedule
#undef __preempt_schedule_notrace
#define __preempt_schedule() do { } while (0)
#define __preempt_schedule_notrace() do { } while (0)
#endif
