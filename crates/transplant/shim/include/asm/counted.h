/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Basic blocks that count themselves. The compiler calls a function at each of them; the assembler replaces the call by
 * code that adds to the block's number of executions, and takes its instructions from those that are left until there
 * is something to do. image/cost.c does that, and writes the block's instructions into the subl. At such a call the
 * registers that a function may change are free.
 *
 * src/blocks.rs knows this code by its instructions. A jump to the compiler's function stays as it is.
 */
#ifndef _SIM_COUNTED_H
#define _SIM_COUNTED_H
asm(".macro call target:vararg\n"
    ".ifeqs \"\\target\", \"__sanitizer_cov_trace_pc@PLT\"\n"
    "	.pushsection img_times, \"aw\", @nobits\n"
    ".Limg_times\\@:\n"
    "	.skip 8\n"
    "	.popsection\n"
    "	incq .Limg_times\\@(%rip)\n"
    "	.byte 0x81, 0x2d\n"		/* subl $0, img_left(%rip) */
    "	.long img_left - (. + 8), 0\n"
    "	js .Limg_due\\@\n"
    ".Limg_back\\@:\n"
    "	.pushsection .text.img_due, \"ax\", @progbits\n"
    ".Limg_due\\@:\n"
    "	lea .Limg_back\\@(%rip), %rax\n"
    "	jmp img_block_due\n"
    "	.popsection\n"
    ".else\n"
    "	callq \\target\n"
    ".endif\n"
    ".endm\n");
#endif
