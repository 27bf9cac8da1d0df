// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions of BPF's core that programs call by name, and the call of any of the kernel's. Stands for the kfuncs of
 * kernel/bpf/helpers.c, task_iter.c and cpumask_iter.c: tasks and cgroups are the kernel's own, and are never freed, so
 * that references count nothing. Their names and prototypes are the kernel's, since programs find them by BTF.
 */
#include <linux/bpf_verifier.h>
#include <linux/btf_ids.h>

static struct bpf_prog a_program;
static struct bpf_prog_aux a_program_aux = { .prog = &a_program };

/*
 * A function of the kernel, with the registers of the program, which a call changes. Narrow results are widened as by a
 * kernel's JIT.
 */
u64 img_bpf_function(struct img_bpf_called *called, u64 *r)
{
	u64 (*at)(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) = called->at;
	u64 result;

	called->calls++;
	if (called->has_aux && called->arguments < 5)
		r[called->arguments + 1] = (u64)&a_program_aux;
	result = at(r[1], r[2], r[3], r[4], r[5], (u64)&a_program_aux);
	if (called->step)
		img_step_called(called, r, result);
	switch (called->result) {
	case IMG_BPF_BOOL: case IMG_BPF_U8: return (u8)result;
	case IMG_BPF_S8: return (s64)(s8)result;
	case IMG_BPF_U16: return (u16)result;
	case IMG_BPF_S16: return (s64)(s16)result;
	case IMG_BPF_U32: return (u32)result;
	case IMG_BPF_S32: return (s64)(s32)result;
	}
	return result;
}
struct img_bpf_called *img_bpf_called_new(const struct img_bpf_called *about)
{
	struct img_bpf_called *called = img_alloc(sizeof(*called));

	*called = *about;
	called->step = step_of(about->name);
	return called;
}

/* bpf_printk() and messages of errors: a format, and arguments of 8 bytes each, become those of bstr_printf(). */
static char *put(char *to, const void *value, int size)
{
	to = PTR_ALIGN(to, size < 4 ? size : 4);
	memcpy(to, value, size);
	return to + size;
}
/* Before 6.13 its format is not const. */
int img_bprintf(const char *format, u32 size, const u64 *values, u32 nr, struct bpf_bprintf_data *data)
	__asm__("bpf_bprintf_prepare");
int img_bprintf(const char *format, u32 size, const u64 *values, u32 nr, struct bpf_bprintf_data *data)
{
	static char memory[4096];
	char *to = memory;
	u32 used = 0;

	for (; *format; format++) {
		int longs = 0, bytes;

		if (*format != '%')
			continue;
		while (format[1] && strchr("-+ #0123456789.lhz", format[1]))
			longs += *++format == 'l' || *format == 'z' ? 1 : *format == 'h' ? -1 : 0;
		if (!*++format)
			return -EINVAL;
		if (*format == '%')
			continue;
		if (used == nr)
			return -EINVAL;
		bytes = *format == 'p' || longs > 0 ? 8 : *format == 'c' || longs < -1 ? 1 : longs < 0 ? 2 : 4;
		if (*format == 's') {
			const char *text = (const char *)values[used];

			text = img_bpf_is_null(text) ? "(null)" : text;
			to += strscpy(to, text, 512) < 0 ? 512 : strlen(text) + 1;
		} else {
			to = put(to, &values[used], bytes);
		}
		used++;
		if (to > memory + sizeof(memory) - 1024)
			return -E2BIG;
	}
	data->bin_args = (u32 *)memory;
	return 0;
}
void bpf_bprintf_cleanup(struct bpf_bprintf_data *data)
{
}

__bpf_kfunc_start_defs();

