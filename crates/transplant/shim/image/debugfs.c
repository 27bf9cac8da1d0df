// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of debugfs that the tree registers. Stands for fs/debugfs: its registration functions note their arguments.
 */
#include "tunables.h"
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/seq_file.h>

/*
 * Files of debugfs that can be written; those in a folder have "FOLDER/" before their names. Deeper ones exist once
 * for each CPU: FOLDER/cpuN/NAME are one tunable FOLDER/NAME, which has the same value on all CPUs. Features have a
 * table of their own, and messages about domains need all of debugfs.
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
		return img_tunable_new(name);
	snprintf(path, sizeof(path), "%s/%s", (const char *)parent->d_fsdata, name);
	return img_tunable_new(path);
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
/* A file of one CPU. The first CPU's makes the tunable. */
static bool debug_cpu_file(const char *name, struct dentry *parent, void *data, const struct file_operations *ops)
{
	struct dentry *folder = parent ? parent->d_parent : NULL;
	struct cpu_file *new;
	struct tunable *tunable;
	char path[64];

	if (!folder || !folder->d_parent || folder->d_parent->d_parent ||
	    strncmp(parent->d_fsdata, "cpu", 3) || !isdigit(((const char *)parent->d_fsdata)[3]))
		return false;
	snprintf(path, sizeof(path), "%s/%s", (const char *)folder->d_fsdata, name);
	tunable = img_tunable_find(path);
	if (!tunable) {
		tunable = img_tunable_new(path);
		tunable->kind = DEBUG_FILE;
		tunable->file = ops;
		tunable->next = &tunable->cpu_files;
	}
	new = img_alloc(sizeof(*new));
	new->data = data;
	new->next = NULL;
	*tunable->next = new;
	tunable->next = &new->next;
	return true;
}
static void debug_file(const char *name, umode_t mode, struct dentry *parent, void *data,
		       const struct file_operations *ops)
{
	struct tunable *new;

	if ((mode & 0222) && debug_cpu_file(name, parent, data, ops))
		return;
	new = debug_new(name, mode, parent);
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
	debug_file(name, mode, parent, data, ops);
	return NULL;
}
struct dentry *debugfs_create_file_unsafe(const char *name, umode_t mode, struct dentry *parent, void *data,
					  const struct file_operations *ops)
{
	debug_file(name, mode, parent, data, ops);
	return NULL;
}
void debugfs_lookup_and_remove(const char *name, struct dentry *parent) { }

/* Writes a file, or those of all CPUs until one refuses the value. */
int img_file_write(const struct tunable *tunable, char *text, size_t size)
{
	const struct cpu_file *each = tunable->cpu_files;

	if (!tunable->file->write || img_is_stub(tunable->file->write))
		return -EPERM;
	do {
		struct seq_file opened = { .private = each ? each->data : NULL };
		struct file file = { .private_data = each ? &opened : NULL };
		loff_t at = 0;
		ssize_t done = tunable->file->write(&file, (char __user *)text, size, &at);

		if (done < 0)
			return done;
		each = each ? each->next : NULL;
	} while (each);
	return 0;
}

/* The text of a file, the first CPU's if each has one, up to the end of its line. */
void img_file_show(const struct tunable *tunable, char *value, int size)
{
	const struct file_operations *ops = tunable->file;
	struct inode inode = { .i_private = tunable->cpu_files ? tunable->cpu_files->data : NULL };
	struct file file = { };
	struct seq_file *text;

	if (!ops->open || img_is_stub(ops->open) || ops->open(&inode, &file))
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
