// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parts that the tasks of a process share: its thread group, with the session for autogroup, and its address space.
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

/* The scheduler's parts of mm_init() and of __mmdrop(). */
static void space_init(struct mm_struct *mm)
{
#ifdef HAVE_MM_ALLOC_SCHED
	if (mm_alloc_sched(mm))
		img_fatal("an address space can't be made");
#endif
}
static void space_exit(struct mm_struct *mm)
{
#ifdef HAVE_MM_ALLOC_SCHED
	mm_destroy_sched(mm);
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

/*
 * Walks over processes, threads and children find those of the workload. The kernel's own tasks are on no list: they
 * have no process.
 */
__cacheline_aligned DEFINE_RWLOCK(tasklist_lock);

void img_list_task(struct task_struct *p, struct task_struct *parent)
{
	bool is_leader = p->group_leader == p;

	p->real_parent = p->parent = is_leader ? parent : parent->real_parent;
	list_add_tail(&p->thread_node, &p->signal->thread_head);
	p->signal->nr_threads++;
	if (!is_leader)
		return;
	list_add_tail(&p->sibling, &p->real_parent->children);
	list_add_tail(&p->tasks, &init_task.tasks);
}

void img_unlist_task(struct task_struct *p)
{
	struct task_struct *child;

	list_for_each_entry(child, &p->children, sibling)
		child->real_parent = child->parent = &init_task;
	list_splice_tail_init(&p->children, &init_task.children);
	list_del_init(&p->thread_node);
	p->signal->nr_threads--;
	list_del_init(&p->sibling);
	list_del_init(&p->tasks);
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

/* An address space: how many tasks have it, and the kernel's data about it, followed by bits by CPU. */
struct space {
	unsigned int tasks;
	struct mm_struct mm;
};
/* By number. They have no pages; kernel/sched compares and counts them. */
static struct space **spaces;
static unsigned int space_room;

static struct space *space_of(unsigned int number)
{
	struct space *space;

	if (number >= space_room) {
		unsigned int larger = max(2 * number, 1024U);

		spaces = img_grown(spaces, space_room, larger);
		space_room = larger;
	}
	if (spaces[number])
		return spaces[number];
	space = img_alloc(sizeof(*space) + 4 * cpumask_size());
	atomic_set(&space->mm.mm_users, 1 << 30);
	atomic_set(&space->mm.mm_count, 1 << 30);
	spin_lock_init(&space->mm.page_table_lock);
	spaces[number] = space;
	return space;
}

/* One more task has this space. */
struct mm_struct *img_space_join(unsigned int number)
{
	struct space *space = space_of(number);

	if (!space->tasks++)
		space_init(&space->mm);
	return &space->mm;
}

/* A task that had it has left, and no longer runs. */
void img_space_leave(struct mm_struct *mm)
{
	struct space *space = container_of(mm, struct space, mm);

	if (!--space->tasks)
		space_exit(mm);
}
