// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tasks: made, looked up, changed. Stands for kernel/fork.c and kernel/pid.c.
 *
 * A task is a copy of its parent, or of init_task as it was before the boot, and then goes through the steps of fork
 * that belong to the scheduler.
 */
#include "image.h"
#include <linux/sched/autogroup.h>
#include <linux/sched/cputime.h>
#include <linux/sched/mm.h>
#include <uapi/linux/sched/types.h>

static struct task_struct pristine;	/* init_task before the boot */
static struct task_struct **by_pid;
static int pids = 1, room;

struct task_struct *img_task_by_pid(int pid)
{
	if (pid <= 0 || pid >= pids || !by_pid[pid])
		img_fatal("a verb names a task that is not there");
	return by_pid[pid];
}

/* The first number without a task; a lower number may belong to a task that could not be made. */
int img_pids(void)
{
	return pids;
}
struct task_struct *img_task_or_null(int pid)
{
	return by_pid[pid];
}

int img_pid_new(struct task_struct *p)
{
	if (pids >= room) {
		int larger = room ? 2 * room : 4096;

		by_pid = img_grown(by_pid, room, larger);
		room = larger;
	}
	by_pid[pids] = p;
	p->pid = p->tgid = pids;
	return pids++;
}

/* Before sched_init(), which makes init_task an idle task, and after it: only then it gets the weight of nice 0. */
void img_tasks_init(void)
{
	memcpy(&pristine, &init_task, sizeof(pristine));
}
void img_tasks_weigh(void)
{
	pristine.se.load = init_task.se.load;
}

static struct task_struct *copy_of(struct task_struct *from)
{
	struct img_task *new = img_alloc(sizeof(*new));
	struct task_struct *p = &new->task;

	memcpy(p, from, sizeof(*p));
	p->cpus_ptr = &p->cpus_mask;
	raw_spin_lock_init(&p->pi_lock);
	INIT_LIST_HEAD(&p->tasks);
	INIT_LIST_HEAD(&p->children);
	INIT_LIST_HEAD(&p->sibling);
	INIT_LIST_HEAD(&p->thread_node);
	p->rcu_users = (refcount_t)REFCOUNT_INIT(2);
	p->usage = (refcount_t)REFCOUNT_INIT(2);
	p->task_works = NULL;
	p->exit_state = 0;
	p->thread.parked = NULL;
	p->utime = p->stime = p->gtime = 0;
	p->nvcsw = p->nivcsw = 0;
	memset(&p->sched_info, 0, sizeof(p->sched_info));
	return p;
}

/*
 * sched_fork() and later steps of copy_process(). A task that does not inherit is not current's child: its parent is
 * ordinary.
 */
static int forked(struct task_struct *p, int group, bool inherits)
{
	struct kernel_clone_args args = { };
	struct task_struct *caller = current;
	int failed;

	img_current = inherits ? caller : &pristine;
	failed = sched_fork(0, p);
	img_current = caller;
	if (failed)
		return failed;
#ifdef HAVE_SCHED_CACHE_FORK
	/* copy_mm() */
	if (p->mm)
		sched_cache_fork(p);
#endif
#ifdef CONFIG_CGROUP_SCHED
	args.cset = img_css_set(group);
	rcu_assign_pointer(p->cgroups, args.cset);
#endif
#if defined(HAVE_CGROUP_FORK_INT)
	failed = sched_cgroup_fork(p, &args);
	if (failed)
		return failed;
	sched_post_fork(p);
#elif defined(HAVE_CGROUP_FORK)
	sched_cgroup_fork(p, &args);
	sched_post_fork(p);
#elif defined(HAVE_POST_FORK_ARGS)
	sched_post_fork(p, &args);
#else
	sched_post_fork(p);
#endif
	/* cgroup_post_fork() calls the controller, which puts the task's entity into its group. */
	if (cpu_cgrp_subsys.fork)
		cpu_cgrp_subsys.fork(p);
	return 0;
}

static int attributes(struct task_struct *p, const struct img_attr *attr)
{
	struct sched_attr to = {
		.size = sizeof(to),
		.sched_policy = attr->policy,
		.sched_nice = attr->nice,
		.sched_priority = attr->rt_priority,
		.sched_flags = attr->flags,
		.sched_runtime = attr->runtime_ns,
		.sched_deadline = attr->deadline_ns,
		.sched_period = attr->period_ns,
	};

	/* Checks that all users' tasks must pass, for example for a deadline task's CPUs. */
	if (dl_policy(attr->policy))
		return sched_setattr(p, &to);
	return sched_setattr_nocheck(p, &to);
}

static void named(struct task_struct *p, const char *name)
{
	strscpy(p->comm, name, sizeof(p->comm));
}

/*
 * As if the forking task had them. A task that was not woken yet has no part in the averages of a runqueue, from which
 * a new weight would take its load.
 */
