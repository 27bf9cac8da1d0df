/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_MMZONE_H
#define _SIM_MMZONE_H
#if __has_include(<asm-generic/mmzone.h>)
#include <asm-generic/mmzone.h>
#else
extern struct pglist_data *node_data[];
#define NODE_DATA(n) (node_data[n])
#endif
#endif
