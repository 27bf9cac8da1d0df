// SPDX-License-Identifier: GPL-2.0-only
/*
 * The idle loop. The tree's own runs, on a stack of each idle task, and is left where the CPU halts. Stands for an
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

/* The CPU halts until an interrupt. */
static void halt(int state, bool polls)
{
	struct img_note *note = img_note(IMG_IDLE, img_cpu);

	note->value = state;
	note->flags = (tick_nohz_tick_stopped() ? 1 : 0) | (polls ? 2 : 0);
	img_halt();
}

/* Without a driver. */
void arch_cpu_idle(void)
{
	halt(0, false);
}

void img_idle_enter(void)
{
	img_idle_run(loop);
	img_settle_balanced();
}

/* The loop is where it was left, and looks at the idle task's flag by itself. */
void img_idle_leave(void)
{
	img_idle_run(loop);
	img_settle_balanced();
}

#ifdef CONFIG_CPU_IDLE
static int enter(struct cpuidle_device *device, struct cpuidle_driver *driver, int index)
{
	halt(index, false);
	raw_local_irq_disable();
	return index;
}
static int enter_polling(struct cpuidle_device *device, struct cpuidle_driver *driver, int index)
{
	if (!current_set_polling_and_test())
		halt(index, true);
	current_clr_polling();
	raw_local_irq_disable();
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

/* Before the governors register: the first that has the wanted name, or the one of the highest rating, is used. */
void img_idle_governor(void)
{
	if (img_machine.idle_governor)
		strscpy(param_governor, img_machine.idle_governor, CPUIDLE_NAME_LEN);
}

void img_idle_init(void)
{
	const struct img_idle_state *from = img_machine.idle_states;
	int i;

	if (!img_machine.nr_idle_states)
		return;
	if (img_machine.nr_idle_states > CPUIDLE_STATE_MAX)
		img_fatal("the machine has more idle states than the kernel has room for");
	for (i = 0; i < img_machine.nr_idle_states; i++, from++) {
		struct cpuidle_state *state = &driver.states[i];

		strscpy(state->name, from->name, sizeof(state->name));
		state->exit_latency_ns = from->exit_ns;
		state->target_residency_ns = from->residency_ns;
		/* The flag says that a state is the loop of poll_state.c, which is not worth entering for long. */
		state->flags = from->polls && !from->exit_ns ? CPUIDLE_FLAG_POLLING : 0;
		state->enter = from->polls ? enter_polling : enter;
	}
	driver.state_count = i;
	if (cpuidle_register(&driver, NULL))
		img_fatal("the cpuidle driver can't be registered");
}
#else
void img_idle_governor(void)
{
}
void img_idle_init(void)
{
}
#endif
