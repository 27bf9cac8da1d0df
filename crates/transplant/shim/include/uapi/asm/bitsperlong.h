/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_BITSPERLONG_H
#define _SIM_BITSPERLONG_H
#define __BITS_PER_LONG 64
#include <asm-generic/bitsperlong.h>
#endif
