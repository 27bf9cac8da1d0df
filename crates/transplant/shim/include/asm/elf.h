/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SIM_ELF_H
#define _SIM_ELF_H
#include <linux/elf-em.h>
#define ELF_NGREG 4
typedef unsigned long elf_greg_t;
typedef elf_greg_t elf_gregset_t[ELF_NGREG];
typedef unsigned long elf_fpregset_t;
#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define ELF_ARCH EM_X86_64
#define elf_check_arch(x) 1
#define ELF_EXEC_PAGESIZE 4096
#define ELF_ET_DYN_BASE 0
#define ELF_PLAT_INIT(r, l) do { } while (0)
#define ELF_HWCAP 0
#define ELF_PLATFORM NULL
#endif
