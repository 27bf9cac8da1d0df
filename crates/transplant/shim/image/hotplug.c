// SPDX-License-Identifier: GPL-2.0-only
/*
 * Brings CPUs up: walks the tree's own list of states in its order. Stands for the threads of kernel/cpu.c, whose list
 * is static, so that this file includes it, and for an architecture's __cpu_up().
 */
#include "kernel/cpu.c"
#undef CREATE_TRACE_POINTS
#include "image.h"

/* Whether the image has a state's function. This file does the work of bringup_cpu(). */
static bool is_here(enum cpuhp_state state)
{
	struct cpuhp_step *step = cpuhp_get_step(state);

	return !step->multi_instance && step->startup.single && step->startup.single != bringup_cpu &&
	       !img_is_stub(step->startup.single);
}

static void walk(int cpu, enum cpuhp_state from, enum cpuhp_state to)
{
	enum cpuhp_state state;

	for (state = from; state < to; state++)
		if (is_here(state) && cpuhp_get_step(state)->startup.single(cpu))
			img_fatal("a CPU does not come up");
	per_cpu_ptr(&cpuhp_state, cpu)->state = to;
}

/* The boot CPU is the entered one, before and after. */
void img_bring_up(int cpu)
{
	struct task_struct *idle = img_idle_new(cpu);
	int boot_cpu = img_cpu;

	walk(cpu, CPUHP_OFFLINE + 1, CPUHP_BRINGUP_CPU);
	img_currents[cpu] = idle;
	img_go(cpu);
	img_irqs = 0;
	walk(cpu, CPUHP_BRINGUP_CPU + 1, CPUHP_AP_ONLINE);
	set_cpu_online(cpu, true);
	img_clock_init();
	img_irqs = 1;
	/* cpuhp_online_idle(): without it the stopper refuses work. */
	stop_machine_unpark(cpu);
	walk(cpu, CPUHP_AP_ONLINE, CPUHP_ONLINE);
	per_cpu_ptr(&cpuhp_state, cpu)->target = CPUHP_ONLINE;
	idle->flags |= PF_IDLE;
	img_go(boot_cpu);
}
