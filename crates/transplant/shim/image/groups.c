// SPDX-License-Identifier: GPL-2.0-only
/*
 * Task groups. Stands for kernel/cgroup: the scheduler's controller is called as cgroup.c calls it, and its files are
 * found by name. For writing, names of cgroup v2 come before those of v1; for reading the other way round, since v1
 * shows ns.
 */
#include "image.h"
#include <linux/cgroup.h>
#include <linux/kernfs.h>
#include <linux/seq_file.h>

#ifdef CONFIG_CGROUP_SCHED
struct group {
	struct cgroup_subsys_state *css;
	struct css_set set;
	struct cgroup *cgroup;
};
#define MOST_GROUPS 65536
#define MOST_LEVELS 64
static struct group *groups[MOST_GROUPS];
static int number;
static struct cgroup_subsys_state *written;	/* the group whose file is being written or read */

struct static_key_true cpu_cgrp_subsys_on_dfl_key = STATIC_KEY_TRUE_INIT;

static struct group *group_of(int n)
{
	if (n < 0 || n >= number || !groups[n])
		img_fatal("a verb names a task group that is not there");
	return groups[n];
}

struct css_set *img_css_set(int n)
{
	return &group_of(n)->set;
}

static struct cgroup *cgroup_new(void)
{
#ifdef CONFIG_SCHED_CLASS_EXT
	if (!number)
		return &cgrp_dfl_root.cgrp;
#endif
	return img_alloc(sizeof(struct cgroup) + MOST_LEVELS * sizeof(void *));
}

static struct group *group_new(struct cgroup_subsys_state *parent)
{
	struct cgroup_subsys_state *css = cpu_cgrp_subsys.css_alloc(parent);
	struct group *group = img_alloc(sizeof(*group));
	struct cgroup *cgroup = cgroup_new();

	if (IS_ERR(css))
		return NULL;
	group->css = css;
	group->cgroup = cgroup;
	css->cgroup = cgroup;
	css->ss = &cpu_cgrp_subsys;
	css->parent = parent;
	css->id = number + 1;
	cgroup->self.cgroup = cgroup;
	RCU_INIT_POINTER(cgroup->subsys[cpu_cgrp_id], css);
#ifdef CONFIG_SCHED_CLASS_EXT
	img_cgroup_join(cgroup, css, number + 1);
#endif
	group->set.subsys[cpu_cgrp_id] = css;
	group->set.dfl_cgrp = cgroup;
	groups[number++] = group;
	return group;
}

/* Before sched_init(). */
void img_groups_init(void)
{
	cpu_cgrp_subsys.id = cpu_cgrp_id;
	if (!group_new(NULL))
		img_fatal("the root group can't be made");
	rcu_assign_pointer(init_task.cgroups, img_css_set(0));
}

/* The root group, too, goes online, but after sched_init(); other classes than ext have nothing to do for it. */
void img_groups_online(void)
{
#ifdef CONFIG_SCHED_CLASS_EXT
	cpu_cgrp_subsys.css_online(group_of(0)->css);
#endif
}

int img_group_new(int parent)
{
	struct group *group;

	if (number == MOST_GROUPS || group_of(parent)->cgroup->level + 1 == MOST_LEVELS)
		return -ENOSPC;
	group = group_new(group_of(parent)->css);
	if (!group)
		return -ENOMEM;
	if (cpu_cgrp_subsys.css_online && cpu_cgrp_subsys.css_online(group->css))
		return -EINVAL;
	group->css->flags |= CSS_ONLINE;
	img_trace_mkdir(group->cgroup);
	img_settle();
	return number - 1;
}

struct cgroup_subsys_state *of_css(struct kernfs_open_file *of)
{
	return written;
}

static struct cftype *file_named(struct cftype *files, const char *name)
{
	for (; files && files->name[0]; files++)
		if (!strcmp(files->name, name))
			return files;
	return NULL;
}

