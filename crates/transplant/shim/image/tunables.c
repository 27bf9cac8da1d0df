// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tunables that the tree itself registers. Stands for fs/debugfs and fs/proc/proc_sysctl.c: their registration
 * functions note their arguments.
 */
#include "image.h"
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/sysctl.h>

#define MOST 512

/* A tunable: a number in memory, a file of debugfs, or an entry of a table. */
struct tunable {
	char name[64];
	enum { NUMBER, DEBUG_FILE, SYSCTL } kind;
	void *data;
	size_t size;			/* of the data; 1: a bool */
	const struct file_operations *file;
	const struct ctl_table *entry;
	bool is_unread;
};
static struct tunable tunables[MOST];
static int tunable_count;
static bool in_own;			/* the tables of kernel/sysctl.c are registered */

static struct tunable *tunable_new(const char *name)
{
	struct tunable *new;

	if (tunable_count == MOST)
		img_fatal("there are more tunables than the image has room for");
	new = &tunables[tunable_count++];
	strscpy(new->name, name, sizeof(new->name));
	return new;
}

/*
 * Files of debugfs that can be written; those in a folder have "FOLDER/" before their names. Deeper ones exist once for
 * each CPU. Features have a table of their own, and messages about domains need all of debugfs.
 */
struct dentry *debugfs_create_dir(const char *name, struct dentry *parent)
{
	struct dentry *folder = img_alloc(sizeof(*folder));

	folder->d_fsdata = kstrdup(name, GFP_KERNEL);
	folder->d_parent = parent;
	return folder;
}
static struct tunable *debug_new(const char *name, umode_t mode, struct dentry *parent)
{
	char path[64];

	if (!(mode & 0222) || !strcmp(name, "features") || !strcmp(name, "verbose") ||
	    !parent || (parent->d_parent && parent->d_parent->d_parent))
		return NULL;
	if (!parent->d_parent)
		return tunable_new(name);
	snprintf(path, sizeof(path), "%s/%s", (const char *)parent->d_fsdata, name);
	return tunable_new(path);
}
static void debug_number(const char *name, umode_t mode, struct dentry *parent, void *data, size_t size)
{
	struct tunable *new = debug_new(name, mode, parent);

	if (!new)
		return;
	new->kind = NUMBER;
	new->data = data;
	new->size = size;
}
void debugfs_create_u32(const char *name, umode_t mode, struct dentry *parent, u32 *value)
{
	debug_number(name, mode, parent, value, sizeof(*value));
}
void debugfs_create_u64(const char *name, umode_t mode, struct dentry *parent, u64 *value)
{
	debug_number(name, mode, parent, value, sizeof(*value));
}
/* In older trees some return a file, which nobody looks at. */
#define RETURNED(function) __typeof__(function(NULL, 0, NULL, NULL))
RETURNED(debugfs_create_bool) debugfs_create_bool(const char *name, umode_t mode, struct dentry *parent, bool *value)
{
	debug_number(name, mode, parent, value, sizeof(*value));
	return (RETURNED(debugfs_create_bool))0;
}
RETURNED(debugfs_create_ulong) debugfs_create_ulong(const char *name, umode_t mode, struct dentry *parent, ulong *value)
{
	debug_number(name, mode, parent, value, sizeof(*value));
	return (RETURNED(debugfs_create_ulong))0;
}
void debugfs_create_str(const char *name, umode_t mode, struct dentry *parent, char **value) { }
static void debug_file(const char *name, umode_t mode, struct dentry *parent, const struct file_operations *ops)
{
	struct tunable *new = debug_new(name, mode, parent);

	if (!new)
		return;
	new->kind = DEBUG_FILE;
	new->file = ops;
}

#ifdef HAVE_DEBUGFS_FULL
#undef debugfs_create_file
struct dentry *debugfs_create_file_full(const char *name, umode_t mode, struct dentry *parent, void *data,
					const void *aux, const struct file_operations *ops)
#else
struct dentry *debugfs_create_file(const char *name, umode_t mode, struct dentry *parent, void *data,
				   const struct file_operations *ops)
#endif
{
	debug_file(name, mode, parent, ops);
	return NULL;
}
struct dentry *debugfs_create_file_unsafe(const char *name, umode_t mode, struct dentry *parent, void *data,
					  const struct file_operations *ops)
{
	debug_file(name, mode, parent, ops);
	return NULL;
}
void debugfs_lookup_and_remove(const char *name, struct dentry *parent) { }

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
		new = tunable_new(table->procname);
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

/* debugfs's latency_ns was sched_latency_ns before 5.13. */
static struct tunable *find(const char *name)
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

int img_tunable(const char *name, const char *value)
{
	struct tunable *tunable = find(name);
	char text[64];
	loff_t at = 0;
	size_t size;
	u64 number;

	if (!tunable)
		return -ENOENT;
	strscpy(text, value, sizeof(text));
	size = strlen(text);
	if (tunable->kind == DEBUG_FILE) {
		struct file file = { };
		ssize_t done;

		if (!tunable->file->write || img_is_stub(tunable->file->write))
			return -EPERM;
		done = tunable->file->write(&file, (char __user *)text, size, &at);
		return done < 0 ? done : 0;
	}
	if (tunable->kind == SYSCTL)
		return tunable->entry->proc_handler((void *)tunable->entry, 1, text, &size, &at);
	if (kstrtou64(value, 0, &number))
		return -EINVAL;
	if (tunable->size == sizeof(bool))
		number = !!number;
	memcpy(tunable->data, &number, tunable->size);
	return 0;
}

/* The text of a file, up to the end of its line. */
static void show(const struct file_operations *ops, char *value, int size)
{
	struct file file = { };
	struct seq_file *text;

	if (!ops->open || img_is_stub(ops->open) || ops->open(NULL, &file))
		return;
	text = file.private_data;
	if (!text || !text->op)
		return;
	text->buf = value;
	text->size = size - 1;
	text->op->show(text, NULL);
	value[min_t(size_t, text->count, size - 1)] = 0;
	value[strcspn(value, "\n")] = 0;
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
		show(tunable->file, value, size);
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
