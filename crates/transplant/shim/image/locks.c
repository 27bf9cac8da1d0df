// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks of CPUs that execute side by side; a part of weave.c. Stands for kernel/locking/qspinlock.c.
 *
 * CPUs get a lock in the order in which they came: the one that releases it hands it on, and its line then comes to the
 * next one, which had waited at a line of its own.
 */

/* A taken lock: 1, and from these bits on the first and the last CPU that wait for it, from 1 on; 0: none does. */
#define FIRST 1
#define LAST 12
#define CPU_BITS 0x7ff
static_assert(NR_CPUS < CPU_BITS);

static void set_first(int *lock, unsigned int cpu)
{
	*lock = (*lock & ~(CPU_BITS << FIRST)) | cpu << FIRST;
}
static void set_last(int *lock, unsigned int cpu)
{
	*lock = (*lock & ~(CPU_BITS << LAST)) | cpu << LAST;
}

/*
 * Waits until the lock is handed on to this CPU. Then its line comes, which other CPUs had meanwhile. The name is that
 * of the kernel's function, under which profiles show such waits.
 */
static noinline void native_queued_spin_lock_slowpath(int *lock)
{
	struct weave *mine = &weaves[img_cpu];
	unsigned int last = *lock >> LAST & CPU_BITS;

	if (last)
		weaves[last - 1].next = img_cpu + 1;
	else
		set_first(lock, img_cpu + 1);
	set_last(lock, img_cpu + 1);
	img_drain();
	mine->next = 0;
	mine->since_ps = img_time_ps();
	mine->waits = true;
	leave();
	if (mine->waits)
		img_fatal("a CPU waits for a lock that nobody releases");
	/* A verb that is finished out of turn may get it before. */
	img_waited(max_t(s64, img_time_ps() - mine->since_ps, 0));
	img_write(lock);
	img_drain();
}

/* 1: the CPU has the lock now; 0: it may try again. */
int img_contended(void *lock)
{
	static const char alone[] = "a lock is taken that is taken already";

	img_check_lock(lock);
	/* It may have been released since this CPU looked at it. */
	if (lock && !*(int *)lock)
		return 0;
	if (!lock || !img_weaving || (!nr_left && !finishing)) {
		wait(alone);
		return 0;
	}
	native_queued_spin_lock_slowpath(lock);
	return 1;
}

/* The lock is released, and goes to the first CPU that waits for it. */
void img_hand_on(void *lock)
{
	unsigned int first = *(int *)lock >> FIRST & CPU_BITS;
	struct weave *to = &weaves[first - 1];

	to->waits = false;
	if (to->next)
		set_first(lock, to->next);
	else
		*(int *)lock = 1;
	img_note(IMG_GRANT, first - 1)->at = DIV_ROUND_UP(max(img_stored_ps(), to->since_ps), 1000);
}
