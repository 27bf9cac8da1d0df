// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of the kernel's code, from what the compiler adds at each basic block and before each access to memory
 * (CONFIG_SIM_COUNTED, asm/counted.h). Stands for a processor.
 *
 * A block costs its instructions. Lines that are requested within `lookahead` instructions come side by side, as in a
 * processor that executes out of order: the CPU stands still when it has executed that many instructions after the
 * first missing line that it reads. Lines that it only writes come meanwhile, as behind a store buffer. It waits for
 * all before an atomic operation (missing.c).
 *
 * A block only counts down to the next instruction at which something is due (asm/counted.h). Then it comes here.
 */
#include "host.h"
#include "image.h"

#ifdef CONFIG_SIM_COUNTED
#define MOST_LEFT (1U << 30)	/* instructions between two looks */
#define ALL 7			/* PROT_READ | PROT_WRITE | PROT_EXEC */

int img_left;				/* instructions until a block has to look */
unsigned long long img_due_ps;		/* what is charged once they are executed */
unsigned int img_instruction_ps;
static struct img_costs costs;
static u64 due;		/* instructions since the boot, once those of img_left are executed */
static u64 missing_since;	/* the value of executed() at the first line that is still missing */
static u64 missing_until;	/* when all missing lines have come, by img_charged_ps(); 0: none is missing */
static u64 waited_ps;		/* for lines, since the boot */
static u64 sampled_ps;		/* the time up to the last sample: its instructions and waits */
bool img_halved;		/* an atomic operation is under way */
static bool exact;

static u64 executed(void)
{
	return due - img_left;
}

static u64 unsampled_ps(void)
{
	return executed() * img_instruction_ps + waited_ps - sampled_ps;
}

/* Blocks look once this many more instructions are executed. */
static void look_after(u64 instructions)
{
	int left = min_t(u64, instructions, MOST_LEFT) - 1;

	due += left - img_left;
	img_due_ps += (long)(left - img_left) * img_instruction_ps;
	img_left = left;
}

/* Sets when blocks have to look next. */
static void look_again(void)
{
	u64 next = MOST_LEFT, unsampled = costs.sample_ps - unsampled_ps();

	if (missing_until)
		next = max_t(s64, missing_since + costs.lookahead - executed(), 0);
	/* Mostly the sample is later, and nothing has to be divided. */
	if (next * img_instruction_ps > unsampled)
		next = (unsampled + img_instruction_ps - 1) / img_instruction_ps;
	look_after(exact ? 0 : next);
}

static void img_sample_time(void)
{
	while (unlikely(unsampled_ps() >= costs.sample_ps)) {
		sampled_ps += costs.sample_ps;
		img_sample(NULL);
	}
}
/* Writes the instructions of each block into its code. */
static void write_blocks(void)
{
	const struct img_block *block = costs.blocks;
	unsigned long i;

	if (host_mprotect((void *)costs.text, costs.text_size, ALL))
		img_fatal("the system lets no process write its own code, by which code is counted: use level free");
	for (i = 0; i < costs.nr_blocks; i++, block++)
		if (block->at)
			memcpy((char *)costs.text + block->at, &block->instructions, sizeof(block->instructions));
}

int img_count(const struct img_costs *given)
{
	costs = *given;
	costs.sample_ps = costs.sample_ps ?: ~0ULL >> 1;
	img_instruction_ps = costs.instruction_ps;
	img_lines_init(&costs);
	write_blocks();
	img_go(img_cpu);
	look_again();
	return 0;
}

/* 1: other CPUs may act behind each block from here on. */
void img_exact(int on)
{
	exact = on;
	look_again();
}

/* The cost of code since the last call; a rest of less than a ns is kept for the next one. */
unsigned long long img_take_charge_ns(void)
{
	u64 ns = img_charged_ps() / 1000;

	img_due_ps -= ns * 1000;
	return ns;
}

/* An instruction takes so many ps from here on. What was charged before, and what was sampled, stays as it is. */
void img_instruction(unsigned int ps)
{
	long more = (long)ps - img_instruction_ps;

	if (!more)
		return;
	img_due_ps += img_left * more;
	sampled_ps += executed() * more;
	img_instruction_ps = ps;
	look_again();
}

/* The engine looks at the kernel by its own code: it costs nothing, and no line moves. Or the look is over. */
void img_apart(int on)
{
	static u64 charged_ps, not_sampled_ps;

	img_lines_charge(!on);
	if (on) {
		charged_ps = img_charged_ps();
		not_sampled_ps = unsampled_ps();
		return;
	}
	img_due_ps += charged_ps - img_charged_ps();
	sampled_ps += unsampled_ps() - not_sampled_ps;
	look_again();
}

/* The CPU has waited for another one. The engine knows, so that this is not charged; but samples show it. */
void img_waited(u64 ps)
{
	waited_ps += ps;
	img_sample_time();
}

/* Lets others act first if the CPU's time has passed the horizon, but not between the halves of an atomic operation. */
void img_may_leave(void)
{
	if (img_halved)
		return;
	img_has_queued = false;
	if (img_charged_ps() >= img_horizon_ps && img_weaving)
		img_leave();
}

#include "missing.c"

/* After a block whose instructions were the last ones that were left. */
void img_block_look(void)
{
	img_sample_time();
	if (missing_until && executed() - missing_since >= costs.lookahead)
		img_wait();
	look_again();
	if (unlikely(exact || img_has_queued))
		img_may_leave();
}

/* Instructions that no block has: those of a program that is interpreted. Before img_count() nothing is charged. */
void img_executed(unsigned int instructions)
{
	if (!img_instruction_ps)
		return;
	img_left -= instructions;
	if (img_left < 0)
		img_block_look();
}

/* Counted code jumps here from its place, which rax has, and returns there. */
asm(".text\n"
    ".globl img_block_due\n"
    ".hidden img_block_due\n"
    "img_block_due:\n"
    "	push %rax\n"
    "	jmp img_block_look\n");

/* A block at the end of a function, which is a jump. It costs nothing. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	if (unlikely(exact))
		img_may_leave();
}

#else
unsigned long long img_take_charge_ns(void)
{
	return 0;
}
int img_count(const struct img_costs *given)
{
	return -ENOSYS;
}
void img_instruction(unsigned int ps)
{
}
void img_apart(int on)
{
}
void img_drain(void)
{
}
void img_retire(void)
{
}
void img_may_leave(void)
{
}
#endif