static int born_with(struct task_struct *p, const struct img_attr *attr)
{
	int failed;

	memset(&p->se.avg, 0, sizeof(p->se.avg));
	failed = attributes(p, attr);
	init_entity_runnable_average(&p->se);
	return failed;
}

int img_task_new(const struct img_new_task *task)
{
	bool inherits = task->inherits && !is_idle_task(current);
	struct task_struct *p = copy_of(inherits ? current : &pristine);
	int pid = img_pid_new(p), failed;
	struct img_note *note;

	if (task->tgid < 0 || task->tgid > pid)
		return -EINVAL;
	p->tgid = task->tgid ?: pid;
	p->group_leader = task->tgid ? img_task_by_pid(task->tgid) : p;
	/* The forking task hands its session's autogroup on. */
	if (task->session_of)
		img_current = img_task_by_pid(task->session_of);
	p->signal = img_signals_of(p->tgid);
	img_current = img_currents[img_cpu];
	p->mm = p->active_mm = task->mm ? img_space_join(task->mm) : NULL;
	named(p, task->name);
	p->flags = task->mm ? PF_FORKNOEXEC : PF_KTHREAD;
	p->timer_slack_ns = p->default_timer_slack_ns = task->slack_ns;
	if (!inherits) {
		if (task->allowed)
			bitmap_copy(cpumask_bits(&p->cpus_mask), task->allowed, nr_cpu_ids);
		else
			cpumask_copy(&p->cpus_mask, cpu_possible_mask);
		p->nr_cpus_allowed = cpumask_weight(&p->cpus_mask);
	}
	failed = forked(p, task->group, inherits);
	if (!failed && !inherits)
		failed = born_with(p, &task->attr);
	if (failed) {
		by_pid[pid] = NULL;
#ifdef HAVE_SCHED_CACHE_FORK
		sched_cache_fork_cleanup(p);
#endif
		if (p->mm)
			img_space_leave(p->mm);
		return failed;
	}
	img_list_task(p, inherits ? current : &init_task);
	note = img_note(IMG_FORK, img_cpu);
	note->pid = pid;
	note->other = current->pid;
	img_trace_fork(current, p);
	img_settle();
	return pid;
}

void img_task_start(int pid)
{
	wake_up_new_task(img_task_by_pid(pid));
	img_settle();
}

/* A kernel thread of a CPU, or with -1 of all CPUs. It is not woken. */
struct task_struct *img_kthread_new(const char *name, int cpu)
{
	struct task_struct *p = copy_of(&pristine);

	img_pid_new(p);
	named(p, name);
	p->group_leader = p;
	p->flags = PF_KTHREAD | (cpu < 0 ? 0 : PF_NO_SETAFFINITY);
	cpumask_copy(&p->cpus_mask, cpu < 0 ? cpu_possible_mask : cpumask_of(cpu));
	p->nr_cpus_allowed = cpumask_weight(&p->cpus_mask);
	if (forked(p, 0, false))
		img_fatal("a kernel thread can't be made");
	return p;
}

struct task_struct *img_idle_new(int cpu)
{
	struct task_struct *p = copy_of(&pristine);

	p->pid = p->tgid = 0;
	init_idle(p, cpu);
	return p;
}

/* A current task that is on no queue and never runs. */
struct task_struct *img_outsider_new(void)
{
	struct task_struct *p = copy_of(&pristine);

	p->pid = p->tgid = 0;
	p->on_rq = 0;
	return p;
}

int img_set_attr(int pid, const struct img_attr *attr)
{
	int failed = attributes(img_task_by_pid(pid), attr);

	img_settle();
	return failed;
}

struct affinity {
	struct task_struct *task;
	struct cpumask mask;
	int result;
};
static void set_affinity(void *argument)
{
	struct affinity *of = argument;

	/* sched_setaffinity(): admission counts all CPUs of a deadline task. */
	if (task_has_dl_policy(of->task) && dl_bandwidth_enabled() &&
	    !cpumask_subset(task_rq(of->task)->rd->span, &of->mask))
		of->result = -EBUSY;
	else
		of->result = set_cpus_allowed_ptr(of->task, &of->mask);
}
static struct affinity *affinity_of(int pid, const unsigned long *allowed)
{
	struct affinity *of = img_alloc(sizeof(*of));

	of->task = img_task_by_pid(pid);
	bitmap_copy(cpumask_bits(&of->mask), allowed, nr_cpu_ids);
	return of;
}
/* Sleeps if the task runs on a CPU that it must leave. Then the result is 0, and the caller's call is parked. */
int img_set_affinity(int pid, const unsigned long *allowed)
{
	struct affinity *of = affinity_of(pid, allowed);

	img_on_stack(set_affinity, of);
	img_settle();
	return of->result;
}
int img_confine(int pid, const unsigned long *allowed)
{
	struct affinity *of = affinity_of(pid, allowed);

	img_outside(set_affinity, of);
	img_settle();
	return of->result;
}
