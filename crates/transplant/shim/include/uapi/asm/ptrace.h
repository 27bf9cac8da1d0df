/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _UAPI_SIM_PTRACE_H
#define _UAPI_SIM_PTRACE_H
struct user_regs_struct { unsigned long pc; };
#endif
