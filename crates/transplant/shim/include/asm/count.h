/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_COUNT_H
#define _SIM_COUNT_H
/* Around operations that no other CPU may see half done: image/lines.c. */
#ifdef CONFIG_SIM_COUNTED
extern void img_atomic_begin(const volatile void *at);
extern void img_atomic_end(void);
#else
#define img_atomic_begin(at) do { } while (0)
#define img_atomic_end() do { } while (0)
#endif
#endif
