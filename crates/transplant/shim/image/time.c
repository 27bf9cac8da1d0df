// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clock, and one clock event device for each CPU. Stands for kernel/time/timekeeping.c, an architecture's clock
 * sources and its timer.
 *
 * The engine keeps the clock; the cost of the running verb's code is added. The device gets an instant, which becomes a
 * note, and the engine calls img_irq_timer() then.
 */
#include "image.h"
#include <linux/clockchips.h>
#include <linux/sched/clock.h>
#include <linux/sched/loadavg.h>
#include <linux/seqlock.h>
#include <linux/tick.h>
#include <linux/timekeeper_internal.h>
#include <linux/timex.h>
#include "kernel/time/timekeeping.h"
#include "kernel/time/tick-internal.h"

unsigned long long img_now;

unsigned long long notrace sched_clock(void)
{
	return img_time();
}
cycles_t img_cycles(void)
{
	return img_time();
}
ktime_t ktime_get(void)
{
	return img_time();
}
ktime_t ktime_get_with_offset(enum tk_offsets offset)
{
	return img_time();
}
ktime_t ktime_get_update_offsets_now(unsigned int *seq, ktime_t *real, ktime_t *boot, ktime_t *tai)
{
	return img_time();
}
void ktime_get_real_ts64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(img_time());
}
int timekeeping_valid_for_hres(void)
{
	return 1;
}
u64 timekeeping_max_deferment(void)
{
	return KTIME_MAX;
}
void do_timer(unsigned long ticks)
{
	jiffies_64 += ticks;
	calc_global_load();
}
void update_wall_time(void)
{
}
__cacheline_aligned_in_smp DEFINE_RAW_SPINLOCK(jiffies_lock);
__cacheline_aligned_in_smp typeof(jiffies_seq) jiffies_seq;	/* all zero is its start without lockdep */

static DEFINE_PER_CPU(struct clock_event_device, img_tick);

static int tick_at(ktime_t at, struct clock_event_device *device)
{
	img_note(IMG_TIMER, img_cpu)->at = at;
	return 0;
}
static int tick_off(struct clock_event_device *device)
{
	img_note(IMG_TIMER, img_cpu)->at = IMG_NEVER;
	return 0;
}
static int tick_on(struct clock_event_device *device)
{
	return 0;
}
/* A device counts ns, so no multiplication is needed. */
void clocks_calc_mult_shift(u32 *mult, u32 *shift, u32 from, u32 to, u32 seconds)
{
	*shift = 20;
	*mult = 1 << 20;
}

/* A device that takes instants has one of two names. */
#ifndef CLOCK_EVT_FEAT_KTIME
#define CLOCK_EVT_FEAT_KTIME CLOCK_EVT_FEAT_HRTIMER
#endif

/* The entered CPU gets its device. */
void img_clock_init(void)
{
	struct clock_event_device *device = this_cpu_ptr(&img_tick);

	device->name = "sim";
	device->features = CLOCK_EVT_FEAT_ONESHOT | CLOCK_EVT_FEAT_KTIME;
	device->set_next_ktime = tick_at;
	device->set_state_shutdown = tick_off;
	device->set_state_oneshot = tick_on;
	device->set_state_oneshot_stopped = tick_off;
	device->rating = 300;
	device->cpumask = cpumask_of(img_cpu);
	clockevents_config_and_register(device, NSEC_PER_SEC, 1, ~0UL >> 2);
}

struct clock_event_device *img_clock(void)
{
	return this_cpu_ptr(&img_tick);
}

/* fs/timerfd.c */
void timerfd_clock_was_set(void)
{
}
