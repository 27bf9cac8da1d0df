// SPDX-License-Identifier: GPL-2.0-only
/*
 * Verbs that other CPUs may interrupt. Stands for CPUs that execute side by side.
 *
 * Each CPU has its own stack for verbs. Kernel code leaves it for the engine's where another CPU may have acted
 * meanwhile: while it waits for a lost cache line, for a lock or in a loop, before an event of the scheduler, or at
 * every basic block. It leaves only when its time has passed the horizon, which is the next event of another CPU. The
 * engine calls img_continue() when the CPU is the earliest again.
 *
 * Interrupts wait for the end of the verb. Locks of readers and writers, and loops, are looked at again after a while;
 * other locks are handed on (locks.c).
 *
 * Verbs that img_do() does not know never leave. If such a verb needs a lock of a CPU that has left, all CPUs that have
 * left finish their verbs first, out of turn.
 */
#include "image.h"

unsigned long long img_horizon_ps = ~0ULL;
bool img_weaving;
int img_verb = -1;

static void img_check_lock(const int *lock)
{
	if (lock && *lock < 0)
		img_fatal("a lock is taken that was released more often than it was taken");
}

static int img_run_verb(int verb, u64 a, u64 b)
{
	img_verb = verb;
	switch (verb) {
#define IMG_CALL(name, result, arguments, call) case IMG_DO_##name: return call;
	IMG_WOVEN(IMG_CALL)
#undef IMG_CALL
	}
	img_fatal("img_do(): no such verb");
}

#ifdef CONFIG_SIM_COUNTED
#define LOOK_AGAIN_PS 50000	/* between two looks at a lock of readers and writers, or at the condition of a loop */
#define MOST_LOOKS (IMG_LONGEST_NS * 1000ULL / LOOK_AGAIN_PS)	/* of one verb */

struct weave {
	char *memory;
	void *top;			/* where it was left */
	struct img_context context;
	struct img_missing missing;
	unsigned long irqs;
	bool left;			/* in the middle of a verb */
	int verb;
	u64 a, b;
	unsigned long looks;		/* at locks and loops, since the verb began */
	bool waits;			/* for a lock that nobody has handed on yet */
	u64 since_ps;			/* from when on, by img_time_ps() */
	int next;			/* the CPU that waits behind it, from 1 on */
};
static struct weave weaves[NR_CPUS];
static void *engine_top;		/* where the engine's stack was left */
static bool woven, finishing;
static unsigned int nr_left;

static void img_begin(void)
{
	struct weave *mine = &weaves[img_cpu];

	img_run_verb(mine->verb, mine->a, mine->b);
	img_weaving = false;
	img_swap(&mine->top, engine_top);
}
void img_weave(int exact)
{
	unsigned int cpu;

	woven = true;
	img_exact(exact);
	img_lines_queue();
	for (cpu = 0; cpu < img_machine.nr_cpus; cpu++)
		weaves[cpu].memory = img_stack_memory();
}

int img_do(int verb, unsigned long long a, unsigned long long b, int may_leave)
{
	struct weave *mine = &weaves[img_cpu];

	if (!woven || !may_leave)
		return img_run_verb(verb, a, b);
	if (mine->left)
		img_fatal("img_do(): the CPU is in the middle of another verb");
	mine->verb = verb;
	mine->a = a;
	mine->b = b;
	mine->looks = 0;
	img_weaving = true;
	img_swap(&engine_top, img_frame(mine->memory, img_begin));
	return 0;
}

static u64 img_time_ps(void)
{
	return img_now * 1000 + img_charged_ps();
}

/* The CPU's verb stops here for others. */
static void leave(void)
{
	struct weave *mine = &weaves[img_cpu];

	img_times_left++;
	mine->context = img_context;
	mine->irqs = img_irqs;
	/* The next verb belongs to another CPU. */
	img_irqs = 1;
	img_missing_keep(&mine->missing);
	mine->left = true;
	nr_left++;
	img_weaving = false;
	img_context = (struct img_context){ };
	img_view.flags = IMG_V_LEFT | (mine->waits ? IMG_V_WAITS : 0);
	img_swap(&mine->top, engine_top);
}

