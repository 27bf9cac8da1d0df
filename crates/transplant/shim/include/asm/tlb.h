/* SPDX-License-Identifier: GPL-2.0-only */
#include <asm-generic/tlb.h>
