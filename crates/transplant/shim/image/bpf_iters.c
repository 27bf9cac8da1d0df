// SPDX-License-Identifier: GPL-2.0-only
/*
 * Walks that programs make over cgroups, tasks and bits. Stands for kernel/bpf/cgroup_iter.c, task_iter.c and the bits
 * of helpers.c. Tasks come in the order of their numbers, which is that of their creation.
 */
struct bpf_iter_css {
	__u64 __opaque[3];
} __aligned(8);
struct css_walk {
	struct cgroup_subsys_state *start, *at;
	unsigned int order;
};

struct bpf_iter_css_task {
	__u64 __opaque[1];
} __aligned(8);
/* These 8 bytes are all of it; a kernel's has more, allocated elsewhere. */
struct css_task_walk {
	u32 group;
	s32 pid;			/* the last one; its complement if only processes are asked for */
};

struct bpf_iter_task {
	__u64 __opaque[3];
} __aligned(8);
struct task_walk {
	struct task_struct *of;
	int pid;
	unsigned int kind;
};
enum { ALL_PROCESSES, ALL_THREADS, THREADS_OF_PROCESS };

struct bpf_iter_bits {
	__u64 __opaque[2];
} __aligned(8);
#define MOST_WORDS 511
struct bits_walk {
	union {
		u64 word;
		struct bits_copy *copy;
	};
	int nr, bit;
};
struct bits_copy {
	struct bits_copy *chain;
	u64 words[MOST_WORDS];
};
static struct bits_copy *unused_bits;

static bool is_leader(const struct task_struct *p)
{
	return !p->tgid || p->pid == p->tgid;
}
/* The next task of a higher number; NULL: none is. */
static struct task_struct *task_behind(int pid)
{
	struct task_struct *p = NULL;

	while (!p && ++pid < img_pids())
		p = img_task_or_null(pid);
	return p;
}

__bpf_kfunc_start_defs();

__bpf_kfunc struct cgroup *bpf_cgroup_from_id(u64 cgid)
{
	return img_cgroup_of(cgid);
}
__bpf_kfunc long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor)
{
	return cgroup_is_descendant(task_dfl_cgroup(task), ancestor);
}
/* Groups are those of the second version alone. */
__bpf_kfunc struct cgroup *bpf_task_get_cgroup1(struct task_struct *task, int hierarchy_id)
{
	return NULL;
}

__bpf_kfunc int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, unsigned int flags)
{
	struct css_walk *walk = (void *)it;

	*walk = (struct css_walk){ };
	if (flags < BPF_CGROUP_ITER_DESCENDANTS_PRE || flags > BPF_CGROUP_ITER_ANCESTORS_UP + 1)
		return -EINVAL;
	*walk = (struct css_walk){ .start = start, .order = flags };
	return 0;
}
__bpf_kfunc struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it)
{
	struct css_walk *walk = (void *)it;

	if (!walk->start)
		return NULL;
	switch (walk->order) {
	case BPF_CGROUP_ITER_DESCENDANTS_PRE:
		walk->at = css_next_descendant_pre(walk->at, walk->start);
		break;
	case BPF_CGROUP_ITER_DESCENDANTS_POST:
		walk->at = css_next_descendant_post(walk->at, walk->start);
		break;
	case BPF_CGROUP_ITER_ANCESTORS_UP:
		walk->at = walk->at ? walk->at->parent : walk->start;
		break;
	default:		/* of newer kernels: children */
		walk->at = css_next_child(walk->at, walk->start);
	}
	return walk->at;
}
__bpf_kfunc void bpf_iter_css_destroy(struct bpf_iter_css *it)
{
}

__bpf_kfunc int bpf_iter_css_task_new(struct bpf_iter_css_task *it, struct cgroup_subsys_state *css,
				      unsigned int flags)
{
	struct css_task_walk *walk = (void *)it;

	*walk = (struct css_task_walk){ };
	if (flags & ~(CSS_TASK_ITER_PROCS | CSS_TASK_ITER_THREADED))
		return -EINVAL;
	walk->group = css->cgroup->kn->id;
	walk->pid = flags & CSS_TASK_ITER_PROCS ? ~0 : 0;
	return 0;
}
__bpf_kfunc struct task_struct *bpf_iter_css_task_next(struct bpf_iter_css_task *it)
{
	struct css_task_walk *walk = (void *)it;
	bool processes = walk->pid < 0;
	int pid = processes ? ~walk->pid : walk->pid;
	struct task_struct *p;

	if (!walk->group)
		return NULL;
	while ((p = task_behind(pid))) {
		pid = p->pid;
		if (task_dfl_cgroup(p)->kn->id == walk->group && (!processes || is_leader(p)))
			break;
	}
	if (!p)
		walk->group = 0;
	walk->pid = processes ? ~pid : pid;
	return p;
}
__bpf_kfunc void bpf_iter_css_task_destroy(struct bpf_iter_css_task *it)
{
}

__bpf_kfunc int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task__nullable, unsigned int flags)
{
	struct task_walk *walk = (void *)it;

	*walk = (struct task_walk){ .pid = INT_MAX - 1 };
	if (flags > THREADS_OF_PROCESS || flags == THREADS_OF_PROCESS && !task__nullable)
		return -EINVAL;
	*walk = (struct task_walk){ .of = task__nullable, .kind = flags };
	return 0;
}
__bpf_kfunc struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it)
{
	struct task_walk *walk = (void *)it;
	struct task_struct *p;

	while ((p = task_behind(walk->pid))) {
		walk->pid = p->pid;
		if (walk->kind == ALL_THREADS || walk->kind == ALL_PROCESSES && is_leader(p) ||
		    walk->kind == THREADS_OF_PROCESS && (p == walk->of || p->tgid && p->tgid == walk->of->tgid))
			return p;
	}
	walk->pid = INT_MAX - 1;
	return NULL;
}
__bpf_kfunc void bpf_iter_task_destroy(struct bpf_iter_task *it)
{
}

__bpf_kfunc int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *unsafe_ptr__ign, u32 nr_words)
{
	struct bits_walk *walk = (void *)it;
	struct bits_copy *copy = unused_bits;

	*walk = (struct bits_walk){ .bit = -1 };
	if (!unsafe_ptr__ign || !nr_words)
		return -EINVAL;
	if (nr_words > MOST_WORDS)
		return -E2BIG;
	if (img_bpf_is_null(unsafe_ptr__ign))
		return -EFAULT;
	walk->nr = nr_words * 64;
	if (nr_words == 1) {
		walk->word = *unsafe_ptr__ign;
		return 0;
	}
	if (copy)
		unused_bits = copy->chain;
	else
		copy = img_alloc(sizeof(*copy));
	memcpy(copy->words, unsafe_ptr__ign, nr_words * 8);
	walk->copy = copy;
	return 0;
}
__bpf_kfunc int *bpf_iter_bits_next(struct bpf_iter_bits *it)
{
	struct bits_walk *walk = (void *)it;
	const u64 *bits = walk->nr == 64 ? &walk->word : walk->copy->words;

	if (!walk->nr || walk->bit >= walk->nr)
		return NULL;
	walk->bit = find_next_bit((const unsigned long *)bits, walk->nr, walk->bit + 1);
	return walk->bit < walk->nr ? &walk->bit : NULL;
}
__bpf_kfunc void bpf_iter_bits_destroy(struct bpf_iter_bits *it)
{
	struct bits_walk *walk = (void *)it;

	if (walk->nr <= 64)
		return;
	walk->copy->chain = unused_bits;
	unused_bits = walk->copy;
}

__bpf_kfunc_end_defs();
