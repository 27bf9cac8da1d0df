/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SMP_H
#define _SIM_SMP_H
#include <linux/cpumask.h>
extern int img_cpu;
#define raw_smp_processor_id() img_cpu
extern void arch_send_call_function_single_ipi(int cpu);
extern void arch_send_call_function_ipi_mask(const struct cpumask *mask);
extern void arch_smp_send_reschedule(int cpu);
extern int __cpu_disable(void);
extern void __cpu_die(unsigned int cpu);
extern int __cpu_up(unsigned int cpu, struct task_struct *idle);
extern void cpu_die(void);
#endif
