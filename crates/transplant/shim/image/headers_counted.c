// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asks ../cc for headers.h, as counted code reads it.
 */
