// SPDX-License-Identifier: GPL-2.0-only
/*
 * Switches between tasks, and stacks for calls that are left in the middle. Stands for an architecture's switch_to().
 *
 * A task has no kernel stack. The CPU's stack, which is the engine's, runs schedule() for prev and continues as next;
 * finish_task_switch() and the loops around it are correct for that unchanged. A verb ends with schedule(), so nothing
 * is lost.
 *
 * Few calls sleep in the middle (set_cpus_allowed_ptr() of a task that runs, sched_exec()), and the idle loop never
 * returns. Such a call begins on a stack of its own. When it sleeps, the switch is left there, next continues on the
 * CPU's stack, and schedule_tail() finishes the switch, as for a new task. When the sleeper is picked again, the switch
 * to it is an ordinary one on the CPU's stack and ends there; the view shows IMG_V_PARKED. img_resume() then goes back
 * to the sleeper's stack, where the second half of its own switch is still to come. It must not finish twice, so it is
 * given a task that never ran, and the lock that it is about to drop.
 *
 * The idle task also halts in the middle: img_halt() leaves its stack without a switch.
 *
 * A change from outside, which no task makes, has no caller that could sleep. It is made as the task `outsider`, which
 * is on no queue. Where it would wait for a stopper, its stack is left, and it looks again after each verb.
 */
#include "image.h"


struct img_stack {
	void *top;		/* where it was left */
	char *memory;
	void (*call)(void *argument);
	void *argument;
	struct img_stack *next;
};
static struct img_stack *unused;
struct img_context img_context;
static struct task_struct nobody;

#if defined(IMG_ON_X86_64)
__asm__(".text\n.hidden img_swap\n.globl img_swap\n.type img_swap, @function\nimg_swap:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
	".size img_swap, .-img_swap\n");
/* cpu_relax(): img_relaxed() sees the registers that calls keep, where the loop is, and the begin of its frame. */
__asm__(".text\n.hidden img_relaxed\n.globl img_relax\n.type img_relax, @function\nimg_relax:\n.cfi_startproc\n"
	"push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
	"push %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, %rdi\nsub $8, %rsp\ncall img_relaxed\nadd $48, %rsp\npop %rbp\n.cfi_def_cfa %rsp, 8\nret\n"
	".cfi_endproc\n"
	".size img_relax, .-img_relax\n");
#define RETURN_AT 6		/* after the saved words */
#define FRAME 8			/* a function begins with its return address on the stack */
#elif defined(IMG_ON_AARCH64)
__asm__(".text\n.hidden img_swap\n.globl img_swap\n.type img_swap, @function\nimg_swap:\n"
	"sub sp, sp, #160\n"
	"stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
	"stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
	"stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
	"mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
	"ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
	"ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
	"ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
	"add sp, sp, #160\nret\n"
	".size img_swap, .-img_swap\n");
__asm__(".text\n.hidden img_relaxed\n.globl img_relax\n.type img_relax, @function\nimg_relax:\n.cfi_startproc\n"
	"stp x29, x30, [sp, #-96]!\n.cfi_def_cfa_offset 96\n.cfi_offset x29, -96\n.cfi_offset x30, -88\n"
	"mov x29, sp\n.cfi_def_cfa_register x29\n"
	"stp x19, x20, [sp, #16]\nstp x21, x22, [sp, #32]\nstp x23, x24, [sp, #48]\n"
	"stp x25, x26, [sp, #64]\nstp x27, x28, [sp, #80]\n"
	"mov x0, sp\nbl img_relaxed\nldp x29, x30, [sp], #96\n.cfi_def_cfa sp, 0\nret\n"
	".cfi_endproc\n"
	".size img_relax, .-img_relax\n");
#define RETURN_AT 11
#define FRAME 20
#else
#error "stacks.c has no change of stacks for this processor"
#endif

/* The top of a stack on which a function begins, for img_swap(). */
void *img_frame(char *memory, void (*function)(void))
{
	void **frame = (void **)(memory + IMG_STACK_SIZE) - FRAME;

	memset(frame, 0, FRAME * sizeof(*frame));
	frame[RETURN_AT] = function;
	return frame;
}

struct task_struct *img_switch_to(struct task_struct *prev, struct task_struct *next)
{
	struct img_stack *mine = img_context.running;

