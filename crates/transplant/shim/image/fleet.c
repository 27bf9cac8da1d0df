// SPDX-License-Identifier: GPL-2.0-only
/*
 * Single questions to the fair class about a machine in a given state. Stands for nothing in the kernel. It replaces
 * kernel/sched/fair.c, which it includes, because the functions that it calls are static there.
 */
#include "kernel/sched/fair.c"
#define IMG_HAS_FAIR
#include "fleet.h"

#ifdef HAVE_FIND_SRC_GROUP
#define find_busiest_group sched_balance_find_src_group
#endif
#ifndef HAVE_SCHED_BALANCE_NEWIDLE
#define sched_balance_newidle newidle_balance
#endif
#ifdef HAVE_NR_MIGRATE_BREAK
#define FIRST_BREAK sched_nr_migrate_break
#else
#define FIRST_BREAK SCHED_NR_MIGRATE_BREAK
#endif
#ifdef HAVE_NOT_IDLE_RENAMED
#define NOT_IDLE __CPU_NOT_IDLE
#else
#define NOT_IDLE CPU_NOT_IDLE
#endif
static void select(const struct img_fleet *f, struct img_fleet_answer *a)
{
	struct task_struct *p = img_fleet_tasks[f->about];
	bool idle = is_idle_task(current);

	/* An idle CPU wakes by an interrupt. */
	if (idle)
		preempt_count_add(HARDIRQ_OFFSET);
#ifdef HAVE_SELECT_BY_FLAGS
	a->cpu = select_task_rq_fair(p, task_cpu(p), WF_TTWU | (f->sync ? WF_SYNC : 0));
#else
	a->cpu = select_task_rq_fair(p, task_cpu(p), SD_BALANCE_WAKE, f->sync ? WF_SYNC : 0);
#endif
	if (idle)
		preempt_count_sub(HARDIRQ_OFFSET);
}

/* The slow path: `about` is new, or the CPU's current task. */
static void by_slow_path(const struct img_fleet *f, struct img_fleet_answer *a, int sd_flag, int wake_flag)
{
	struct task_struct *p = img_fleet_tasks[f->about];

#ifdef HAVE_SELECT_BY_FLAGS
	a->cpu = select_task_rq_fair(p, task_cpu(p), wake_flag);
#else
	a->cpu = select_task_rq_fair(p, task_cpu(p), sd_flag, 0);
#endif
}

static void forked(const struct img_fleet *f, struct img_fleet_answer *a)
{
	img_fleet_tasks[f->about]->se.avg.last_update_time = 0;
	by_slow_path(f, a, SD_BALANCE_FORK, WF_FORK);
}

static void begins_program(const struct img_fleet *f, struct img_fleet_answer *a)
{
#ifdef HAVE_SELECT_BY_FLAGS
	by_slow_path(f, a, SD_BALANCE_EXEC, WF_EXEC);
#else
	by_slow_path(f, a, SD_BALANCE_EXEC, 0);
#endif
}

/* The state in which a pass over this domain begins. */
static struct lb_env env_of(const struct img_fleet *f)
{
	struct sched_domain *sd = img_fleet_domain(f, f->level);
	struct cpumask *cpus = this_cpu_cpumask_var_ptr(load_balance_mask);
	struct lb_env env = {
		.sd = sd, .dst_cpu = f->cpu, .dst_rq = cpu_rq(f->cpu), .dst_grpmask = group_balance_mask(sd->groups),
		.idle = f->idle == 2 ? CPU_NEWLY_IDLE : f->idle ? NOT_IDLE : CPU_IDLE,
		.loop_break = FIRST_BREAK, .cpus = cpus, .fbq_type = all,
	};

	cpumask_and(cpus, sched_domain_span(sd), cpu_active_mask);
	return env;
}

static void busiest(const struct img_fleet *f, struct img_fleet_answer *a)
{
	struct lb_env env = env_of(f);
	struct sched_group *sg = find_busiest_group(&env);

	if (!sg)
		return;
	a->group = cpumask_first(sched_group_span(sg));
	a->migration = env.migration_type;
	a->imbalance = env.imbalance;
}

