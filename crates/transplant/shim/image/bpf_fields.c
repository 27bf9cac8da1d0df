// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fields of maps' values that are not copied with them: locks, timers, references to objects, heads of lists and trees.
 * Stands for copy_map_value() and bpf_obj_free_fields() of Linux 7.3: a new value leaves them alone, and ends timers; a
 * value that is deleted drops what it refers to.
 */
#include <linux/bpf.h>

/* A soft hrtimer each, as in a kernel. A map's value has a pointer to it. */
struct timer {
	struct hrtimer timer;
	struct img_map *map;
	void *key, *value;
	u64 callback;
	int gone_before;		/* of schedulers_gone */
};
static int schedulers_gone;	/* with their maps, and the timers in them */

/* A callback that is under way runs to its end, and is the last one. */
static void timer_ends(struct timer **at)
{
	struct timer *timer = *at;

	*at = NULL;
	if (!timer)
		return;
	timer->callback = 0;
	if (hrtimer_try_to_cancel(&timer->timer) >= 0)
		img_free(timer);
}

static void object_drop(void *at);
__bpf_kfunc void bpf_cpumask_release(struct bpf_cpumask *cpumask);

static void drop_reference(int special, void **at)
{
	void *object = *at;

	*at = NULL;
	if (!object)
		return;
	if (special == IMG_BPF_KPTR_MASK)
		bpf_cpumask_release(object);
	else if (special == IMG_BPF_KPTR_OWN)
		object_drop(object);
}

/* What a value's fields hold is given back: timers alone, or everything. */
static void fields_end(const struct img_map *map, void *value, bool all)
{
	const struct img_bpf_field *field = map->about.fields, *end = field + map->about.nr_fields;

	for (; field < end; field++) {
		void *at = (char *)value + field->at;

		if (field->special == IMG_BPF_TIMER)
			timer_ends(at);
		else if (all && field->special >= IMG_BPF_KPTR && field->special <= IMG_BPF_KPTR_OWN)
			drop_reference(field->special, at);
		else if (all && field->special == IMG_BPF_HEAD)
			memset(at, 0, field->bytes);
	}
}

/* A value is copied around its fields. */
static void value_copied(const struct img_map *map, void *to, const void *from)
{
	const struct img_bpf_field *field = map->about.fields, *end = field + map->about.nr_fields;
	u32 done = 0, bytes = map->about.value_bytes;

	for (; field < end; field++) {
		memcpy((char *)to + done, (const char *)from + done, field->at - done);
		done = field->at + field->bytes;
	}
	memcpy((char *)to + done, (const char *)from + done, bytes - done);
}
