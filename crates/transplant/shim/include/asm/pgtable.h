/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_PGTABLE_H
#define _SIM_PGTABLE_H
/* Page tables that nobody walks: just enough that headers of mm compile. */
#include <asm-generic/pgtable-nopmd.h>
#include <asm/page.h>
#define PGDIR_SHIFT 21
#define PGDIR_SIZE (1UL << PGDIR_SHIFT)
#define PGDIR_MASK (~(PGDIR_SIZE-1))
#define PTRS_PER_PGD 512
#define PTRS_PER_PTE 512
#define USER_PTRS_PER_PGD 256
#define VMALLOC_START 0x10000000UL
#define VMALLOC_END 0x20000000UL
#define _PAGE_PRESENT 1
#define _PAGE_RW 2
#define _PAGE_USER 4
#define _PAGE_ACCESSED 8
#define _PAGE_DIRTY 16
#define _PAGE_PROTNONE 32
#define _PAGE_SWP_EXCLUSIVE 64
#define PAGE_NONE __pgprot(_PAGE_PROTNONE)
#define PAGE_READONLY __pgprot(_PAGE_PRESENT)
#define PAGE_COPY PAGE_READONLY
#define PAGE_SHARED __pgprot(_PAGE_PRESENT | _PAGE_RW)
#define PAGE_KERNEL __pgprot(_PAGE_PRESENT | _PAGE_RW)
#define PAGE_KERNEL_EXEC PAGE_KERNEL
#define set_pte(p, v) (*(p) = (v))
#define PFN_PTE_SHIFT PAGE_SHIFT
#define set_ptes(mm, a, p, v, n) set_pte(p, v)
/* Trees with set_ptes() make a macro of this name; nobody calls it in others. */
struct mm_struct;
extern void set_pte_at(struct mm_struct *mm, unsigned long at, pte_t *p, pte_t v);
#define set_pmd(p, v) (*(p) = (v))
#define pte_none(x) (!pte_val(x))
#define pte_present(x) (pte_val(x) & (_PAGE_PRESENT | _PAGE_PROTNONE))
#define pte_clear(mm, a, p) set_pte(p, __pte(0))
#define pmd_none(x) (!pmd_val(x))
#define pmd_bad(x) 0
#define pmd_present(x) (pmd_val(x) & _PAGE_PRESENT)
#define pmd_clear(p) set_pmd(p, __pmd(0))
#define pmd_pfn(x) (pmd_val(x) >> PAGE_SHIFT)
#define pmd_page(x) pfn_to_page(pmd_pfn(x))
#define pmd_page_vaddr(x) ((unsigned long)pmd_val(x) & PAGE_MASK)
#define pfn_pte(pfn, pr) __pte(((pfn) << PAGE_SHIFT) | pgprot_val(pr))
#define pte_pfn(x) (pte_val(x) >> PAGE_SHIFT)
#define pte_page(x) pfn_to_page(pte_pfn(x))
static inline int pte_write(pte_t p) { return !!(pte_val(p) & _PAGE_RW); }
static inline int pte_dirty(pte_t p) { return !!(pte_val(p) & _PAGE_DIRTY); }
static inline int pte_young(pte_t p) { return !!(pte_val(p) & _PAGE_ACCESSED); }
#define SIM_PTE(name, op) static inline pte_t name(pte_t p) { return __pte(pte_val(p) op); }
SIM_PTE(pte_wrprotect, & ~_PAGE_RW)
SIM_PTE(pte_mkclean, & ~_PAGE_DIRTY)
SIM_PTE(pte_mkold, & ~_PAGE_ACCESSED)
SIM_PTE(pte_mkdirty, | _PAGE_DIRTY)
SIM_PTE(pte_mkyoung, | _PAGE_ACCESSED)
SIM_PTE(pte_mkwrite_novma, | _PAGE_RW)
/* With the VMA or without it. */
#define pte_mkwrite(pte, ...) pte_mkwrite_novma(pte)
#define __HAVE_ARCH_PTE_SWP_EXCLUSIVE
SIM_PTE(pte_swp_mkexclusive, | _PAGE_SWP_EXCLUSIVE)
SIM_PTE(pte_swp_clear_exclusive, & ~_PAGE_SWP_EXCLUSIVE)
static inline int pte_swp_exclusive(pte_t p) { return !!(pte_val(p) & _PAGE_SWP_EXCLUSIVE); }
static inline pte_t pte_modify(pte_t p, pgprot_t n) { return __pte((pte_val(p) & PAGE_MASK) | pgprot_val(n)); }
#define pte_protnone(p) ((pte_val(p) & (_PAGE_PROTNONE | _PAGE_PRESENT)) == _PAGE_PROTNONE)
#define pmd_protnone(p) 0
#define __swp_type(x) ((x).val & 31)
#define __swp_offset(x) ((x).val >> 8)
#define __swp_entry(t, o) ((swp_entry_t) { (t) | ((o) << 8) })
#define __pte_to_swp_entry(p) ((swp_entry_t) { pte_val(p) })
#define __swp_entry_to_pte(x) ((pte_t) { (x).val })
#define update_mmu_cache(v, a, p) do { } while (0)
#define update_mmu_cache_range(f, v, a, p, n) do { } while (0)
#define update_mmu_cache_pmd(v, a, p) do { } while (0)
/* An architecture with several zero pages defines ZERO_PAGE() itself. */
#define __HAVE_COLOR_ZERO_PAGE
extern unsigned long zero_page_mask;
extern struct page *img_zero_page;
#define ZERO_PAGE(v) img_zero_page
extern pgd_t swapper_pg_dir[];
#endif
