// SPDX-License-Identifier: GPL-2.0-only
/*
 * The idle loop. The tree's own loop runs, on a stack of each idle task, and is left where the CPU halts. Stands for an
 * architecture's arch_cpu_idle(), and for a driver of drivers/idle: cpuidle and its governors are the tree's.
 */
#include "image.h"
#include <linux/cpu.h>
#include <linux/cpuidle.h>
#include <linux/device.h>
#include <linux/pm_qos.h>
#include <linux/sched/idle.h>
#include <linux/tick.h>
#ifdef CONFIG_CPU_IDLE
#include "drivers/cpuidle/cpuidle.h"
#endif

static void loop(void *unused)
{
	cpu_startup_entry(CPUHP_ONLINE);
}

/* The CPU halts until an interrupt, or polls until that time at the latest. */
static void halt(int state, u64 polls_until)
{
	struct img_note *note;

	img_audit_idle();
	note = img_note(IMG_IDLE, img_cpu);
	note->value = state;
	note->flags = (tick_nohz_tick_stopped() ? 1 : 0) | (polls_until ? 2 : 0);
	note->at = polls_until;
	img_halt();
}

/* Without a driver. */
void arch_cpu_idle(void)
{
	halt(0, 0);
}

void img_idle_enter(void)
{
	img_idle_run(loop);
	img_settle_balanced();
}

/* The loop continues where it was left, and itself looks at the idle task's flag. */
void img_idle_leave(void)
{
	img_idle_run(loop);
	img_settle_balanced();
}

#ifdef CONFIG_CPU_IDLE
static int enter(struct cpuidle_device *device, struct cpuidle_driver *driver, int index)
{
	halt(index, 0);
	raw_local_irq_disable();
	return index;
}
/* poll_idle() of drivers/cpuidle/poll_state.c, in which each look at the flag would take time. */
static int enter_polling(struct cpuidle_device *device, struct cpuidle_driver *driver, int index)
{
	u64 since = img_time();

	device->poll_time_limit = false;
	raw_local_irq_enable();
	if (!current_set_polling_and_test()) {
		u64 limit = cpuidle_poll_time(driver, device);

		while (!need_resched() && !device->poll_time_limit) {
			halt(index, since + limit + 1);
			device->poll_time_limit = !need_resched() && img_time() - since > limit;
		}
	}
	raw_local_irq_disable();
	current_clr_polling();
	return index;
}

/* drivers/base/cpu.c, kernel/power/qos.c: nobody asks for short latencies. */
struct device *get_cpu_device(unsigned int cpu)
{
	static struct device device;

	return &device;
}
s32 cpu_latency_qos_limit(void)
{
	return PM_QOS_CPU_LATENCY_DEFAULT_VALUE;
}

/* drivers/cpuidle/sysfs.c */
int cpuidle_add_sysfs(struct cpuidle_device *device)
{
	return 0;
}
int cpuidle_add_device_sysfs(struct cpuidle_device *device)
{
	return 0;
}
void cpuidle_remove_device_sysfs(struct cpuidle_device *device)
{
}

static struct cpuidle_driver driver = { .name = "sim" };

/* Before the governors register: the first one with the wanted name is used, or the one with the highest rating. */
void img_idle_governor(void)
{
	if (img_machine.idle_governor)
		strscpy(param_governor, img_machine.idle_governor, CPUIDLE_NAME_LEN);
}

static bool governor_is_there(void)
{
	const char *wanted = img_machine.idle_governor;

	return !wanted || (cpuidle_curr_governor && !strncmp(cpuidle_curr_governor->name, wanted, CPUIDLE_NAME_LEN));
}

int img_idle_init(void)
{
	const struct img_idle_state *from = img_machine.idle_states;
	int i;

	if (!img_machine.nr_idle_states)
		return 0;
	if (!governor_is_there())
		return -ENODEV;
	if (img_machine.nr_idle_states > CPUIDLE_STATE_MAX)
		img_fatal("the machine has more idle states than the kernel has room for");
	for (i = 0; i < img_machine.nr_idle_states; i++, from++) {
		struct cpuidle_state *state = &driver.states[i];

		strscpy(state->name, from->name, sizeof(state->name));
		state->exit_latency_ns = from->exit_ns;
		state->target_residency_ns = from->residency_ns;
		/* The flag marks the loop of poll_state.c, which is not worth entering for long. */
		state->flags = from->polls && !from->exit_ns ? CPUIDLE_FLAG_POLLING : 0;
		state->enter = from->polls ? enter_polling : enter;
	}
	driver.state_count = i;
	if (cpuidle_register(&driver, NULL))
		img_fatal("the cpuidle driver can't be registered");
	/*
	 * The scheduler compares microseconds, which 6.1.192 does not compute from ns (6.12.117 does). If they were set
	 * before, the ns would be rounded to them.
	 */
	for (i = 0; i < driver.state_count; i++)
		driver.states[i].exit_latency = driver.states[i].exit_latency_ns / NSEC_PER_USEC;
	return 0;
}
#else
void img_idle_governor(void)
{
}
int img_idle_init(void)
{
	return img_machine.nr_idle_states && img_machine.idle_governor ? -ENODEV : 0;
}
#endif
