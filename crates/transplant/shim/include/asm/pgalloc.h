/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PGALLOC_H
#define _SIM_PGALLOC_H
#include <asm-generic/pgalloc.h>
#endif
