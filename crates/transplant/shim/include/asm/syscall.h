/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SYSCALL_H
#define _SIM_SYSCALL_H
/* Nothing: the engine has the system calls. */
#endif
