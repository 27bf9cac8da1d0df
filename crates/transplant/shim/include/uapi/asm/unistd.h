/* SPDX-License-Identifier: GPL-2.0-only */
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_NEW_STAT
#include <asm-generic/unistd.h>
