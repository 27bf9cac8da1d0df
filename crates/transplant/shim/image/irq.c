// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts of the entered CPU. Stands for an architecture's entry code.
 */
#include "image.h"
#include <linux/clockchips.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/sched/hotplug.h>
#include <asm/irq_regs.h>
#include "kernel/sched/smp.h"
#if __has_include(<linux/hrtimer_rearm.h>)
#include <linux/hrtimer_rearm.h>
#else
static void hrtimer_rearm_deferred(void)
{
}
#endif

extern struct clock_event_device *img_clock(void);

/*
 * The timer interrupt leaves its device unset if a switch may follow, since the end of the switch sets it. It is set on
 * the way out of every interrupt, unless user mode is left for schedule().
 */
static void leave(int user)
{
	if (!user || !(need_resched() || test_thread_flag(TIF_NEED_RESCHED_LAZY)))
		hrtimer_rearm_deferred();
	img_irqs = 1;
}

#ifdef CONFIG_PREEMPT_DYNAMIC
#include <asm/switch_to.h>
/* The engine itself looks at the flag, since it knows the model: see verbs.c. */
void img_exit_cond_resched(void)
{
}
DEFINE_STATIC_CALL(irqentry_exit_cond_resched, img_exit_cond_resched);
#endif

void img_irq_timer(int user)
{
	struct clock_event_device *device = img_clock();

	get_irq_regs()->user = user;
	img_irqs = 0;
	irq_enter();
	device->event_handler(device);
	irq_exit();
	img_audit_timer();
	leave(user);
	img_settle_balanced();
}

/* A tick that an idle CPU has kept although others stop theirs. */
void img_irq_idle_tick(void)
{
	img_irqs = 0;
	irq_enter();
#ifdef HAVE_SCHED_TICK_RENAMED
	sched_tick();
#else
	scheduler_tick();
#endif
	irq_exit();
	leave(0);
	img_settle_balanced();
}

void img_irq_resched(void)
{
	img_irqs = 0;
	scheduler_ipi();
	leave(0);
	img_settle();
}

void img_irq_device(const int *pids, unsigned int nr)
{
	img_irqs = 0;
	irq_enter();
	for (; nr; nr--, pids++)
		img_wake_task(img_task_by_pid(*pids), 0);
	irq_exit();
	img_irqs = 1;
	img_settle_balanced();
}

/* The interrupt of kernel/irq_work.c: a CPU's interrupt to itself, which comes as a call. */
static bool work_raised[NR_CPUS];
void arch_irq_work_raise(void)
{
	work_raised[img_cpu] = true;
	img_note(IMG_IPI_CALL, img_cpu);
}

static void take_work(void)
{
	work_raised[img_cpu] = false;
	img_irqs = 0;
	irq_enter();
	irq_work_run();
	irq_exit();
	img_irqs = 1;
}

/*
 * irq_work_sync() spins until a CPU has taken its interrupt. If no CPU is inside of a verb, each of them can take it
 * now. Whether one did.
 */
bool img_takes_work(void)
{
	struct task_struct *caller = img_current;
	int me = img_cpu, cpu;
	bool any = false;

	if (!img_irqs || in_hardirq() || img_anyone_left())
		return false;
	for_each_online_cpu(cpu) {
		if (!work_raised[cpu])
			continue;
		img_go(cpu);
		if (cpu == me)
			img_current = caller;
		take_work();
		any = true;
	}
	img_go(me);
	img_current = caller;
	return any;
}

void img_irq_call(void)
{
	img_irqs = 0;
	irq_enter();
	generic_smp_call_function_single_interrupt();
	if (work_raised[img_cpu]) {
		work_raised[img_cpu] = false;
		irq_work_run();
	}
	irq_exit();
	leave(0);
	img_settle_balanced();
}