	img_currents[img_cpu] = next;
	img_current = next;
	if (!mine)
		return prev;
	prev->thread.parked = mine;
	img_context.running = NULL;
	img_context.left = prev;
	img_swap(&mine->top, img_context.cpu_top);
	/* img_resume(): the switch to this task was finished on the CPU's stack. */
	local_irq_disable();
	preempt_count_set(PREEMPT_DISABLED);
#ifdef HAVE_RQ_LOCK
	raw_spin_rq_lock(this_rq());
#else
	raw_spin_lock(&this_rq()->lock);
#endif
	return &nobody;
}

/* The CPU's stack continues, since the other one has ended or its task sleeps. */
static void came_back(void)
{
	struct task_struct *prev = img_context.left;

	img_context.left = NULL;
	if (prev)
		schedule_tail(prev);
}

static struct img_stack *waiting;
static struct task_struct *outsider;

/* The linker turns all calls of schedule_timeout() into calls of this; completions wait in it. */
long __real_schedule_timeout(long timeout);
long __wrap_schedule_timeout(long timeout)
{
	struct img_stack *mine = img_context.running;

	if (!mine || current != outsider)
		return __real_schedule_timeout(timeout);
	/* The completing task must find nobody to wake. */
	__set_current_state(TASK_RUNNING);
	mine->next = waiting;
	waiting = mine;
	img_context.running = NULL;
	img_swap(&mine->top, img_context.cpu_top);
	return timeout;
}

#ifdef CONFIG_PREEMPTION
/* The kernel numbers its models from none, voluntary and full on. */
static bool preempts_kernel_code(void)
{
#ifdef CONFIG_PREEMPT_DYNAMIC
	return preempt_dynamic_mode >= 2;
#else
	return true;
#endif
}

/* preempt_enable() of a call that has its stack: the stopper that it woke runs before the call waits for it. */
void img_preempt(void)
{
	if (img_context.running && current != outsider && preempts_kernel_code() && need_resched())
		preempt_schedule();
}
#endif

void img_outside(void (*call)(void *argument), void *argument)
{
	struct task_struct *caller = img_current;
	bool weaving = img_weaving;

	img_weaving = false;
	if (!outsider)
		outsider = img_outsider_new();
	img_current = outsider;
	img_on_stack(call, argument);
	img_current = caller;
	img_weaving = weaving;
}

void img_outside_continue(void)
{
	struct task_struct *caller = img_current;
	struct img_stack *mine = waiting, *next;
	bool weaving = img_weaving;

	img_weaving = false;
	waiting = NULL;
	img_current = outsider;
	for (; mine; mine = next) {
		next = mine->next;
		img_context.running = mine;
		img_swap(&img_context.cpu_top, mine->top);
	}
	img_current = caller;
	img_weaving = weaving;
}

bool img_outside_waits(void)
{
	return waiting;
}

static void img_first(void)
{
	struct img_stack *mine = img_context.running;

	mine->call(mine->argument);
	img_context.running = NULL;
	mine->next = unused;
	unused = mine;
	img_swap(&mine->top, img_context.cpu_top);
}

void img_on_stack(void (*call)(void *argument), void *argument)
{
	struct img_stack *mine = unused;

	if (mine) {
		unused = mine->next;
	} else {
		mine = img_alloc(sizeof(*mine));
		mine->memory = img_stack_memory();
	}
	mine->call = call;
	mine->argument = argument;
	img_context.running = mine;
	img_swap(&img_context.cpu_top, img_frame(mine->memory, img_first));
	came_back();
}

/* Goes back to the stack of the current task. */
static void resume(void)
{
	struct img_stack *parked = current->thread.parked;

	current->thread.parked = NULL;
	img_context.running = parked;
	img_swap(&img_context.cpu_top, parked->top);
	came_back();
}

void img_resume(void)
{
	if (!current->thread.parked)
		img_fatal("img_resume(): the current task has left no call");
	resume();
	img_settle_balanced();
}

void img_halt(void)
{
	struct img_stack *mine = img_context.running;

	current->thread.parked = mine;
	img_context.running = NULL;
	local_irq_enable();
	img_swap(&mine->top, img_context.cpu_top);
}

void img_idle_run(void (*loop)(void *argument))
{
	if (current->thread.parked)
		resume();
	else
		img_on_stack(loop, NULL);
}