__bpf_kfunc struct task_struct *bpf_task_acquire(struct task_struct *p)
{
	return p;
}
__bpf_kfunc void bpf_task_release(struct task_struct *p)
{
}
__bpf_kfunc struct task_struct *bpf_task_from_pid(s32 pid)
{
	return pid > 0 && pid < img_pids() ? img_task_or_null(pid) : NULL;
}
__bpf_kfunc struct task_struct *bpf_task_from_vpid(s32 vpid)
{
	return bpf_task_from_pid(vpid);
}
__bpf_kfunc struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp)
{
	return cgrp;
}
__bpf_kfunc void bpf_cgroup_release(struct cgroup *cgrp)
{
}
__bpf_kfunc struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level)
{
	return level < 0 || level > cgrp->level ? NULL : cgrp->ancestors[level];
}
__bpf_kfunc void bpf_rcu_read_lock(void)
{
	rcu_read_lock();
}
__bpf_kfunc void bpf_rcu_read_unlock(void)
{
	rcu_read_unlock();
}
__bpf_kfunc void bpf_preempt_disable(void)
{
	preempt_disable();
}
__bpf_kfunc void bpf_preempt_enable(void)
{
	preempt_enable_no_resched();
}
__bpf_kfunc void *bpf_cast_to_kern_ctx(void *obj)
{
	return obj;
}
__bpf_kfunc void *bpf_rdonly_cast(const void *obj__ign, u32 btf_id__k)
{
	return (void *)obj__ign;
}

__bpf_kfunc void bpf_throw(u64 cookie)
{
	img_bpf_dies("it throws %llu", cookie);
}
__bpf_kfunc int bpf_stream_vprintk(int stream_id, const char *fmt__str, const void *args, u32 len__sz,
				   struct bpf_prog_aux *aux)
{
	return 0;
}

/* Texts: a place in one, or an error. A null pointer faults. */
#define TEXT(condition, value) (img_bpf_is_null(s__ign) ? -EFAULT : (condition) ? (int)(value) : -ENOENT)
__bpf_kfunc int bpf_strlen(const char *s__ign)
{
	return TEXT(true, strlen(s__ign));
}
__bpf_kfunc int bpf_strnlen(const char *s__ign, size_t count)
{
	return TEXT(true, strnlen(s__ign, count));
}
__bpf_kfunc int bpf_strchr(const char *s__ign, char c)
{
	return TEXT(strchr(s__ign, c), strchr(s__ign, c) - s__ign);
}
__bpf_kfunc int bpf_strcmp(const char *s1__ign, const char *s2__ign)
{
	const char *s__ign = img_bpf_is_null(s1__ign) ? s1__ign : s2__ign;
	int order = img_bpf_is_null(s__ign) ? 0 : strcmp(s1__ign, s2__ign);

	return TEXT(true, (order > 0) - (order < 0));
}
__bpf_kfunc int bpf_strstr(const char *s1__ign, const char *s2__ign)
{
	const char *s__ign = img_bpf_is_null(s1__ign) ? s1__ign : s2__ign;
	const char *found = img_bpf_is_null(s__ign) ? NULL : strstr(s1__ign, s2__ign);

	return TEXT(found, found - s1__ign);
}

/* Numbers from start up to end. */
struct bpf_iter_num_kern {
	int cur, end;
} __aligned(8);
__bpf_kfunc int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end)
{
	struct bpf_iter_num_kern *s = (void *)it;

	*s = (struct bpf_iter_num_kern){ };
	if (start > end)
		return -EINVAL;
	if ((s64)end - start > BPF_MAX_LOOPS)
		return -E2BIG;
	s->cur = start - 1;
	s->end = end;
	return 0;
}
__bpf_kfunc int *bpf_iter_num_next(struct bpf_iter_num *it)
{
	struct bpf_iter_num_kern *s = (void *)it;

	if ((s64)s->cur + 1 >= s->end) {
		s->cur = s->end = 0;
		return NULL;
	}
	s->cur++;
	return &s->cur;
}
__bpf_kfunc void bpf_iter_num_destroy(struct bpf_iter_num *it)
{
}

__bpf_kfunc_end_defs();
