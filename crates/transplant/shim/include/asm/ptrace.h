/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PTRACE_H
#define _SIM_PTRACE_H
#include <uapi/asm/ptrace.h>
struct pt_regs {
	unsigned long pc, sp, ret, syscall;
	unsigned long user;		/* the interrupted mode: 1 is user mode */
	unsigned long di, si, dx, cx, r8, r9, ax;	/* what programs of kprobes look at, by x86's names */
};
#define user_mode(r) ((r)->user)
#define instruction_pointer(r) ((r)->pc)
#define profile_pc(r) ((r)->pc)
#define user_stack_pointer(r) ((r)->sp)
#define arch_has_single_step() 0
static inline unsigned long regs_return_value(struct pt_regs *r)
{
	return r->ret;
}
#endif
