/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SIGCONTEXT_H
#define _SIM_SIGCONTEXT_H
struct sigcontext { unsigned long pc; };
#endif
