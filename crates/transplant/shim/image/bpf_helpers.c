// SPDX-License-Identifier: GPL-2.0-only
/*
 * Helpers of BPF, by their numbers in include/uapi/linux/bpf.h. Stands for kernel/bpf/helpers.c and the helpers of
 * kernel/trace/bpf_trace.c. Errors are those of a kernel. What is printed goes nowhere.
 */
#include <linux/random.h>

#define MAP(a) ((struct img_map *)(a))
#define HELPER(name) static u64 help_##name(u64 a, u64 b, u64 c, u64 d, u64 e)
#define RETURNS(name, value) HELPER(name) { return value; }

RETURNS(map_lookup_elem, (u64)img_map_find(MAP(a), (void *)b, img_cpu))
RETURNS(map_update_elem, img_map_write(MAP(a), (void *)b, (void *)c, d))
RETURNS(map_delete_elem, img_map_delete(MAP(a), (void *)b))
RETURNS(map_lookup_percpu_elem, c < nr_cpu_ids ? (u64)img_map_find(MAP(a), (void *)b, c) : 0)
RETURNS(for_each_map_elem, img_map_each(MAP(a), b, c))
RETURNS(storage_get, (u64)img_map_owned(MAP(a), (void *)b, (void *)c, d & BPF_LOCAL_STORAGE_GET_F_CREATE))
RETURNS(storage_delete, b ? img_map_delete(MAP(a), &b) : -EINVAL)
RETURNS(ktime_get_ns, img_time())
RETURNS(jiffies64, jiffies)
RETURNS(get_prandom_u32, get_random_u32())
RETURNS(get_smp_processor_id, img_cpu)
RETURNS(get_numa_node_id, cpu_to_node(img_cpu))
RETURNS(get_current_task, (u64)current)
RETURNS(get_current_pid_tgid, (u64)current->tgid << 32 | current->pid)
RETURNS(get_current_uid_gid, 0)
RETURNS(get_current_cgroup_id, task_dfl_cgroup(current)->kn->id)
RETURNS(per_cpu_ptr, b < nr_cpu_ids ? (u64)per_cpu_ptr((void __percpu *)a, b) : 0)
RETURNS(this_cpu_ptr, (u64)per_cpu_ptr((void __percpu *)a, img_cpu))
RETURNS(strncmp, strncmp((char *)a, (char *)c, b))
RETURNS(nothing, 0)

HELPER(get_current_comm)
{
	strscpy((char *)a, current->comm, b);
	return 0;
}

/* A kernel has no memory at a variable's address that only some CPU's offset makes one. */
static bool faults(const char *at)
{
	return img_bpf_is_null(at) || at >= __per_cpu_start && at < __per_cpu_end;
}
HELPER(probe_read)
{
	if (faults((char *)c)) {
		memset((void *)a, 0, b);
		return -EFAULT;
	}
	memcpy((void *)a, (void *)c, b);
	return 0;
}
HELPER(probe_read_str)
{
	if (faults((char *)c) || !b)
		return -EFAULT;
	strscpy((char *)a, (char *)c, b);
	return strlen((char *)a) + 1;
}

HELPER(loop)
{
	u32 i;

	if (a > 1 << 23)
		return -E2BIG;
	for (i = 0; i < a; i++)
		if (img_bpf_call(b, i, c, 0, 0, 0))
			return i + 1;
	return i;
}

HELPER(kptr_xchg)
{
	u64 old = *(u64 *)a;

	*(u64 *)a = b;
	return old;
}

/* A lock of a program is a lock of the kernel's, with interrupts off. */
static unsigned long lock_flags[NR_CPUS];
HELPER(spin_lock)
{
	unsigned long flags;

	local_irq_save(flags);
	lock_flags[img_cpu] = flags;
	arch_spin_lock((arch_spinlock_t *)a);
	return 0;
}
HELPER(spin_unlock)
{
	arch_spin_unlock((arch_spinlock_t *)a);
	local_irq_restore(lock_flags[img_cpu]);
	return 0;
}

/* Queues and stacks. */
static char *place_of(struct img_map *map, u64 number)
{
	return (char *)map->values + map->value_bytes * (number % map->about.max_entries);
}
HELPER(map_push_elem)
{
	struct img_map *map = MAP(a);

	if (map->tail - map->head >= map->about.max_entries) {
		if (!(c & BPF_EXIST))
			return -E2BIG;
		map->head++;
	}
	memcpy(place_of(map, map->tail++), (void *)b, map->about.value_bytes);
	return 0;
}
HELPER(map_peek_elem)
{
	struct img_map *map = MAP(a);
	bool is_stack = map->about.kind == BPF_MAP_TYPE_STACK;

	if (map->tail == map->head) {
		memset((void *)b, 0, map->about.value_bytes);
		return -ENOENT;
	}
	memcpy((void *)b, place_of(map, is_stack ? map->tail - 1 : map->head), map->about.value_bytes);
	return 0;
}
HELPER(map_pop_elem)
{
	struct img_map *map = MAP(a);
	u64 failed = help_map_peek_elem(a, b, 0, 0, 0);

	if (!failed && map->about.kind == BPF_MAP_TYPE_STACK)
		map->tail--;
	else if (!failed)
		map->head++;
	return failed;
}