void img_leave(void)
{
	if (!finishing && img_weaving)
		leave();
}

/* Continues the verb that the entered CPU has left, up to its end or until it leaves again. */
static void resume_verb(void)
{
	struct weave *mine = &weaves[img_cpu];

	mine->left = false;
	nr_left--;
	img_context = mine->context;
	img_irqs = mine->irqs;
	img_verb = mine->verb;
	img_missing_restore(&mine->missing);
	img_weaving = true;
	img_swap(&engine_top, mine->top);
}

void img_continue(void)
{
	if (weaves[img_cpu].left)
		resume_verb();
	else
		img_look();
}

bool img_anyone_left(void)
{
	return nr_left || finishing;
}

/* All CPUs in the middle of a verb, except one, finish it out of turn. The longest one has its time. */
static void finish(int but)
{
	struct img_context context = img_context;
	unsigned long irqs = img_irqs;
	struct task_struct *curr = img_current;
	void *top = engine_top;
	bool weaving = img_weaving, was = finishing, goes_on;
	u64 charged = img_charged_ps(), longest = 0;
	struct img_missing missing;
	int cpu, mine = img_cpu;

	img_missing_keep(&missing);
	finishing = true;
	do {
		goes_on = false;
		for (cpu = 0; cpu < img_machine.nr_cpus; cpu++) {
			if (cpu == but || !weaves[cpu].left || weaves[cpu].waits)
				continue;
			img_go(cpu);
			resume_verb();
			/* Each does so side by side with the others. */
			longest = max(longest, img_charged_ps() - charged);
			img_due_ps -= img_charged_ps() - charged;
			goes_on = true;
		}
	} while (goes_on);
	img_due_ps += longest;
	finishing = was;
	img_go(mine);
	img_current = curr;
	img_context = context;
	img_irqs = irqs;
	img_weaving = weaving;
	engine_top = top;
	img_missing_restore(&missing);
}

void img_finish(void)
{
	finish(-1);
	img_look();
}

/* Others act. */
static void wait(const char *alone)
{
	if (!nr_left || weaves[img_cpu].looks++ == MOST_LOOKS)
		img_fatal(alone);
	if (!img_weaving) {
		finish(img_cpu);
		return;
	}
	img_due_ps += LOOK_AGAIN_PS;
	leave();
}

#include "locks.c"
#else
bool img_anyone_left(void)
{
	return false;
}
void img_weave(int exact)
{
}
void img_finish(void)
{
}
int img_do(int verb, unsigned long long a, unsigned long long b, int may_leave)
{
	return img_run_verb(verb, a, b);
}
void img_continue(void)
{
}
static void wait(const char *alone)
{
	img_fatal(alone);
}
int img_contended(void *lock)
{
	img_check_lock(lock);
	img_fatal("a lock is taken that is taken already");
}
void img_hand_on(void *lock)
{
	img_fatal("a lock is released that others wait for, and nobody waits for locks here");
}
#endif

/*
 * A loop that waits comes back as it was: to the same place, with the same registers and frame, and no time has passed.
 * Many loops relax though nobody has to be waited for, such as those of lib/genalloc.c at each word of a bitmap.
 */
#define STATE_WORDS 16
#define MOST_ALIKE 1000
void img_relaxed(const unsigned long *state);
void img_relaxed(const unsigned long *state)
{
	static unsigned long before[STATE_WORDS];
	static u64 last;
	static int alike;

	if (img_takes_work())
		return;
	alike = img_time() == last && !memcmp(before, state, sizeof(before)) ? alike + 1 : 0;
	last = img_time();
	memcpy(before, state, sizeof(before));
	if (!img_anyone_left() && alike < MOST_ALIKE)
		return;
	wait("a CPU waits for another one in a loop");
}
