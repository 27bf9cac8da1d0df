// SPDX-License-Identifier: GPL-2.0-only
/*
 * Notes: the actions of kernel code since the engine's last question. The tree's own tracepoints write most of them.
 */
#include "host.h"
#include "image.h"
#include <linux/interrupt.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

#define FIRST_NOTES 1024
#define MOST_NOTES (2ULL << 20)	/* more in one call are an endless loop, which would fill the memory */
#define DEPTH 24		/* calls that are kept of a warning */
#define MOST_TRACES 256		/* warnings whose calls are kept */

static struct img_note *notes;
static unsigned long long room;

void img_clear(void)
{
	img_view.nr_notes = 0;
	img_choices_forget();
	img_judged_forget();
}

struct img_note *img_note(int kind, unsigned int cpu)
{
	unsigned long long count = img_view.nr_notes;
	struct img_note *note;

	if (count == room) {
		struct img_note *larger;

		if (room >= MOST_NOTES)
			img_fatal("one call of the kernel's code notes millions of events: it is in an endless loop");
		larger = img_alloc((room ? 2 * room : FIRST_NOTES) * sizeof(*larger));

		memcpy(larger, notes, count * sizeof(*larger));
		img_free(notes);
		img_view.notes = notes = larger;
		room = room ? 2 * room : FIRST_NOTES;
	}
	/* Another CPU has to hear this soon: the engine checks when the others act next. */
	if (kind == IMG_IPI_RESCHED || kind == IMG_IPI_CALL || kind == IMG_NO_IPI || kind == IMG_GRANT)
		img_horizon_ps = 0;
	img_view.nr_notes = count + 1;
	note = &notes[count];
	*note = (struct img_note){ .kind = kind, .cpu = cpu, .after_ns = img_charged_ps() / 1000 };
	return note;
}

/* The calls that lead here, innermost first, with a zero after them. */
void **img_calls(void)
{
	static int traces;
	void **all;

	if (traces++ >= MOST_TRACES)
		return NULL;
	all = img_alloc((DEPTH + 1) * sizeof(*all));
	all[host_backtrace(all, DEPTH)] = NULL;
	return all;
}

/* For the engine text lasts until the next verb; here it is never freed, since messages are few. */
void img_say(const char *text, int is_warning)
{
	struct img_note *note = img_note(IMG_PRINTK, img_cpu);
	unsigned long size = strlen(text) + 1;
	char *copy = img_alloc(size);

	memcpy(copy, text, size);
	note->flags = is_warning;
	note->value = (unsigned long)copy;
	note->at = is_warning ? (unsigned long)img_calls() : 0;
}

/* An event. Others whose time has come act before it, so that all events are seen in the order of their times. */
static struct img_note *img_event(int kind, unsigned int cpu)
{
	img_may_leave();
	return img_note(kind, cpu);
}

static bool is_throttled(struct task_struct *p)
{
#if defined(HAVE_TASK_THROTTLED)
	return p->throttled;
#elif defined(CONFIG_CFS_BANDWIDTH)
	return p->sched_class == &fair_sched_class && p->se.cfs_rq->throttle_count;
#else
	return false;
#endif
}

/* prev_state as the tracepoint prints it: bits of TASK_REPORT, 0 for a task that stays runnable. */
static void switched(bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct img_note *note;

	img_picked(prev, next);
	note = img_event(IMG_SWITCH, img_cpu);
	note->pid = prev->pid;
	note->other = next->pid;
	note->flags = preempt | (img_verb == IMG_DO_yield_now ? 2 : 0) | (is_throttled(prev) ? 4 : 0) |
		      (img_ext_slice_over(prev) ? 8 : 0);
	note->value = preempt ? 0 : (READ_ONCE(prev->__state) | prev->exit_state) & TASK_REPORT;
	/* A further note may move this one in memory. */
	if (READ_ONCE(prev->__state) == TASK_RUNNING && !is_idle_task(prev))
		img_audit_queued(prev);
}
#if defined(HAVE_SWITCH_STATE_LAST)
static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
#elif defined(HAVE_SWITCH_STATE_FIRST)
static void on_switch(void *data, bool preempt, unsigned int state, struct task_struct *prev, struct task_struct *next)
#else
static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next)
#endif
{
	switched(preempt, prev, next);
}

static void on_waking(void *data, struct task_struct *p)
{
	struct img_note *note = img_event(IMG_WAKING, task_cpu(p));
	bool interrupt = !in_task();

	note->pid = p->pid;
	note->flags = interrupt;
	note->other = interrupt ? 0 : current->pid;
	note->value = (p->on_rq ? IMG_W_QUEUED : 0) | (p->on_cpu ? IMG_W_ON_CPU : 0) |
		      (p->nr_cpus_allowed == 1 ? IMG_W_PINNED : 0);
}

static void queued(struct task_struct *p, int is_new)
{
	struct img_note *note = img_event(IMG_WAKEUP, task_cpu(p));

	note->pid = p->pid;
	note->flags = is_new | (img_gives_way(task_rq(p)) ? 2 : 0);
	note->value = task_rq(p)->nr_running;
	img_audit_queued(p);
	/* For a new task the kernel asks later. */
	if (!is_new)
		img_audit_preempts(p);
}
static void on_wakeup(void *data, struct task_struct *p)
{
	queued(p, 0);
}
static void on_wakeup_new(void *data, struct task_struct *p)
{
	queued(p, 1);
}

static void on_migrate(void *data, struct task_struct *p, int cpu)
{
	struct img_note *note = img_event(IMG_MIGRATE, cpu);

	note->pid = p->pid;
	note->flags = img_is_ext(p);
	note->value = task_cpu(p);
	img_task_moved = true;
}

static void on_no_ipi(void *data, int cpu)
{
	img_note(IMG_NO_IPI, cpu);
}

void img_notes_init(void)
{
	if (register_trace_sched_switch(on_switch, NULL) || register_trace_sched_waking(on_waking, NULL) ||
	    register_trace_sched_wakeup(on_wakeup, NULL) || register_trace_sched_wakeup_new(on_wakeup_new, NULL) ||
	    register_trace_sched_migrate_task(on_migrate, NULL) ||
	    register_trace_sched_wake_idle_without_ipi(on_no_ipi, NULL))
		img_fatal("a tracepoint of the scheduler takes no probe");
}

/* Signals between CPUs. */
void arch_smp_send_reschedule(int cpu)
{
	img_note(IMG_IPI_RESCHED, cpu);
}
#ifndef smp_send_reschedule
void smp_send_reschedule(int cpu)
{
	img_note(IMG_IPI_RESCHED, cpu);
}
#endif
void arch_send_call_function_single_ipi(int cpu)
{
	img_note(IMG_IPI_CALL, cpu);
}
void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	int cpu;

	for_each_cpu(cpu, mask)
		img_note(IMG_IPI_CALL, cpu);
}
