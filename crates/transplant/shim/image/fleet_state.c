// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of a machine about which fleet.c asks: built, and taken back. Stands for nothing in the kernel.
 *
 * The class itself puts a state's tasks on their queues; then averages and hints get the state's values. Afterwards
 * runqueues, domains, groups and tasks get the bytes back that they had before. Nothing else may run meanwhile.
 */
#include "fleet.h"
#include "kernel/sched/pelt.h"
#include <linux/cpuidle.h>

/* Time into a period of load averages, the same for all. */
#define INTO_PERIOD 512
#define MOST_PARTS 4096

/* The memory that a state changes, with its bytes at rest. */
static struct part {
	void *at, *rest;
	unsigned long size;
} parts[MOST_PARTS];
static unsigned int nr_parts;
struct task_struct *img_fleet_tasks[IMG_FLEET_TASKS];
struct task_group *img_fleet_group;
#ifdef CONFIG_CPU_IDLE
/* A state for each CPU: its exit latency is read. */
static struct cpuidle_state *idle_states;
#endif

void img_fleet_keep(void *at, unsigned long size)
{
	unsigned int i;

	for (i = 0; i < nr_parts; i++)
		if (parts[i].at == at)
			return;
	if (nr_parts == MOST_PARTS)
		img_fatal("a machine is too large to be asked about");
	parts[nr_parts] = (struct part){ at, img_alloc(size), size };
	memcpy(parts[nr_parts++].rest, at, size);
}

static void keep_cpu(int cpu)
{
	struct sched_domain *sd;
	struct sched_group *sg;

	img_fleet_keep(cpu_rq(cpu), sizeof(struct rq));
	img_fleet_keep(cpu_rq(cpu)->idle, sizeof(struct task_struct));
	img_fleet_keep(tg_cfs_rq(img_fleet_group, cpu), sizeof(struct cfs_rq));
	img_fleet_keep(tg_se(img_fleet_group, cpu), sizeof(struct sched_entity));
	for_each_domain(cpu, sd) {
		img_fleet_keep(sd, sizeof(*sd));
		if (sd->shared)
			img_fleet_keep(sd->shared, sizeof(*sd->shared));
		sg = sd->groups;
		do {
			img_fleet_keep(sg->sgc, sizeof(*sg->sgc));
			sg = sg->next;
		} while (sg != sd->groups);
	}
}

int img_fleet_prepare(void)
{
	struct img_new_task new = { .name = "drawn" };
	int i, cpu, number;

	for (i = 0; i < IMG_FLEET_TASKS; i++) {
		number = img_task_new(&new);
		if (number < 0)
			return number;
		img_fleet_tasks[i] = img_task_by_pid(number);
		img_fleet_tasks[i]->flags &= ~PF_KTHREAD;
		img_fleet_keep(img_fleet_tasks[i], sizeof(struct task_struct));
	}
#ifdef CONFIG_CPU_IDLE
	idle_states = img_alloc(nr_cpu_ids * sizeof(*idle_states));
#endif
	number = img_group_new(0);
	if (number < 0)
		return number;
	img_fleet_group = container_of(img_css_set(number)->subsys[cpu_cgrp_id], struct task_group, css);
#ifdef HAVE_FAIR_SERVER
	/* A fair server would arm its timer, which is not part of the saved bytes. */
	for_each_possible_cpu(cpu) {
		cpu_rq(cpu)->fair_server.dl_server = 1;
		cpu_rq(cpu)->fair_server.dl_runtime = 0;
	}
#endif
	for_each_possible_cpu(cpu)
		keep_cpu(cpu);
	img_fleet_keep(this_rq()->rd, sizeof(struct root_domain));
	img_fleet_keep(img_fleet_group, sizeof(*img_fleet_group));
	img_fleet_keep(&root_task_group, sizeof(root_task_group));
	return 0;
}

