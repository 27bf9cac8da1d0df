// SPDX-License-Identifier: GPL-2.0-only
/*
 * Notes of load balancing, from the counters that /proc/schedstat shows: their changes since the last look. A look
 * reads each domain of a CPU, so it is taken only where balancing may have happened: after SCHED_SOFTIRQ, after a
 * schedule() that found no fair task, and where a task has moved. A pass elsewhere is noted at the next look.
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
/*
 * A CPU's state at the last look. Memory is never given back, so the same domain always has the same domains above it.
 * A look without findings reads this, and the line of each domain's counters.
 */
struct looks {
	struct sched_domain *lowest;
	unsigned int softirqs, schedules;	/* how often SCHED_SOFTIRQ and schedule() had run */
	unsigned int passes, domains;
	const unsigned int *counts[LEVELS];	/* of passes, by domain */
	struct seen *seen;			/* by level */
};
static DEFINE_PER_CPU_SHARED_ALIGNED(struct looks, img_looks);
bool img_task_moved;

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

/* Passes of all domains, of each kind. */
static unsigned int passes_of(const struct looks *looks)
{
	unsigned int i, passes = 0;

	for (i = 0; i < looks->domains; i++)
		passes += looks->counts[i][CPU_IDLE] + looks->counts[i][BUSY] + looks->counts[i][CPU_NEWLY_IDLE];
	return passes;
}

static void meet(struct looks *looks, struct sched_domain *lowest)
{
	struct sched_domain *sd;

	if (!looks->seen)
		looks->seen = img_alloc(LEVELS * sizeof(*looks->seen));
	looks->lowest = lowest;
	looks->domains = 0;
	for (sd = lowest; sd && looks->domains < LEVELS; sd = sd->parent)
		looks->counts[looks->domains++] = sd->lb_count;
}

static void look(int cpu)
{
	struct looks *looks = per_cpu_ptr(&img_looks, cpu);
	struct sched_domain *sd, *lowest = cpu_rq(cpu)->sd;

	if (lowest != looks->lowest)
		meet(looks, lowest);
	else if (passes_of(looks) == looks->passes)
		return;
	looks->passes = passes_of(looks);
	for_each_domain(cpu, sd) {
		struct seen *seen = &looks->seen[min(sd->level, LEVELS - 1)];

		compare(sd, cpu, seen, 0, CPU_IDLE);
		compare(sd, cpu, seen, 1, BUSY);
		compare(sd, cpu, seen, 2, CPU_NEWLY_IDLE);
	}
}

/* After a verb of the entered CPU. An idle CPU may also have balanced for tickless CPUs (nohz_idle_balance()). */
void img_balance_notes(void)
{
	struct looks *looks = this_cpu_ptr(&img_looks);
	unsigned int softirqs = kstat_softirqs_cpu(SCHED_SOFTIRQ, img_cpu), schedules = this_rq()->sched_count;
	bool in_softirq = softirqs != looks->softirqs;
	bool found_none = schedules != looks->schedules && current->sched_class != &fair_sched_class;
	int cpu;

	if (in_softirq && is_idle_task(current))
		for_each_online_cpu(cpu)
			look(cpu);
	else if (in_softirq || found_none || img_task_moved)
		look(img_cpu);
	looks->softirqs = softirqs;
	looks->schedules = schedules;
	img_task_moved = false;
}
