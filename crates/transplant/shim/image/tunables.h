/* SPDX-License-Identifier: GPL-2.0-only */
/* Tunables that the tree registers: what tunables.c and debugfs.c share. */
#include "image.h"

/* A tunable: a number in memory, a file of debugfs, or an entry of a table. */
struct tunable {
	char name[64];
	enum { NUMBER, DEBUG_FILE, SYSCTL } kind;
	void *data;
	size_t size;			/* of the data; 1: a bool */
	const struct file_operations *file;
	struct cpu_file *cpu_files;	/* of a file that each CPU has; the first CPU's */
	struct cpu_file **next;		/* where the next CPU's is put */
	const struct ctl_table *entry;
	bool is_unread;
};
struct cpu_file {
	void *data;
	struct cpu_file *next;
};

struct tunable *img_tunable_new(const char *name);
struct tunable *img_tunable_find(const char *name);
/* Writes a file's text, and reads its line. */
int img_file_write(const struct tunable *tunable, char *text, size_t size);
void img_file_show(const struct tunable *tunable, char *value, int size);
