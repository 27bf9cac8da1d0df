// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes, messages, and the ends of a run. Stands for an architecture's string functions, kernel/printk and
 * kernel/panic.c.
 */
#include "host.h"
#include "image.h"
#include <linux/panic.h>

/* Words where both ends allow it: kernel code copies masks and structures. */
void *memcpy(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	for (; n >= sizeof(long); n -= sizeof(long), t += sizeof(long), f += sizeof(long))
		*(unsigned long __attribute__((may_alias, aligned(1))) *)t =
			*(const unsigned long __attribute__((may_alias, aligned(1))) *)f;
	while (n--)
		*t++ = *f++;
	return to;
}
void *memmove(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	while (n--)
		t[n] = f[n];
	return to;
}
void *memset(void *at, int byte, size_t n)
{
	unsigned long word = (unsigned char)byte * (~0UL / 255);
	char *t = at;

	for (; n >= sizeof(long); n -= sizeof(long), t += sizeof(long))
		*(unsigned long __attribute__((may_alias, aligned(1))) *)t = word;
	while (n--)
		*t++ = byte;
	return at;
}

/* A run that can't continue. The loader's handler of SIGABRT prints where. */
static const char *last_words;

void img_fatal(const char *what)
{
	last_words = what;
	host_abort();
}
const char *img_last_words(void)
{
	return last_words;
}

static char line[1024];

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

static int say(int is_warning, const char *format, va_list arguments)
{
	img_say(formatted(format, arguments), is_warning || is_error(format));
	return 0;
}

#undef printk
#define PRINTS(name, is_warning)			\
int name(const char *format, ...)			\
{							\
	va_list arguments;				\
							\
	va_start(arguments, format);			\
	say(is_warning, format, arguments);		\
	va_end(arguments);				\
	return 0;					\
}
PRINTS(_printk, 0)
PRINTS(_printk_deferred, 0)
/* Their names before messages had an index. */
int img_printk(const char *format, ...) __asm__("printk");
int img_printk_deferred(const char *format, ...) __asm__("printk_deferred");
PRINTS(img_printk, 0)
PRINTS(img_printk_deferred, 0)

void warn_slowpath_fmt(const char *file, int at, unsigned int taint, const char *format, ...)
{
	char words[256] = "";
	va_list arguments;

	if (format) {
		va_start(arguments, format);
		vsnprintf(words, sizeof(words), format, arguments);
		va_end(arguments);
	}
	snprintf(line, sizeof(line), "WARNING at %s:%d %s", file, at, words);
	line[strcspn(line, "\n")] = 0;
	img_say(line, 1);
}
void __warn_printk(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(1, format, arguments);
	va_end(arguments);
}
/* Behind the message of an error, which has been passed on. */
void dump_stack(void)
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
void img_contended(void *lock)
{
	img_fatal("a lock is taken that is taken already");
}
void img_relax(void)
{
	img_fatal("a CPU waits for another one in a loop");
}
