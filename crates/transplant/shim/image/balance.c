// SPDX-License-Identifier: GPL-2.0-only
/*
 * Notes of load balancing, from the counters that /proc/schedstat shows: what has changed since the last look.
 */
#include "image.h"
#include <linux/kernel_stat.h>

#ifdef HAVE_NOT_IDLE_RENAMED
#define BUSY __CPU_NOT_IDLE
#else
#define BUSY CPU_NOT_IDLE
#endif

/* Domains that a look remembers; a CPU of a machine has five or six. */
#define LEVELS 12

struct seen {
	unsigned int passes[3], gained[3];
};
static DEFINE_PER_CPU(struct seen *, img_seen);
static DEFINE_PER_CPU(unsigned int, img_softirqs);	/* how often SCHED_SOFTIRQ had run */

static void compare(struct sched_domain *sd, int cpu, struct seen *seen, int flags, int type)
{
	unsigned int passes = sd->lb_count[type], gained = sd->lb_gained[type];
	struct img_note *note;

	if (passes == seen->passes[flags])
		return;
	note = img_note(IMG_BALANCE, cpu);
	note->flags = flags;
	note->value = sd->level;
	/* Domains that were rebuilt count from 0 again. */
	note->at = passes > seen->passes[flags] ? passes - seen->passes[flags] : passes;
	note->pid = gained > seen->gained[flags] ? gained - seen->gained[flags] : 0;
	note->other = cpumask_weight(sched_domain_span(sd));
	seen->passes[flags] = passes;
	seen->gained[flags] = gained;
}

static void look(int cpu)
{
	struct seen **all = per_cpu_ptr(&img_seen, cpu);
	struct sched_domain *sd;

	if (!*all)
		*all = img_alloc(LEVELS * sizeof(**all));
	rcu_read_lock();
	for_each_domain(cpu, sd) {
		struct seen *seen = &(*all)[min(sd->level, LEVELS - 1)];

		compare(sd, cpu, seen, 0, CPU_IDLE);
		compare(sd, cpu, seen, 1, BUSY);
		compare(sd, cpu, seen, 2, CPU_NEWLY_IDLE);
	}
	rcu_read_unlock();
}

/* Whether this CPU, which is idle, has balanced since the last look: for tickless CPUs, too (nohz_idle_balance()). */
static bool balanced_for_others(void)
{
	unsigned int ran = kstat_softirqs_cpu(SCHED_SOFTIRQ, img_cpu);
	bool more = ran != this_cpu_read(img_softirqs);

	this_cpu_write(img_softirqs, ran);
	return more && is_idle_task(current);
}

/* Behind a verb of the entered CPU. */
void img_balance_notes(void)
{
	int cpu;

	if (balanced_for_others())
		for_each_online_cpu(cpu)
			look(cpu);
	else
		look(img_cpu);
}
