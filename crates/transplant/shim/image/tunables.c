// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tunables that the tree itself registers: those of debugfs.c, and sysctls. Stands for fs/proc/proc_sysctl.c: its
 * registration functions note their arguments.
 */
#include "tunables.h"
#include <linux/sysctl.h>

#define MOST 512

static struct tunable tunables[MOST];
static int tunable_count;
static bool in_own;			/* the tables of kernel/sysctl.c are registered */

struct tunable *img_tunable_new(const char *name)
{
	struct tunable *new;

	if (tunable_count == MOST)
		img_fatal("there are more tunables than the image has room for");
	new = &tunables[tunable_count++];
	strscpy(new->name, name, sizeof(new->name));
	return new;
}

static bool is_schedulers(const struct ctl_table *entry)
{
	return !in_own || !strncmp(entry->procname, "sched_", 6);
}

/* Whether an entry can be written, and the image has what is behind it: other handlers without data want a kernel. */
static bool is_whole(const struct ctl_table *entry)
{
	if (!(entry->mode & 0222) || !entry->proc_handler || img_is_stub(entry->proc_handler))
		return false;
	return entry->data ? !img_is_stub(entry->data) : is_schedulers(entry);
}

/* Tables end with an unnamed entry, or are counted. */
static void entries(const struct ctl_table *table, size_t number)
{
	for (; number && table->procname; number--, table++) {
		struct tunable *new;

		if (!is_whole(table))
			continue;
		new = img_tunable_new(table->procname);
		new->kind = SYSCTL;
		new->entry = table;
		new->is_unread = !is_schedulers(table) || !table->data;
	}
}
#ifdef HAVE_SYSCTL_CONST
#define TABLE const struct ctl_table
#else
#define TABLE struct ctl_table
#endif
#ifdef HAVE_SYSCTL_SZ
void __register_sysctl_init(const char *path, TABLE *table, const char *name, size_t number)
{
	entries(table, number);
}
struct ctl_table_header *register_sysctl_sz(const char *path, TABLE *table, size_t number)
{
	entries(table, number);
	return NULL;
}
#else
void __register_sysctl_init(const char *path, TABLE *table, const char *name)
{
	entries(table, MOST);
}
struct ctl_table_header *register_sysctl(const char *path, TABLE *table)
{
	entries(table, MOST);
	return NULL;
}
#endif
#ifdef HAVE_SYSCTL_BASE_TABLE
int __register_sysctl_base(struct ctl_table *base)
{
	entries(base->child, MOST);
	return 0;
}
#endif
/* Before 5.17 kernel/sysctl.c has one tree of all tables, the scheduler's in folder "kernel". */
#ifdef HAVE_SYSCTL_INIT
struct ctl_table_header *register_sysctl_table(struct ctl_table *table)
{
	for (; table->procname; table++)
		if (!strcmp(table->procname, "kernel"))
			entries(table->child, MOST);
	return NULL;
}
#endif

/* debugfs's latency_ns was sched_latency_ns before 5.13. */
struct tunable *img_tunable_find(const char *name)
{
	char before[64];
	int i, pass;

	snprintf(before, sizeof(before), "sched_%s", name);
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < tunable_count; i++)
			if (!strcmp(tunables[i].name, pass ? before : name))
				return &tunables[i];
	return NULL;
}

/* The kernel's own tables of kernel/sysctl.c, to which a patch may add a line. */
void img_tunables_init(void)
{
	in_own = true;
#ifdef HAVE_SYSCTL_BASES
	sysctl_init_bases();
#endif
#ifdef HAVE_SYSCTL_INIT
	sysctl_init();
#endif
	in_own = false;
}

int img_tunable(const char *name, const char *value)
{
	struct tunable *tunable = img_tunable_find(name);
	char text[64];
	loff_t at = 0;
	size_t size;
	u64 number;

	if (!tunable)
		return -ENOENT;
	strscpy(text, value, sizeof(text));
	size = strlen(text);
	if (tunable->kind == DEBUG_FILE)
		return img_file_write(tunable, text, size);
	if (tunable->kind == SYSCTL)
		return tunable->entry->proc_handler((void *)tunable->entry, 1, text, &size, &at);
	if (kstrtou64(value, 0, &number))
		return -EINVAL;
	if (tunable->size == sizeof(bool))
		number = !!number;
	memcpy(tunable->data, &number, tunable->size);
	return 0;
}

const char *img_tunable_name(int index, char *value, int size)
{
	struct tunable *tunable = &tunables[index];
	size_t length;
	loff_t at = 0;
	u64 number = 0;

	if (index < 0 || index >= tunable_count)
		return NULL;
	*value = 0;
	switch (tunable->kind) {
	case NUMBER:
		memcpy(&number, tunable->data, tunable->size);
		snprintf(value, size, "%llu", number);
		break;
	case DEBUG_FILE:
		img_file_show(tunable, value, size);
		break;
	case SYSCTL:
		/* The image lacks most data and handlers of the kernel's own tables. */
		if (tunable->is_unread)
			break;
		length = size - 1;
		if (tunable->entry->proc_handler((void *)tunable->entry, 0, value, &length, &at))
			length = 0;
		value[length] = 0;
		value[strcspn(value, "\n")] = 0;
	}
	return tunable->name;
}
