// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel threads of each CPU: ksoftirqd and the stopper. Stands for kernel/smpboot.c and kernel/kthread.c.
 *
 * kernel/softirq.c and kernel/stop_machine.c register the work of their threads. The engine calls img_kthread() when
 * such a thread is current, which is one round of the loop of smpboot.c.
 */
#include "image.h"
#include <linux/smpboot.h>
#include "kernel/smpboot.h"

static LIST_HEAD(registered);

static void create(struct smp_hotplug_thread *thread, unsigned int cpu)
{
	char name[TASK_COMM_LEN];
	struct task_struct *p;

	if (*per_cpu_ptr(thread->store, cpu))
		return;
	snprintf(name, sizeof(name), thread->thread_comm, cpu);
	p = img_kthread_new(name, cpu);
	img_task_of(p)->thread = thread;
	*per_cpu_ptr(thread->store, cpu) = p;
	if (thread->create)
		thread->create(cpu);
	WRITE_ONCE(p->__state, TASK_INTERRUPTIBLE);
}

int smpboot_register_percpu_thread(struct smp_hotplug_thread *thread)
{
	unsigned int cpu;

	list_add(&thread->list, &registered);
	for_each_online_cpu(cpu)
		create(thread, cpu);
	return 0;
}
int smpboot_create_threads(unsigned int cpu)
{
	struct smp_hotplug_thread *thread;

	list_for_each_entry(thread, &registered, list)
		create(thread, cpu);
	return 0;
}
int smpboot_unpark_threads(unsigned int cpu)
{
	struct smp_hotplug_thread *thread;

	list_for_each_entry(thread, &registered, list)
		if (thread->unpark)
			thread->unpark(cpu);
	return 0;
}
int smpboot_park_threads(unsigned int cpu)
{
	return 0;
}

int img_kthread_pid(int cpu, int ksoftirqd)
{
	struct smp_hotplug_thread *thread;

	list_for_each_entry(thread, &registered, list)
		if (!strncmp(thread->thread_comm, ksoftirqd ? "ksoftirqd" : "migration", 9))
			return (*per_cpu_ptr(thread->store, cpu))->pid;
	return -ENOENT;
}

void img_kthread(void)
{
	struct img_task *self = img_task_of(current);
	struct smp_hotplug_thread *thread = self->thread;

	if (!thread)
		img_fatal("img_kthread(): the current task is not a kernel thread of a CPU");
	if (!self->set_up && thread->setup)
		thread->setup(img_cpu);
	self->set_up = true;
	set_current_state(TASK_INTERRUPTIBLE);
	if (thread->thread_should_run(img_cpu)) {
		__set_current_state(TASK_RUNNING);
		thread->thread_fn(img_cpu);
	} else {
		schedule();
	}
	img_settle_balanced();
}

/* hotplug.c makes the idle tasks. */
void idle_thread_set_boot_cpu(void)
{
}
void idle_threads_init(void)
{
}
struct task_struct *idle_thread_get(unsigned int cpu)
{
	return idle_task(cpu);
}

/* Questions about kernel threads. */
bool kthread_is_per_cpu(struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 && (p->flags & PF_KTHREAD);
}
bool kthread_should_stop(void)
{
	return false;
}
bool __kthread_should_park(struct task_struct *p)
{
	return false;
}
void kthread_set_per_cpu(struct task_struct *p, int cpu)
{
}
int kthread_park(struct task_struct *p)
{
	return 0;
}
void kthread_unpark(struct task_struct *p)
{
}
#ifdef HAVE_KTHREAD_STRUCT_BOOL
bool set_kthread_struct(struct task_struct *p)
{
	return true;
}
#else
void set_kthread_struct(struct task_struct *p)
{
}
#endif
