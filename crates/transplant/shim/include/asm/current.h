/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_CURRENT_H
#define _SIM_CURRENT_H
struct task_struct;
extern struct task_struct *img_current;
#define get_current() img_current
#define current img_current
#endif