static void detach(const struct img_fleet *f, struct img_fleet_answer *a)
{
	struct lb_env env = env_of(f);
	struct task_struct *p;
	struct rq_flags rf;
	unsigned int i;

	INIT_LIST_HEAD(&env.tasks);
	env.src_cpu = f->src;
	env.src_rq = cpu_rq(f->src);
	env.migration_type = f->migration;
	env.imbalance = f->imbalance;
	env.flags = LBF_ALL_PINNED;
	env.loop_max = min(sysctl_sched_nr_migrate, env.src_rq->nr_running);
	rq_lock_irqsave(env.src_rq, &rf);
	update_rq_clock(env.src_rq);
	do {
		env.flags &= ~LBF_NEED_BREAK;
		detach_tasks(&env);
	} while (env.flags & LBF_NEED_BREAK);
	rq_unlock_irqrestore(env.src_rq, &rf);
	/* The list has the first one that left at its end. */
	list_for_each_entry_reverse(p, &env.tasks, se.group_node)
		for (i = 0; i < f->nr_tasks; i++)
			if (p == img_fleet_tasks[i])
				a->moved[a->nr_moved++] = i;
	a->imbalance = env.imbalance;
}

static void newidle(const struct img_fleet *f, struct img_fleet_answer *a)
{
	struct rq *rq = cpu_rq(f->cpu);
	struct sched_domain *sd;
	unsigned int i = 0, before[8] = { };
	struct rq_flags rf;

	for_each_domain(f->cpu, sd)
		before[min(i++, 7U)] = sd->lb_count[CPU_NEWLY_IDLE];
	rq_lock(rq, &rf);
	update_rq_clock(rq);
	sched_balance_newidle(rq, &rf);
	rq_unlock(rq, &rf);
	i = 0;
	for_each_domain(f->cpu, sd) {
		a->levels |= (sd->lb_count[CPU_NEWLY_IDLE] != before[min(i, 7U)]) << min(i, 7U);
		i++;
	}
	for (i = 0; i < f->nr_tasks; i++)
		if (f->tasks[i].cpu != f->cpu && task_cpu(img_fleet_tasks[i]) == f->cpu)
			a->moved[a->nr_moved++] = i;
}

static void shares(const struct img_fleet *f, struct img_fleet_answer *a)
{
	struct cfs_rq *cfs_rq = tg_cfs_rq(img_fleet_group, f->cpu);
	struct sched_entity *se = tg_se(img_fleet_group, f->cpu);

	img_fleet_group->shares = scale_load(f->shares);
	atomic_long_set(&img_fleet_group->load_avg, f->group_load);
#ifdef HAVE_TG_RUNNABLE
	atomic_long_set(&img_fleet_group->runnable_avg, f->group_runnable);
#endif
	cfs_rq->load.weight = scale_load(f->load_weight);
	cfs_rq->avg.load_avg = f->load_avg;
	cfs_rq->tg_load_avg_contrib = f->contribution;
	update_cfs_group(se);
	a->weight = se->load.weight;
}

struct sched_domain *img_fleet_domain(const struct img_fleet *f, unsigned int level)
{
	struct sched_domain *sd = rcu_dereference(cpu_rq(f->cpu)->sd);

	while (sd && level--)
		sd = sd->parent;
	return sd;
}

/* The capacity that real-time tasks leave of CPUs and groups, the lowest domains first. */
void img_fleet_capacities(void)
{
	struct sched_domain *sd;
	unsigned int level;
	bool more = true;
	int cpu;

	for (level = 0; more; level++) {
		more = false;
		for_each_possible_cpu(cpu) {
			unsigned int below = level;

			for (sd = rcu_dereference(cpu_rq(cpu)->sd); sd && below; sd = sd->parent)
				below--;
			if (!sd)
				continue;
			more = true;
			update_group_capacity(sd, cpu);
		}
	}
}

int img_ask_fleet(const struct img_fleet *f, struct img_fleet_answer *a)
{
	static void (*const asks[])(const struct img_fleet *f, struct img_fleet_answer *a) = {
		select, busiest, detach, newidle, shares, forked, begins_program,
	};
	static bool prepared;
	int failed;

	if (f->nr_cpus != nr_cpu_ids || f->nr_cpus > BITS_PER_LONG || f->cpu >= nr_cpu_ids || f->src >= nr_cpu_ids ||
	    f->nr_tasks > IMG_FLEET_TASKS || f->about >= IMG_FLEET_TASKS || f->function >= ARRAY_SIZE(asks) ||
	    img_cpu || !is_idle_task(current))
		return -EINVAL;
	failed = prepared ? 0 : img_fleet_prepare();
	if (failed)
		return failed;
	if (!prepared)
		img_fleet_keep(&nohz, sizeof(nohz));
	prepared = true;
	if (!img_fleet_domain(f, f->level))
		return -EINVAL;
	*a = (struct img_fleet_answer){ .cpu = -1, .group = -1 };
	img_fleet_build(f);
	asks[f->function](f, a);
	img_fleet_rest(f->nr_tasks);
	img_clear();
	img_settle();
	return 0;
}
