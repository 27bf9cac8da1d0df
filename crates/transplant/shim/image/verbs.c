// SPDX-License-Identifier: GPL-2.0-only
/*
 * The acts of the current task, and the view of its CPU. Stands for the ends of system calls, kernel/time/hrtimer.c's
 * nanosleep and kernel/exit.c.
 *
 * A verb executes its part of kernel code to the end, which is mostly schedule(); where CPUs are woven it may be left
 * earlier (weave.c). img_settle() has the steps that follow every such part in a kernel.
 */
#include "image.h"
#include <linux/interrupt.h>
#include <linux/sched/autogroup.h>
#include <linux/task_work.h>

struct img_view img_view;

static unsigned int flags_of(struct task_struct *p)
{
	unsigned int flags = 0;

	if (need_resched())
		flags |= IMG_V_RESCHED;
	if (test_thread_flag(TIF_NEED_RESCHED_LAZY))
		flags |= IMG_V_LAZY;
	if (is_idle_task(p))
		return flags | IMG_V_IDLE;
	if ((p->flags & PF_KTHREAD) && img_task_of(p)->thread)
		flags |= p->sched_class == &stop_sched_class ? IMG_V_STOPPER : IMG_V_KSOFTIRQD;
	if (p->task_works)
		flags |= IMG_V_USER_WORK;
	if (p->thread.parked)
		flags |= IMG_V_PARKED;
	return flags;
}

void img_settle_balanced(void)
{
	img_balance_notes();
	img_settle();
}

/* An idle task is known by its flags; nobody else reads the cache line of its pid. */
static void look_at(struct task_struct *p)
{
	img_view.current = is_idle_task(p) ? 0 : p->pid;
	img_view.flags = flags_of(p);
}

void img_settle(void)
{
	img_retire();
	if (!img_anyone_left()) {
		img_rcu_run();
		img_ext_settle();
	}
	if (img_outside_waits())
		img_outside_continue();
	img_audit_verb();
	preempt_count_set(is_idle_task(current) ? PREEMPT_DISABLED : PREEMPT_ENABLED);
	look_at(current);
}

/* The view shows the present state. */
void img_look(void)
{
	look_at(current);
}

void img_turn_to(int cpu)
{
	img_go(cpu);
	img_verb = -1;
	/* The cost of a look at the kernel belongs to nobody. */
	if (IS_ENABLED(CONFIG_SIM_COUNTED))
		img_take_charge_ns();
}

const struct img_view *img_enter(int cpu)
{
	img_turn_to(cpu);
	look_at(current);
	return &img_view;
}

/*
 * The way out of an interrupt, if kernel code may be preempted; else the way to user mode, or the schedule() of a call.
 * A task that is about to sleep is treated as sleeping: if it were preempted, it would have to return to its own
 * schedule().
 */
static void preempted(void)
{
#ifdef CONFIG_PREEMPTION
	if (need_resched() && READ_ONCE(current->__state) == TASK_RUNNING) {
		local_irq_disable();
		preempt_schedule_irq();
		local_irq_enable();
		return;
	}
#endif
	schedule();
}

void img_schedule(void)
{
	struct task_struct *was = current;
	unsigned long left = img_times_left;

	preempted();
	/* The same was picked again: no event says so. Its queue is as it was, if nobody else has acted. */
	if (current == was && left == img_times_left)
		img_picked(was, was);
	img_settle_balanced();
}

/* The two halves of a sleep before schedule(), between which the engine lets time pass. */
void img_prepare_sleep(int uninterruptible)
{
	img_task_of(current)->sleeps++;
	img_task_of(current)->timed = false;
	set_current_state(uninterruptible ? TASK_UNINTERRUPTIBLE : TASK_INTERRUPTIBLE);
	img_settle();
}

void img_start_timer(unsigned long long until, unsigned long long slack_ns)
{
	struct hrtimer_sleeper *sleeper = &img_task_of(current)->sleeper;

#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup_sleeper_on_stack(sleeper, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init_sleeper(sleeper, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#endif
	sleeper->task = current;
	img_task_of(current)->timed = true;
	hrtimer_set_expires_range_ns(&sleeper->timer, until, slack_ns);
	hrtimer_sleeper_start_expires(sleeper, HRTIMER_MODE_ABS);
	img_settle();
}

