/* SPDX-License-Identifier: GPL-2.0-only */
/* Nothing: no debug registers. */
