// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages, warnings, and the ends of a run. Stands for kernel/printk, kernel/panic.c and lib/bug.c.
 */
#include "host.h"
#include "image.h"
#if __has_include(<linux/panic.h>)
#include <linux/panic.h>
#endif

/* Conditions of macros within macros are long. */
#define LONGEST_CONDITION 200

/* Ends a run that can't continue. The loader's handler of SIGABRT prints the place. */
static const char *last_words;
static char line[1024];

void img_fatal(const char *what)
{
	last_words = what;
	host_abort();
}
const char *img_last_words(void)
{
	return last_words;
}

static const char *formatted(const char *format, va_list arguments)
{
	if (format[0] == KERN_SOH_ASCII && format[1])
		format += 2;
	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = 0;
	return line;
}

/* An error's message (KERN_ERR and worse) counts as a warning of the run. */
static bool is_error(const char *format)
{
	return format[0] == KERN_SOH_ASCII && format[1] >= '0' && format[1] <= '3';
}

#undef printk
#define PRINTS(name)							\
int name(const char *format, ...)					\
{									\
	va_list arguments;						\
									\
	va_start(arguments, format);					\
	img_say(formatted(format, arguments), is_error(format));	\
	va_end(arguments);						\
	return 0;							\
}
PRINTS(_printk)
PRINTS(_printk_deferred)
/* Their names before messages had an index. */
int img_printk(const char *format, ...) __asm__("printk");
int img_printk_deferred(const char *format, ...) __asm__("printk_deferred");
PRINTS(img_printk)
PRINTS(img_printk_deferred)

/* "WARNING in yield at kernel/sched/core.c:12: rq->nr_running: words". A constant condition is left out. */
static int placed(const char *what, const struct img_place *place)
{
	const char *condition = place->condition;
	int n = scnprintf(line, sizeof(line), "%s in %s at %s:%d", what, place->function, place->file, place->line);

	if (condition && strcmp(condition, "1") && strcmp(condition, "true"))
		n += scnprintf(line + n, sizeof(line) - n, ": %.*s", LONGEST_CONDITION, condition);
	return n;
}
void img_warn(const struct img_place *place)
{
	placed("WARNING", place);
	img_say(line, 1);
}
void img_warn_text(const struct img_place *place, const char *format, ...)
{
	va_list arguments;
	int n = placed("WARNING", place);

	if (format) {
		n += scnprintf(line + n, sizeof(line) - n, ": ");
		va_start(arguments, format);
		vsnprintf(line + n, sizeof(line) - n, format, arguments);
		va_end(arguments);
	}
	line[strcspn(line, "\n")] = 0;
	img_say(line, 1);
}
void img_bug(const struct img_place *place)
{
	placed("BUG", place);
	img_fatal(line);
}

/* lib/refcount.c */
void refcount_warn_saturate(refcount_t *count, enum refcount_saturation_type type)
{
	img_say("WARNING: a reference counter ran over", 1);
}

/* After the message of an error, which has been passed on. */
int panic_on_warn;
void dump_stack(void)
{
}
void dump_stack_lvl(const char *level)
{
}
void add_taint(unsigned int flag, enum lockdep_ok ok)
{
}
void check_panic_on_warn(const char *origin)
{
}
void panic(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	img_fatal(formatted(format, arguments));
}
