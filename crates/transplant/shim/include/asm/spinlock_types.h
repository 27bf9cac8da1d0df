/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SPINLOCK_TYPES_H
#define _SIM_SPINLOCK_TYPES_H
typedef struct {
	int locked;			/* 1: taken; above: others wait (image/locks.c); below 0: released too often */
} arch_spinlock_t;
typedef struct {
	int readers;			/* -1: a writer */
} arch_rwlock_t;
#define __ARCH_SPIN_LOCK_UNLOCKED { 0 }
#define __ARCH_RW_LOCK_UNLOCKED { 0 }
#endif