/* Timers. */
static enum hrtimer_restart timer_fires(struct hrtimer *fired)
{
	struct timer *timer = container_of(fired, struct timer, timer);

	if (timer->callback && timer->gone_before == schedulers_gone)
		img_bpf_call(timer->callback, (u64)timer->map, (u64)timer->key, (u64)timer->value, 0, 0);
	return HRTIMER_NORESTART;
}
HELPER(timer_init)
{
	struct timer *timer = *(struct timer **)a ? NULL : img_alloc(sizeof(*timer));

	if (!timer)
		return -EBUSY;
	timer->gone_before = schedulers_gone;
	timer->map = MAP(b);
	timer->value = img_map_value_of(timer->map, (void *)a, &timer->key);
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(&timer->timer, timer_fires, c & 15, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(&timer->timer, c & 15, HRTIMER_MODE_REL_SOFT);
	timer->timer.function = timer_fires;
#endif
	*(struct timer **)a = timer;
	return 0;
}
HELPER(timer_set_callback)
{
	struct timer *timer = *(struct timer **)a;

	if (!timer)
		return -EINVAL;
	timer->callback = b;
	return 0;
}
HELPER(timer_start)
{
	struct timer *timer = *(struct timer **)a;
	int mode = c & BPF_F_TIMER_ABS ? HRTIMER_MODE_ABS_SOFT : HRTIMER_MODE_REL_SOFT;

	if (!timer || !timer->callback)
		return -EINVAL;
	hrtimer_start(&timer->timer, ns_to_ktime(b), c & BPF_F_TIMER_CPU_PIN ? mode | HRTIMER_MODE_PINNED : mode);
	return 0;
}
HELPER(timer_cancel)
{
	struct timer *timer = *(struct timer **)a;

	return timer ? hrtimer_try_to_cancel(&timer->timer) : -EINVAL;
}

/* A format with values of 8 bytes each. */
HELPER(snprintf)
{
	struct bpf_bprintf_data data = { };
	int failed = e % 8 || e && !d ? -EINVAL : bpf_bprintf_prepare((char *)c, 0, (u64 *)d, e / 8, &data);

	return failed ? failed : bstr_printf((char *)a, b, (char *)c, data.bin_args) + 1;
}
/* Counters of the CPU's hardware: nobody has opened one. */
HELPER(perf_event_read_value)
{
	memset((void *)c, 0, d);
	return -ENOENT;
}

#include "bpf_rings.c"
#include "bpf_dynptr.c"

static img_bpf_helper_t *const helpers[] = {
#define IS(name) [BPF_FUNC_##name] = help_##name
#define AS(name, other) [BPF_FUNC_##name] = help_##other
	IS(map_lookup_elem), IS(map_update_elem), IS(map_delete_elem), IS(map_lookup_percpu_elem),
	IS(for_each_map_elem), IS(loop), IS(map_push_elem), IS(map_peek_elem), IS(map_pop_elem),
	AS(task_storage_get, storage_get), AS(task_storage_delete, storage_delete),
	AS(cgrp_storage_get, storage_get), AS(cgrp_storage_delete, storage_delete),
	IS(probe_read), AS(probe_read_kernel, probe_read), AS(probe_read_user, probe_read),
	IS(probe_read_str), AS(probe_read_kernel_str, probe_read_str), AS(probe_read_user_str, probe_read_str),
	IS(ktime_get_ns), AS(ktime_get_boot_ns, ktime_get_ns), AS(ktime_get_coarse_ns, ktime_get_ns),
	AS(ktime_get_tai_ns, ktime_get_ns), IS(jiffies64), IS(get_prandom_u32), IS(get_smp_processor_id),
	IS(get_numa_node_id), IS(get_current_task), AS(get_current_task_btf, get_current_task),
	IS(get_current_pid_tgid), IS(get_current_uid_gid), IS(get_current_cgroup_id), IS(get_current_comm),
	IS(per_cpu_ptr), IS(this_cpu_ptr), IS(spin_lock), IS(spin_unlock), IS(kptr_xchg), IS(strncmp),
	IS(timer_init), IS(timer_set_callback), IS(timer_start), IS(timer_cancel), IS(ringbuf_reserve),
	IS(snprintf), IS(perf_event_read_value),
	IS(ringbuf_output), IS(ringbuf_submit), IS(ringbuf_discard), IS(ringbuf_query),
	IS(ringbuf_reserve_dynptr), IS(ringbuf_submit_dynptr), IS(ringbuf_discard_dynptr), IS(user_ringbuf_drain),
	IS(dynptr_from_mem), IS(dynptr_read), IS(dynptr_write), IS(dynptr_data),
	AS(perf_event_output, nothing), AS(trace_printk, nothing), AS(trace_vprintk, nothing),
};
void *img_bpf_helper_at(unsigned int id)
{
	return id < ARRAY_SIZE(helpers) ? helpers[id] : NULL;
}
