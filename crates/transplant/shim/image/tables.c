// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tree's own tables: features, /proc/schedstat, domains. Stands for fs/proc, whose registration functions note
 * their arguments.
 */
#include "image.h"
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include "kernel/time/tick-internal.h"

/* Features are bits, and static keys if the tree has these. */
static const char *const features[] = {
#define SCHED_FEAT(name, enabled) #name,
#include "kernel/sched/features.h"
#undef SCHED_FEAT
};

int img_feature(const char *name, int on)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(features); i++) {
		if (strcmp(features[i], name))
			continue;
		if (on)
			sysctl_sched_features |= 1UL << i;
		else
			sysctl_sched_features &= ~(1UL << i);
#ifdef CONFIG_JUMP_LABEL
		if (on)
			static_key_enable(&sched_feat_keys[i]);
		else
			static_key_disable(&sched_feat_keys[i]);
#endif
		return 0;
	}
	return -ENOENT;
}

const char *img_feature_name(int index, int *on)
{
	if (index < 0 || index >= ARRAY_SIZE(features))
		return NULL;
	*on = !!(sysctl_sched_features & (1UL << index));
	return features[index];
}

/* /proc/schedstat, by the tree's own functions. */
static const struct seq_operations *schedstat;

struct proc_dir_entry *proc_create_seq_private(const char *name, umode_t mode, struct proc_dir_entry *parent,
					       const struct seq_operations *ops, unsigned int state_size, void *data)
{
	if (!strcmp(name, "schedstat"))
		schedstat = ops;
	return NULL;
}

/*
 * Jiffies stand still while all CPUs are idle without a tick. A reader of the file would be awake and have brought them
 * up to date; nobody reads it here, so the number is lent for the reading.
 */
static u64 jiffies_due(void)
{
	return img_now < tick_next_period ? 0 : div_u64(img_now - tick_next_period, TICK_NSEC) + 1;
}

int img_schedstat(char *text, int size)
{
	struct seq_file file = { .buf = text, .size = size };
	u64 as_is = jiffies_64;
	loff_t at = 0;
	void *line;

	if (!schedstat)
		return -ENOENT;
	jiffies_64 += jiffies_due();
	for (line = schedstat->start(&file, &at); line && !IS_ERR(line); line = schedstat->next(&file, line, &at))
		schedstat->show(&file, line);
	schedstat->stop(&file, line);
	jiffies_64 = as_is;
	return file.count < size ? file.count : 2 * size;
}

int img_domains(int cpu, char *text, int size)
{
	struct sched_domain *sd;
	int length = 0;

	for_each_domain(cpu, sd) {
		struct sched_group *group = sd->groups;
		int groups = 0;

		do {
			groups++;
			group = group->next;
		} while (group != sd->groups);
		length += scnprintf(text + length, size - length, "%s %u %x %d %u\n", sd->name,
				    cpumask_weight(sched_domain_span(sd)), sd->flags, groups, sd->imbalance_pct);
	}
	return length;
}

void img_usage(int pid, struct img_usage *usage)
{
	struct task_struct *p = img_task_by_pid(pid);

	*usage = (struct img_usage){
		.runtime_ns = task_sched_runtime(p),
		.wait_ns = p->sched_info.run_delay,
		.utime_ns = p->utime,
		.stime_ns = p->stime,
		.nr_migrations = p->se.nr_migrations,
		.nvcsw = p->nvcsw,
		.nivcsw = p->nivcsw,
		.vruntime = p->se.vruntime,
		.cpu = task_cpu(p),
		.state = READ_ONCE(p->__state),
	};
}
