// SPDX-License-Identifier: GPL-2.0-only
/*
 * The surroundings of sched_ext: work for kernel threads, delayed work, kobjects, registrations of BPF, caches of CPUs.
 * Stands for the workers of kernel/kthread.c, the delayed work of kernel/workqueue.c, lib/kobject.c,
 * drivers/base/cacheinfo.c and kernel/bpf/bpf_struct_ops.c. Times are jiffies where the kernel's are.
 */
#include "host.h"
#include "image.h"
#include <linux/bpf.h>
#include <linux/bpf_mem_alloc.h>
#include <linux/btf.h>
#include <linux/cacheinfo.h>
#include <linux/cpufreq.h>
#include <linux/kobject.h>
#include <linux/nodemask.h>
#include <linux/rhashtable.h>
#include <linux/stacktrace.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>
#include <linux/unaligned.h>
#include <linux/workqueue.h>
#include "bpf.h"

/*
 * A worker has a task, which other code gives a policy, and which never runs. Its work is done when no CPU is inside of
 * a verb, or at once for somebody who waits for it. The task is parked, so that nobody can wake it.
 */
static LIST_HEAD(deferred);
struct kthread_worker *img_worker_new(void) __asm__("kthread_create_worker_on_node");
struct kthread_worker *img_worker_new(void)
{
	struct kthread_worker *worker = img_alloc(sizeof(*worker));

	raw_spin_lock_init(&worker->lock);
	INIT_LIST_HEAD(&worker->work_list);
	INIT_LIST_HEAD(&worker->delayed_work_list);
	worker->task = img_kthread_new("scx_worker", -1);
	WRITE_ONCE(worker->task->__state, TASK_PARKED);
	return worker;
}
/* The function's name before 6.14. */
struct kthread_worker *img_worker_made(void) __asm__("kthread_create_worker");
struct kthread_worker *img_worker_made(void)
{
	return img_worker_new();
}
bool kthread_queue_work(struct kthread_worker *worker, struct kthread_work *work)
{
	if (!list_empty(&work->node))
		return false;
	list_add_tail(&work->node, &deferred);
	return true;
}
static void do_work(struct kthread_work *work)
{
	list_del_init(&work->node);
	work->func(work);
}
void kthread_flush_work(struct kthread_work *work)
{
	if (!list_empty(&work->node))
		do_work(work);
}
void kthread_destroy_worker(struct kthread_worker *worker)
{
}
void img_ext_settle(void)
{
	while (!list_empty(&deferred))
		do_work(list_first_entry(&deferred, struct kthread_work, node));
}

/* Delayed work is done in the softirq of its timer. */
void delayed_work_timer_fn(struct timer_list *timer)
{
	struct delayed_work *work = container_of(timer, struct delayed_work, timer);

	work->work.func(&work->work);
}
bool queue_delayed_work_on(int cpu, struct workqueue_struct *queue, struct delayed_work *work, unsigned long delay)
{
	if (timer_pending(&work->timer))
		return false;
	work->timer.expires = jiffies + delay;
	add_timer(&work->timer);
	return true;
}
bool mod_delayed_work_on(int cpu, struct workqueue_struct *queue, struct delayed_work *work, unsigned long delay)
{
	return mod_timer(&work->timer, jiffies + delay);
}
bool cancel_delayed_work_sync(struct delayed_work *work)
{
	return timer_delete(&work->timer);
}
bool queue_rcu_work(struct workqueue_struct *queue, struct rcu_work *work)
{
	work->work.func(&work->work);
	return true;
}
void synchronize_rcu_expedited(void)
{
}

/* kernel/exit.c: the writer of a percpu-rwsem finds no reader, and does not wait. */
void finish_rcuwait(struct rcuwait *wait)
{
	rcu_assign_pointer(wait->task, NULL);
	__set_current_state(TASK_RUNNING);
}
int rcuwait_wake_up(struct rcuwait *wait)
{
	return 0;
}

/* Kobjects are counted, and are in no file system. */
struct kobject *kernel_kobj;
const struct sysfs_ops kobj_sysfs_ops;
void kobject_init(struct kobject *object, const struct kobj_type *type)
{
	kref_init(&object->kref);
	object->ktype = type;
}
int kobject_add(struct kobject *object, struct kobject *parent, const char *format, ...)
{
	return 0;
}
int kobject_init_and_add(struct kobject *object, const struct kobj_type *type, struct kobject *parent,
			 const char *format, ...)
{
	kobject_init(object, type);
	return 0;
}
void kobject_del(struct kobject *object)
{
}
struct kobject *kobject_get(struct kobject *object)
{
	if (object)
		kref_get(&object->kref);
	return object;
}
void kobject_put(struct kobject *object)
{
	if (object && refcount_dec_and_test(&object->kref.refcount) && object->ktype)
		object->ktype->release(object);
}
int kobject_uevent(struct kobject *object, enum kobject_action action)
{
	return 0;
}
struct kset *kset_create_and_add(const char *name, const struct kset_uevent_ops *ops, struct kobject *parent)
{
	struct kset *set = img_alloc(sizeof(*set));

