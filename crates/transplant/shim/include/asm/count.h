/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_COUNT_H
#define _SIM_COUNT_H
/* Around operations that no other CPU may see half done: image/lines.c. An unlock does not wait for missing lines. */
#ifdef CONFIG_SIM_COUNTED
extern void img_atomic_begin(const volatile void *at);
extern void img_atomic_end(void);
extern void img_store_begin(const volatile void *at);
#else
#define img_atomic_begin(at) do { } while (0)
#define img_atomic_end() do { } while (0)
#define img_store_begin(at) do { } while (0)
#endif
#define img_store_end() img_atomic_end()
#endif
