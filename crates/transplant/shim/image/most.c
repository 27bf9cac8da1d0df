// SPDX-License-Identifier: GPL-2.0-only
/*
 * Most shims as one object: reading the kernel's headers takes most of the time in which a shim is compiled. So no two
 * of these files share a name that is static.
 */
#include "audit.c"
#include "audit_order.c"
#include "balance.c"
#include "boot.c"
#include "choices.c"
#include "draws.c"
#ifdef CONFIG_SCHED_CLASS_EXT
#include "ext_groups.c"
#endif
#include "groups.c"
#include "idle.c"
#include "irq.c"
#include "kthreads.c"
#include "labels.c"
#include "memory.c"
#include "notes.c"
#include "oracle.c"
#include "picked.c"
#include "processes.c"
#include "reports.c"
#include "tables.c"
#include "topology.c"
#include "verbs.c"
