/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_TLBFLUSH_H
#define _SIM_TLBFLUSH_H
#define flush_tlb_all() do { } while (0)
#define flush_tlb_mm(m) do { } while (0)
#define flush_tlb_page(v, a) do { } while (0)
#define flush_tlb_range(v, s, e) do { } while (0)
#define flush_tlb_kernel_range(s, e) do { } while (0)
#endif
