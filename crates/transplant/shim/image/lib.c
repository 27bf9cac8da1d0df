// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes. Stands for an architecture's string functions.
 */
#include "image.h"

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
