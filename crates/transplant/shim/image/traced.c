// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracepoints of what the shims do in place of the kernel: tasks that are born, renamed and end, groups that are made
 * and get tasks. Stands for those of kernel/fork.c, exit.c, cgroup.c and fs/exec.c. Only programs of BPF look at them.
 */
#define CREATE_TRACE_POINTS
#include <trace/events/task.h>
#include <trace/events/cgroup.h>
#undef CREATE_TRACE_POINTS
#include <trace/events/sched.h>
#include <linux/bpf.h>
#include <linux/kernfs.h>
#include "image.h"

/* kernel/bpf/task_iter.c: the type of programs that walk over tasks for user space. Nobody runs them. */
struct bpf_iter__task {
	__bpf_md_ptr(struct bpf_iter_meta *, meta);
	__bpf_md_ptr(struct task_struct *, task);
};
int bpf_iter_task(struct bpf_iter_meta *meta, struct task_struct *task)
{
	struct bpf_iter__task context = { .meta = meta, .task = task };

	return !context.task;
}

/* kernel/cgroup/cpuset.c: nothing here has sets of CPUs. Programs may wait for a write of one, which never happens. */
ssize_t cpuset_write_resmask(struct kernfs_open_file *of, char *buf, size_t nbytes, loff_t off)
{
	return -EOPNOTSUPP;
}

#define PATH_BYTES 24
static const char *path_of(struct cgroup *cgroup)
{
	static char path[PATH_BYTES];

	kernfs_path_from_node(cgroup->kn, NULL, path, sizeof(path));
	return path;
}

/* A new task has its parent's name, and then its own. */
void img_trace_fork(struct task_struct *parent, struct task_struct *p)
{
	trace_sched_process_fork(parent, p);
	if (strcmp(parent->comm, p->comm))
		trace_task_rename(p, p->comm);
}
void img_trace_exit(struct task_struct *p)
{
#ifdef HAVE_EXIT_OF_GROUP
	trace_sched_process_exit(p, p->signal->nr_threads == 1);
#else
	trace_sched_process_exit(p);
#endif
}
void img_trace_free(struct task_struct *p)
{
	trace_sched_process_free(p);
}
void img_trace_mkdir(struct cgroup *cgroup)
{
	trace_cgroup_mkdir(cgroup, path_of(cgroup));
}
void img_trace_attach(struct cgroup *cgroup, struct task_struct *p)
{
	trace_cgroup_attach_task(cgroup, path_of(cgroup), p, false);
}
