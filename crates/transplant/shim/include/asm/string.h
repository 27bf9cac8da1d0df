/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_STRING_H
#define _SIM_STRING_H
/* image/lib.c has these; lib/string.c has the rest. */
#define __HAVE_ARCH_MEMCPY
#define __HAVE_ARCH_MEMMOVE
#define __HAVE_ARCH_MEMSET
extern void *memcpy(void *to, const void *from, __kernel_size_t n);
extern void *memmove(void *to, const void *from, __kernel_size_t n);
extern void *memset(void *at, int byte, __kernel_size_t n);
#endif