void img_fleet_rest(unsigned int nr_tasks)
{
	unsigned int i;
	int cpu;

	/* The tasks come first; only those of this state were changed. */
	for (i = 0; i < nr_parts; i++)
		if (i < nr_tasks || i >= IMG_FLEET_TASKS)
			memcpy(parts[i].at, parts[i].rest, parts[i].size);
	for_each_possible_cpu(cpu) {
		img_currents[cpu] = cpu_rq(cpu)->idle;
		clear_tsk_thread_flag(img_currents[cpu], TIF_NEED_RESCHED);
		clear_tsk_thread_flag(img_currents[cpu], TIF_NEED_RESCHED_LAZY);
	}
	img_go(0);
}

static void average(struct sched_avg *avg, const struct img_averages *to, u64 now, unsigned long weight)
{
	unsigned int est = to->util_est, divider;

	avg->last_update_time = now;
	avg->period_contrib = INTO_PERIOD;
	divider = get_pelt_divider(avg);
	avg->load_avg = to->load;
	avg->runnable_avg = to->runnable;
	avg->util_avg = to->util;
	avg->load_sum = to->load * divider / weight;
	avg->runnable_sum = to->runnable * divider;
	avg->util_sum = to->util * divider;
	memset(&avg->util_est, 0, sizeof(avg->util_est));
	/* Its first word, whatever follows. */
	memcpy(&avg->util_est, &est, sizeof(est));
}

static void attributes(struct task_struct *p, const struct img_fleet_task *t)
{
	int prio = NICE_TO_PRIO(t->nice);
	struct load_weight *load = &p->se.load;

	p->policy = t->policy;
	p->static_prio = p->normal_prio = p->prio = prio;
	load->weight = scale_load(sched_prio_to_weight[prio - MAX_RT_PRIO]);
	load->inv_weight = sched_prio_to_wmult[prio - MAX_RT_PRIO];
	if (idle_policy(t->policy)) {
		load->weight = scale_load(WEIGHT_IDLEPRIO);
		load->inv_weight = WMULT_IDLEPRIO;
	}
#ifdef HAVE_FLAT_WEIGHT
	p->se.h_load = p->se.load;
#endif
	bitmap_zero(cpumask_bits(&p->cpus_mask), nr_cpu_ids);
	cpumask_bits(&p->cpus_mask)[0] = t->allowed;
	p->nr_cpus_allowed = cpumask_weight(&p->cpus_mask);
	p->recent_used_cpu = t->recent_cpu;
	p->wake_cpu = t->cpu;
	p->wakee_flips = t->flips;
	p->wakee_flip_decay_ts = jiffies;
	__set_task_cpu(p, t->cpu);
}

static void is_current(struct rq *rq, struct task_struct *p)
{
	rcu_assign_pointer(rq->curr, p);
#ifdef HAVE_DONOR
	rcu_assign_pointer(rq->donor, p);
#endif
	img_currents[cpu_of(rq)] = p;
	p->on_cpu = 1;
}

/* Gives it its vruntime while it is current: putting it back then sorts it by that. */
static void place(struct rq *rq, struct task_struct *p, long long vruntime)
{
	fair_sched_class.enqueue_task(rq, p, 0);
	p->on_rq = TASK_ON_RQ_QUEUED;
	fair_sched_class.set_next_task(rq, p, false);
	p->se.vruntime = vruntime;
#ifdef HAVE_LAG
	p->se.deadline = vruntime + p->se.slice;
#endif
#ifdef HAVE_PUT_PREV_NEXT
	fair_sched_class.put_prev_task(rq, p, NULL);
#else
	fair_sched_class.put_prev_task(rq, p);
#endif
}

static void queue(struct rq *rq, const struct img_fleet *f)
{
	struct task_struct *runs = NULL;
	unsigned int i;
	int cpu = cpu_of(rq);

	for (i = 0; i < f->nr_tasks; i++) {
		if (f->tasks[i].cpu != cpu)
			continue;
		attributes(img_fleet_tasks[i], &f->tasks[i]);
		if (!(f->tasks[i].flags & IMG_F_ABSENT))
			place(rq, img_fleet_tasks[i], f->tasks[i].vruntime);
		if (f->tasks[i].flags & IMG_F_RUNS)
			runs = img_fleet_tasks[i];
	}
	if (runs && runs->on_rq)
		fair_sched_class.set_next_task(rq, runs, false);
	if (runs)
		is_current(rq, runs);
}

