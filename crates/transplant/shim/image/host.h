/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * The only names that the image takes from the process that loads it: the C library's. schedlab's linker step reads
 * the names in __asm__ here, and finds a stub for every other name that no file of the image has.
 */
#ifndef IMG_HOST_H
#define IMG_HOST_H
#pragma GCC visibility push(default)
extern void *host_mmap(void *at, unsigned long size, int protection, int flags, int file, long offset) __asm__("mmap");
extern int host_mprotect(void *at, unsigned long size, int protection) __asm__("mprotect");
extern int host_backtrace(void **calls, int most) __asm__("backtrace");
extern void host_abort(void) __asm__("abort") __attribute__((noreturn));
#pragma GCC visibility pop
#endif
