/* SPDX-License-Identifier: GPL-2.0-only */
/* Nothing: no huge pages. */
