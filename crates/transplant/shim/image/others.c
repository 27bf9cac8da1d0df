// SPDX-License-Identifier: GPL-2.0-only
/* Shims that have static names or headers in common with those of most.c. */
#include "arena.c"
#include "judged.c"
#include "percpu.c"
#include "tasks.c"
#include "time.c"
