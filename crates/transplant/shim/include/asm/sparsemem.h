/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_SPARSEMEM_H
#define _SIM_SPARSEMEM_H
#define SECTION_SIZE_BITS 27
#define MAX_PHYSMEM_BITS 40
#endif