static void hint(struct sched_domain_shared *shared, const struct img_fleet_cpu *c)
{
	shared->has_idle_cores = c->has_idle_cores;
#ifdef HAVE_NR_IDLE_SCAN
	shared->nr_idle_scan = c->nr_idle_scan;
#endif
}

static void build_cpu(int cpu, const struct img_fleet *f)
{
	const struct img_fleet_cpu *c = &f->cpus[cpu];
#ifdef HAVE_BALANCE_SHARED
	struct sched_domain *asym;
#endif
	struct sched_domain_shared *shared = rcu_dereference(per_cpu(sd_llc_shared, cpu));
	struct rq *rq = cpu_rq(cpu);
	struct rq_flags rf;
	unsigned int i;
	u64 now;

	rq_lock(rq, &rf);
	update_rq_clock(rq);
#ifdef HAVE_ZERO_VRUNTIME
	rq->cfs.zero_vruntime = 0;
#else
	rq->cfs.min_vruntime = 0;
#endif
	queue(rq, f);
	now = cfs_rq_clock_pelt(&rq->cfs);
	for (i = 0; i < f->nr_tasks; i++) {
		struct sched_entity *se = &img_fleet_tasks[i]->se;

		if (f->tasks[i].cpu != cpu)
			continue;
		average(&se->avg, &f->tasks[i].avg, now, scale_load_down(se->load.weight));
		se->exec_start = rq_clock_task(rq) - f->tasks[i].ran_ago_ns;
		if (f->tasks[i].flags & IMG_F_NEXT)
			rq->cfs.next = se;
	}
	average(&rq->cfs.avg, &c->avg, now, 1);
	rq->cfs.last_h_load_update = jiffies - 1;
	rq->avg_idle = c->avg_idle;
#ifdef HAVE_WAKE_AVG_IDLE
	rq->wake_avg_idle = c->avg_idle;
#endif
	rq->ttwu_pending = c->wakeup_pending;
	rq->idle_stamp = c->idle_stamp;
#ifdef CONFIG_CPU_IDLE
	idle_states[cpu].exit_latency = c->idle_exit_us;
	idle_set_state(rq, c->idle_exit_us == UINT_MAX ? NULL : &idle_states[cpu]);
#endif
	rq->misfit_task_load = c->misfit;
	rq->avg_rt.last_update_time = rq_clock_pelt(rq);
	rq->avg_rt.util_avg = c->rt_util;
	add_nr_running(rq, c->nr_rt);
	if (shared && cpumask_first(sched_domain_span(rcu_dereference(per_cpu(sd_llc, cpu)))) == cpu)
		hint(shared, c);
#ifdef HAVE_BALANCE_SHARED
	asym = rcu_dereference(per_cpu(sd_asym_cpucapacity, cpu));
	if (asym && asym->shared && cpumask_first(sched_domain_span(asym)) == cpu)
		hint(asym->shared, c);
#endif
	rq_unlock(rq, &rf);
}

void img_fleet_build(const struct img_fleet *f)
{
	struct sched_domain *sd;
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu)
		build_cpu(cpu, f);
	img_fleet_capacities();
	for (i = 0; i < f->nr_levels && (sd = img_fleet_domain(f, i)); i++) {
		sd->nr_balance_failed = f->levels[i].failed;
		sd->max_newidle_lb_cost = f->levels[i].newidle_cost;
		sd->groups->sgc->imbalance = f->levels[i].imbalanced;
	}
#ifdef HAVE_RD_OVERLOADED
	this_rq()->rd->overloaded = f->overload;
#else
	this_rq()->rd->overload = f->overload;
#endif
	img_go(f->cpu);
	/* Its waker has woken this task before. */
	current->last_wakee = img_fleet_tasks[f->about];
}
