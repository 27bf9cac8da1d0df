/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PERCPU_H
#define _SIM_PERCPU_H
extern unsigned long img_cpu_offset;
#define __my_cpu_offset img_cpu_offset
#include <asm-generic/percpu.h>
#endif