	kref_init(&set->kobj.kref);
	return set;
}
int sysfs_create_group(struct kobject *object, const struct attribute_group *group)
{
	return 0;
}
int blocking_notifier_chain_register(struct blocking_notifier_head *head, struct notifier_block *block)
{
	return 0;
}

/* The last-level cache of each CPU, which is asked for by position alone. */
struct cpu_cacheinfo *get_cpu_cacheinfo(unsigned int cpu)
{
	static struct cpu_cacheinfo *all[NR_CPUS];
	struct cacheinfo *leaf;
	int other;

	if (all[cpu])
		return all[cpu];
	all[cpu] = img_alloc(sizeof(*all[cpu]));
	leaf = img_alloc(sizeof(*leaf));
	leaf->level = 3;
	leaf->id = img_machine.llc[cpu];
	leaf->type = CACHE_TYPE_UNIFIED;
	leaf->attributes = CACHE_ID;
	for_each_possible_cpu(other)
		if (img_machine.llc[other] == img_machine.llc[cpu])
			cpumask_set_cpu(other, &leaf->shared_cpu_map);
	all[cpu]->info_list = leaf;
	all[cpu]->num_leaves = all[cpu]->num_levels = 1;
	return all[cpu];
}
/* drivers/cpufreq: no CPU has a policy. Programs ask for it by name. */
static DEFINE_PER_CPU(struct cpufreq_policy *, cpufreq_cpu_data) __used;

/* The nearest node of a mask; MAX_NUMNODES if the mask is empty. */
int nearest_node_nodemask(int node, nodemask_t *mask)
{
	int other, found = MAX_NUMNODES, least = INT_MAX;

	for_each_node_mask(other, *mask)
		if (node_distance(node, other) < least) {
			least = node_distance(node, other);
			found = other;
		}
	return found;
}

/* What a kernel notes about BPF at its boot: the structs of operations are kept (bpf_ops.c), sets of kfuncs are not. */
int register_btf_kfunc_id_set(enum bpf_prog_type type, const struct btf_kfunc_id_set *set)
{
	return 0;
}
int register_btf_id_dtor_kfuncs(const struct btf_id_dtor_kfunc *functions, u32 nr, struct module *owner)
{
	return 0;
}
int bpf_mem_alloc_init(struct bpf_mem_alloc *pool, int size, bool is_percpu)
{
	/* The size is all that is known of a pool; it stands in a field that nobody else reads. */
	pool->cache = (void *)(unsigned long)size;
	return 0;
}
void *bpf_mem_cache_alloc(struct bpf_mem_alloc *pool)
{
	return img_alloc((unsigned long)pool->cache);
}
void bpf_mem_cache_free_rcu(struct bpf_mem_alloc *pool, void *at)
{
}

/* lib/kmemdup, mm/util.c, mm/vmalloc.c */
const char *kstrdup_const(const char *text, gfp_t flags)
{
	return text;
}
void kfree_const(const void *text)
{
}
void vfree(const void *at)
{
}
void kvfree_atomic(const void *at)
{
}
void *vzalloc_node_noprof(unsigned long size, int node)
{
	return img_alloc(size);
}
bool cancel_work_sync(struct work_struct *work)
{
	return false;
}
void *kmemdup_noprof(const void *from, size_t size, gfp_t flags)
{
	return memcpy(img_alloc(size), from, size);
}
/* kernel/stacktrace.c: calls have no names here. */
unsigned int stack_trace_save(unsigned long *store, unsigned int size, unsigned int skip)
{
	return 0;
}
unsigned int stack_trace_save_tsk(struct task_struct *p, unsigned long *store, unsigned int size, unsigned int skip)
{
	return 0;
}
void stack_trace_print(const unsigned long *entries, unsigned int nr, int spaces)
{
}
long copy_from_kernel_nofault(void *to, const void *from, size_t size)
{
	if (img_bpf_is_null(from))
		return -EFAULT;
	memcpy(to, from, size);
	return 0;
}

#include "bpf_fields.c"
#include "bpf_maps.c"
#include "bpf_writes.c"
#include "bpf_engine.c"
#include "bpf_arena.c"
#include "bpf_run.c"
#include "bpf_trace.c"
#include "bpf_helpers.c"
#include "ext_steps.c"
#include "bpf_kfuncs.c"
#include "bpf_iters.c"
#include "bpf_objects.c"
#include "bpf_locks.c"
#include "bpf_ops.c"
