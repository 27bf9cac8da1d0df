/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_TIMEX_H
#define _SIM_TIMEX_H
typedef unsigned long cycles_t;
extern cycles_t img_cycles(void);
#define get_cycles img_cycles
#endif
