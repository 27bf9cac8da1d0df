// SPDX-License-Identifier: GPL-2.0-only
/*
 * The boot, from img_boot() to a system that runs. Stands for init/main.c.
 */
#include "image.h"
#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>
#include <linux/sched/init.h>
#include <linux/tick.h>
#include <linux/timer.h>
#include <asm/irq_regs.h>

struct img_machine img_machine;
extern initcall_t img_initcalls_early[], img_initcalls_late[], img_initcalls_end[];
extern void softirq_init(void);
extern void hrtimers_init(void);
extern void call_function_init(void);

/*
 * CFS: sets the queues as if the CPUs had run for a second. Otherwise a group would be new where it is far behind on a
 * machine that was up for long: its entities begin at 0, and a queue that was never used at -2^20 ns.
 */
static void queues_were_used(void)
{
#ifdef HAVE_LAST_BUDDY
	int cpu;

	for_each_possible_cpu(cpu)
		cpu_rq(cpu)->cfs.min_vruntime = NSEC_PER_SEC;
#endif
}

static void initcalls(initcall_t *from, initcall_t *to)
{
	for (; from < to; from++)
		(*from)();
}

int img_abi(void)
{
	return IMG_ABI;
}

int img_sizes(unsigned int *sizes, int count)
{
	static const unsigned int all[] = {
		sizeof(struct img_machine), sizeof(struct img_note), sizeof(struct img_view),
		sizeof(struct img_attr), sizeof(struct img_new_task), sizeof(struct img_usage),
		sizeof(struct img_block), sizeof(struct img_costs), sizeof(struct img_sample),
		sizeof(struct img_entity), sizeof(struct img_question), sizeof(struct img_answer),
		sizeof(struct img_fleet_cpu),
		sizeof(struct img_fleet_task), sizeof(struct img_fleet_level), sizeof(struct img_fleet),
		sizeof(struct img_fleet_answer), sizeof(struct img_tree_entity), sizeof(struct img_tree),
		sizeof(struct img_tree_answer), sizeof(struct img_choice_cpu), sizeof(struct img_choice),
		sizeof(struct img_judged_entity), sizeof(struct img_judged), sizeof(struct img_touched),
		sizeof(struct img_bpf_insn), sizeof(struct img_bpf_map), sizeof(struct img_bpf_program),
		sizeof(struct img_bpf_called), sizeof(struct img_ext_member), sizeof(struct img_ext_ops),
		sizeof(struct img_ext_state), sizeof(struct img_bpf_field), sizeof(struct img_bpf_trace),
	};
	int i;

	for (i = 0; i < count && i < ARRAY_SIZE(all); i++)
		sizes[i] = all[i];
	return ARRAY_SIZE(all);
}

void img_stubs(struct img_stubs *stubs)
{
	*stubs = (struct img_stubs){ img_stubs_start, img_stubs_end, img_stub_names };
}

static void timers(void)
{
#ifdef HAVE_TIMERS_INIT
	timers_init();
#else
	init_timers();
#endif
}

int img_boot(const struct img_machine *machine)
{
	static struct cpumask all;
	int cpu, failed;

	if (machine->hz && machine->hz != HZ)
		return -EINVAL;
	img_machine = *machine;
	failed = img_topology_init(&img_machine);
	if (failed)
		return failed;
#ifdef HAVE_SET_NR_CPU_IDS
	set_nr_cpu_ids(machine->nr_cpus);
#else
	nr_cpu_ids = machine->nr_cpus;
#endif
	img_memory_init();
	img_limits_init();
	img_tasks_init();
	for (cpu = 0; cpu < machine->nr_cpus; cpu++) {
		img_percpu_init(cpu);
		cpumask_set_cpu(cpu, &all);
	}
	img_currents[0] = &init_task;
	img_go(0);
	img_irqs = 0;
	img_labels_init();
	boot_cpu_init();
	boot_cpu_hotplug_init();
#ifdef HAVE_SMT_NUM_THREADS
	cpu_smt_set_num_threads(img_threads_of_core(), img_threads_of_core());
#endif
	init_cpu_possible(&all);
	init_cpu_present(cpu_possible_mask);
	img_groups_init();
	sched_init();
	queues_were_used();
	img_tasks_weigh();
	tick_init();
	timers();
	hrtimers_init();
	softirq_init();
	seq_file_init();
	sched_clock_init();
	call_function_init();
	img_irqs = 1;
	for (cpu = 0; cpu < machine->nr_cpus; cpu++)
		*per_cpu_ptr(&__irq_regs, cpu) = img_alloc(sizeof(struct pt_regs));
	img_clock_init();
	img_groups_online();
	initcalls(img_initcalls_early, img_initcalls_late);
	system_state = SYSTEM_SCHEDULING;
	for (cpu = 1; cpu < machine->nr_cpus; cpu++)
		img_bring_up(cpu);
	/* sched_init_smp() moves its caller, which must not be the idle task. */
	img_current = img_kthread_new("init", -1);
	sched_init_smp();
	img_go(0);
	img_idle_governor();
	initcalls(img_initcalls_late, img_initcalls_end);
	img_tunables_init();
	failed = img_idle_init();
	if (failed)
		return failed;
	static_branch_enable(&sched_schedstats);
	init_task.flags |= PF_IDLE;
	system_state = SYSTEM_RUNNING;
	img_notes_init();
	img_settle();
	return 0;
}
