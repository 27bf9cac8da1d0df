/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PAGE_H
#define _SIM_PAGE_H
#include <linux/const.h>
#if defined(CONFIG_PAGE_SHIFT) && __has_include(<vdso/page.h>)
#include <vdso/page.h>
#else
#define PAGE_SHIFT 12
#define PAGE_SIZE (_AC(1,UL) << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE-1))
#endif
#define PAGE_OFFSET _AC(0,UL)
#if !defined(__ASSEMBLY__) && !defined(__ASSEMBLER__)
typedef struct { unsigned long pte; } pte_t;
typedef struct { unsigned long pgd; } pgd_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef struct page *pgtable_t;
#define pte_val(x) ((x).pte)
#define pgd_val(x) ((x).pgd)
#define pgprot_val(x) ((x).pgprot)
#define __pte(x) ((pte_t) { (x) })
#define __pgd(x) ((pgd_t) { (x) })
#define __pgprot(x) ((pgprot_t) { (x) })
#define clear_page(p) __builtin_memset((p), 0, PAGE_SIZE)
#define copy_page(t, f) __builtin_memcpy((t), (f), PAGE_SIZE)
#define clear_user_page(p, a, g) clear_page(p)
#define copy_user_page(t, f, a, g) copy_page(t, f)
#define __pa(x) ((unsigned long)(x))
#define __va(x) ((void *)(unsigned long)(x))
#define virt_to_page(x) pfn_to_page(__pa(x) >> PAGE_SHIFT)
#define virt_addr_valid(x) 1
#define pfn_to_kaddr(pfn) __va((pfn) << PAGE_SHIFT)
#define phys_to_pfn(x) ((x) >> PAGE_SHIFT)
#endif
#define HPAGE_SHIFT 21
#define HPAGE_SIZE (1UL << HPAGE_SHIFT)
#define HPAGE_MASK (~(HPAGE_SIZE - 1))
#define HUGETLB_PAGE_ORDER (HPAGE_SHIFT - PAGE_SHIFT)
#include <asm-generic/memory_model.h>
#if !defined(__ASSEMBLY__) && !defined(__ASSEMBLER__) && !defined(page_to_phys)
#define page_to_phys(p) (page_to_pfn(p) << PAGE_SHIFT)
#define phys_to_page(p) pfn_to_page((p) >> PAGE_SHIFT)
#endif
#include <asm-generic/getorder.h>
#endif
