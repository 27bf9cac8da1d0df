/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_MMU_H
#define _SIM_MMU_H
typedef struct { unsigned long id; } mm_context_t;
#endif
