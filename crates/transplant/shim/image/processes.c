// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the tasks of a process share: its thread group, with the session that autogroup asks for, and its address space.
 * Stands for copy_signal() and copy_mm() of kernel/fork.c, and for kernel/signal.c.
 */
#include "image.h"
#include <linux/sched/autogroup.h>
#include <linux/sched/mm.h>

static struct signal_struct **by_tgid;
static int group_room;

void *img_grown(void *old, int from, int to)
{
	void *larger = img_alloc(to * sizeof(void *));

	if (old)
		memcpy(larger, old, from * sizeof(void *));
	return larger;
}

/* All tasks share init's handlers; kernel/signal.c. */
#ifdef HAVE_LOCK_SIGHAND_INLINE
#define lock_task_sighand __lock_task_sighand
#endif
struct sighand_struct *lock_task_sighand(struct task_struct *p, unsigned long *flags)
{
	spin_lock_irqsave(&p->sighand->siglock, *flags);
	return p->sighand;
}

/* What mm_init() gives the scheduler. */
static void space_init(struct mm_struct *mm)
{
#ifdef HAVE_MM_ALLOC_SCHED
	if (mm_alloc_sched(mm))
		img_fatal("an address space can't be made");
#endif
}

struct signal_struct *img_signals_of(int tgid)
{
	struct signal_struct *new;

	if (tgid >= group_room) {
		int larger = max(2 * tgid, 1024);

		by_tgid = img_grown(by_tgid, group_room, larger);
		group_room = larger;
	}
	if (by_tgid[tgid])
		return by_tgid[tgid];
	new = img_alloc(sizeof(*new));
	sched_autogroup_fork(new);
	seqlock_init(&new->stats_lock);
	INIT_LIST_HEAD(&new->thread_head);
	by_tgid[tgid] = new;
	return new;
}

int img_session_new(int pid)
{
#ifdef CONFIG_SCHED_AUTOGROUP
	sched_autogroup_create_attach(img_task_by_pid(pid));
	img_settle();
	return 0;
#else
	return -ENOSYS;
#endif
}

/* Address spaces by number. Their pages are nobody's; kernel/sched compares and counts them. */
static struct mm_struct **spaces;
static unsigned int space_room;

struct mm_struct *img_space_of(unsigned int number)
{
	struct mm_struct *mm;

	if (number >= space_room) {
		unsigned int larger = max(2 * number, 1024U);

		spaces = img_grown(spaces, space_room, larger);
		space_room = larger;
	}
	if (spaces[number])
		return spaces[number];
	/* Behind the structure are bits by CPU. */
	mm = img_alloc(sizeof(*mm) + 4 * cpumask_size());
	atomic_set(&mm->mm_users, 1 << 30);
	atomic_set(&mm->mm_count, 1 << 30);
	spin_lock_init(&mm->page_table_lock);
	space_init(mm);
	spaces[number] = mm;
	return mm;
}
