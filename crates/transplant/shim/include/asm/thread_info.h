/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_THREAD_INFO_H
#define _SIM_THREAD_INFO_H
#include <asm/page.h>
#define THREAD_SIZE_ORDER 1
#define THREAD_SIZE (PAGE_SIZE << THREAD_SIZE_ORDER)
#ifndef __ASSEMBLY__
struct thread_info {
	unsigned long flags;
	unsigned long syscall_work;
	int preempt_count;
	unsigned int cpu;
};
#define INIT_THREAD_INFO(tsk) { .flags = 0, .preempt_count = INIT_PREEMPT_COUNT }
#endif
#define TIF_SYSCALL_TRACE 0
#define TIF_NOTIFY_RESUME 1
#define TIF_SIGPENDING 2
#define TIF_NEED_RESCHED 3
#define TIF_NEED_RESCHED_LAZY 4
#define TIF_POLLING_NRFLAG 5
#define TIF_MEMDIE 6
#define TIF_RESTORE_SIGMASK 7
#define TIF_NOTIFY_SIGNAL 8
#define TIF_SYSCALL_AUDIT 9
#define TIF_SECCOMP 10
#define TIF_UPROBE 11
#define TIF_HRTIMER_REARM 12
#define TIF_RSEQ 13
#define _TIF_SYSCALL_TRACE (1 << TIF_SYSCALL_TRACE)
#define _TIF_NOTIFY_RESUME (1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING (1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED (1 << TIF_NEED_RESCHED)
#define _TIF_NEED_RESCHED_LAZY (1 << TIF_NEED_RESCHED_LAZY)
#define _TIF_POLLING_NRFLAG (1 << TIF_POLLING_NRFLAG)
#define _TIF_NOTIFY_SIGNAL (1 << TIF_NOTIFY_SIGNAL)
#define _TIF_UPROBE (1 << TIF_UPROBE)
#define _TIF_HRTIMER_REARM (1 << TIF_HRTIMER_REARM)
#define _TIF_RSEQ (1 << TIF_RSEQ)
#endif
