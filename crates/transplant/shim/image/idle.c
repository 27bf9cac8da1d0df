// SPDX-License-Identifier: GPL-2.0-only

/*
 * The idle loop. The tree's own runs, on a stack of each idle task, and is left where the CPU halts. Stands for an
 * architecture's arch_cpu_idle().
 */
#include "image.h"
#include <linux/cpu.h>
#include <linux/sched/idle.h>
#include <linux/tick.h>

static void loop(void *unused)
{
	cpu_startup_entry(CPUHP_ONLINE);
}

/* The CPU halts until an interrupt. */
void arch_cpu_idle(void)
{
	img_note(IMG_IDLE, img_cpu)->flags = tick_nohz_tick_stopped();
	img_halt();
}

/* From the halt, or from the switch to the idle task, to the next halt, or to the switch to a task. */
void img_idle_enter(void)
{
	img_idle_run(loop);
	img_settle();
}

void img_idle_leave(void)
{
	img_idle_run(loop);
	img_settle();
}
