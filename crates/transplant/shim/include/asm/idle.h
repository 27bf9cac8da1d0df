/* SPDX-License-Identifier: GPL-2.0-only */
/* Nothing: image/idle.c is the idle loop. */