void img_set_timer(int pid, unsigned long long until, unsigned long long slack_ns)
{
	struct hrtimer *timer = &img_task_of(img_task_by_pid(pid))->sleeper.timer;

	hrtimer_start_range_ns(timer, until, slack_ns, HRTIMER_MODE_ABS_PINNED);
	img_settle();
}

int img_timed_out(int pid)
{
	struct task_struct *p = img_task_by_pid(pid);
	struct hrtimer_sleeper *sleeper = &img_task_of(p)->sleeper;
	int fired = !sleeper->task;

	if (!fired && sleeper->timer.base)
		hrtimer_cancel(&sleeper->timer);
	sleeper->task = NULL;
	img_task_of(p)->timed = false;
	img_settle();
	return fired;
}

void img_yield_now(void)
{
	yield();
	img_settle_balanced();
}

void img_exit(void)
{
	struct task_struct *p = current;

	if (img_task_of(p)->sleeper.task)
		hrtimer_cancel(&img_task_of(p)->sleeper.timer);
	p->flags |= PF_EXITING;
#ifdef HAVE_SCHED_CACHE_FORK
	/* exit_mm() */
	if (p->mm)
		sched_cache_exit_mm(p);
#endif
	sched_autogroup_exit_task(p);
	img_trace_exit(p);
	img_unlist_task(p);
	p->exit_state = EXIT_DEAD;
	img_note(IMG_EXIT, img_cpu)->pid = p->pid;
	set_special_state(TASK_DEAD);
	p->flags |= PF_NOFREEZE;
	schedule();
	img_trace_free(p);
	if (p->mm)
		img_space_leave(p->mm);
	img_settle_balanced();
}

static void exec(void *unused)
{
	sched_exec();
}
void img_exec(void)
{
	img_on_stack(exec, NULL);
	img_settle_balanced();
}

void img_user_work(void)
{
	struct callback_head *work = current->task_works;

	while (work) {
		current->task_works = work->next;
		work->func(work);
		work = current->task_works;
	}
	img_settle();
}
/* Work for a task on its way to user mode. */
int task_work_add(struct task_struct *task, struct callback_head *work, enum task_work_notify_mode mode)
{
	work->next = task->task_works;
	task->task_works = work;
	return 0;
}

int img_single_task(void)
{
	return single_task_running();
}

int img_wake_task(struct task_struct *p, int flags)
{
	wait_queue_entry_t entry = { .private = p };
	bool asleep = READ_ONCE(p->__state) & TASK_NORMAL;
	unsigned long sleeps = img_task_of(p)->sleeps;
	int woken = default_wake_function(&entry, TASK_NORMAL, flags, NULL);

	if (asleep)
		img_audit_woken(p, sleeps, woken);
	return woken;
}
int img_wake(int pid, int sync)
{
	int woken = img_wake_task(img_task_by_pid(pid), sync ? WF_SYNC : 0);

	img_settle();
	return woken;
}

/* As in schedule() and try_to_wake_up(), but by another task: the task itself has not run yet. */
void img_task_slept(int pid)
{
	struct task_struct *p = img_task_by_pid(pid);
	struct rq_flags flags;
	struct rq *rq = task_rq_lock(p, &flags);

	update_rq_clock(rq);
#ifdef DEQUEUE_DELAYED
	if (dequeue_task(rq, p, DEQUEUE_SLEEP | DEQUEUE_NOCLOCK))
		enqueue_task(rq, p, ENQUEUE_WAKEUP | ENQUEUE_NOCLOCK);
	else
		enqueue_task(rq, p, ENQUEUE_DELAYED | ENQUEUE_NOCLOCK);
#else
	deactivate_task(rq, p, DEQUEUE_SLEEP | DEQUEUE_NOCLOCK);
	activate_task(rq, p, ENQUEUE_WAKEUP | ENQUEUE_NOCLOCK);
#endif
	task_rq_unlock(rq, p, &flags);
	img_settle();
}