static int write(struct group *group, struct cftype *file, const char *value)
{
	struct kernfs_open_file of = { };
	char text[64];
	u64 number;
	s64 integer;
	ssize_t done;

	strscpy(text, value, sizeof(text));
	written = group->css;
	if (file->write) {
		done = file->write(&of, text, strlen(text), 0);
		return done < 0 ? done : 0;
	}
	if (file->write_u64)
		return kstrtou64(text, 0, &number) ?: file->write_u64(group->css, file, number);
	if (file->write_s64)
		return kstrtos64(text, 0, &integer) ?: file->write_s64(group->css, file, integer);
	return -EPERM;
}

int img_group_write(int n, const char *name, const char *value)
{
	struct group *group = group_of(n);
	struct cftype *file;
	int failed;

	if (!strncmp(name, "cpu.", 4))
		name += 4;
	file = file_named(cpu_cgrp_subsys.dfl_cftypes, name) ?: file_named(cpu_cgrp_subsys.legacy_cftypes, name);
	if (!file)
		return -ENOENT;
	failed = write(group, file, value);
	img_settle();
	return failed;
}

/* A file's text, as its reader gets it. */
int img_group_read(int n, const char *name, char *text, int size)
{
	struct group *group = group_of(n);
	struct seq_file out = { .buf = text, .size = size };
	struct cftype *file;

	if (!strncmp(name, "cpu.", 4))
		name += 4;
	file = file_named(cpu_cgrp_subsys.legacy_cftypes, name) ?: file_named(cpu_cgrp_subsys.dfl_cftypes, name);
	if (!file)
		return -ENOENT;
	written = group->css;
	if (file->seq_show)
		file->seq_show(&out, NULL);
	else if (file->read_u64)
		seq_printf(&out, "%llu\n", file->read_u64(group->css, file));
	else if (file->read_s64)
		seq_printf(&out, "%lld\n", file->read_s64(group->css, file));
	else
		return -EPERM;
	return out.count < size ? out.count : 2 * size;
}

/* A group's queues were a table by CPU before they were per-CPU data. */
#ifndef HAVE_TG_CFS_RQ
#define tg_cfs_rq(tg, cpu) ((tg)->cfs_rq[cpu])
#endif

/* The kernel counts a CPU's throttling when that ends. */
unsigned long long img_group_throttled(int n)
{
	unsigned long long sum = 0;
#ifdef CONFIG_CFS_BANDWIDTH
	struct task_group *tg = container_of(group_of(n)->css, struct task_group, css);
	int cpu;

	if (!n)
		return 0;
	for_each_possible_cpu(cpu) {
		struct cfs_rq *queue = tg_cfs_rq(tg, cpu);

		if (queue->throttled && queue->throttled_clock && queue->throttled_clock < img_now)
			sum += img_now - queue->throttled_clock;
	}
#endif
	return sum;
}

/* A set of one task for the controller's attach(). */
struct cgroup_taskset {
	struct task_struct *task;
	bool given;
	struct cgroup_subsys_state *css;
};
struct task_struct *cgroup_taskset_first(struct cgroup_taskset *set, struct cgroup_subsys_state **css)
{
	*css = set->css;
	return set->task;
}
struct task_struct *cgroup_taskset_next(struct cgroup_taskset *set, struct cgroup_subsys_state **css)
{
	return NULL;
}

int img_group_move(int pid, int n)
{
	struct group *group = group_of(n);
	struct cgroup_taskset set = { .task = img_task_by_pid(pid), .css = group->css };
	struct css_set *from = rcu_dereference_raw(set.task->cgroups);
	int failed;

	/* Whoever is asked may look where the task goes. */
	from->mg_dst_cset = &group->set;
	failed = cpu_cgrp_subsys.can_attach ? cpu_cgrp_subsys.can_attach(&set) : 0;
	from->mg_dst_cset = NULL;
	if (failed)
		return failed;
	rcu_assign_pointer(set.task->cgroups, &group->set);
	cpu_cgrp_subsys.attach(&set);
	img_trace_attach(group->cgroup, set.task);
	img_settle();
	return 0;
}
#else
#error "an image needs CONFIG_CGROUP_SCHED"
#endif
