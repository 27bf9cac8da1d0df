// SPDX-License-Identifier: GPL-2.0-only
/*
 * The states in which CPUs were chosen for tasks, so that the choices can be explained. Stands for nothing in the
 * kernel.
 *
 * When switched on, it stands between the core and select_task_rq() of each class: it reads the same state as the fair
 * class, lets the class choose, and notes the choice. Its own code reads, which costs nothing and changes nothing:
 * values that the class computes and stores on the way, such as a queue's h_load, are computed here separately.
 *
 * Its data and memory are apart from the kernel's, whose cache lines are counted by their addresses.
 */
#include "image.h"
#include "kernel/sched/sched-pelt.h"

#define APART __section(".img_choices")

struct slot {
	struct slot *next;
	struct img_choice choice;
};
static struct slot *unused APART = NULL, *noted APART = NULL;
unsigned long img_times_left APART = 0;

#ifdef HAVE_SELECT_BY_FLAGS
#define PARAMETERS struct task_struct *p, int prev, int flags
#define ARGUMENTS p, prev, flags
#define IS_NEW (flags & WF_FORK)
#define IS_WAKEUP (flags & WF_TTWU)
#else
#define PARAMETERS struct task_struct *p, int prev, int sd_flag, int flags
#define ARGUMENTS p, prev, sd_flag, flags
#define IS_NEW (sd_flag & SD_BALANCE_FORK)
#define IS_WAKEUP (sd_flag & SD_BALANCE_WAKE)
#endif
typedef int (*select_t)(PARAMETERS);
static select_t fair APART = NULL, rt APART = NULL, dl APART = NULL, ext APART = NULL;

/* A slot, in use until the notes are forgotten. */
static struct slot *slot_new(void)
{
	unsigned long cpus = sizeof(struct img_choice_cpu) * nr_cpu_ids;
	struct slot *slot = unused;

	if (slot) {
		unused = slot->next;
		return slot;
	}
	slot = img_map(sizeof(*slot) + 2 * cpus + BITS_TO_LONGS(nr_cpu_ids) * sizeof(long));
	slot->choice.cpus = (void *)(slot + 1);
	slot->choice.allowed = (void *)(slot + 1) + 2 * cpus;
	return slot;
}

void img_choices_forget(void)
{
	struct slot *slot;

	while ((slot = noted)) {
		noted = slot->next;
		slot->next = unused;
		unused = slot;
	}
}

/* update_cfs_rq_h_load() */
static unsigned long h_load(struct cfs_rq *cfs_rq)
{
#ifdef CONFIG_FAIR_GROUP_SCHED
	struct sched_entity *se = tg_se(cfs_rq->tg, cpu_of(rq_of(cfs_rq)));

	if (cfs_rq->last_h_load_update == jiffies)
		return cfs_rq->h_load;
	if (se)
		return h_load(cfs_rq_of(se)) * se->avg.load_avg / (cfs_rq_of(se)->avg.load_avg + 1);
#endif
	return cfs_rq->avg.load_avg;
}

/* task_h_load() */
static unsigned long load_of(struct task_struct *p)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(&p->se);

	return p->se.avg.load_avg * h_load(cfs_rq) / (cfs_rq->avg.load_avg + 1);
}

/* decay_load() */
static u64 decayed(u64 sum, u64 periods)
{
	if (periods > LOAD_AVG_PERIOD * 63)
		return 0;
	sum >>= periods / LOAD_AVG_PERIOD;
	return mul_u64_u32_shr(sum, runnable_avg_yN_inv[periods % LOAD_AVG_PERIOD], 32);
}

/* util_avg as sync_entity_load_avg() leaves it where CPUs differ in capacity, by the clock of the task's last queue. */
static unsigned long util_of(struct task_struct *p)
{
	const struct sched_avg *avg = &p->se.avg;
	u64 delta = cfs_rq_of(&p->se)->avg.last_update_time - avg->last_update_time, periods;

	/* static_key_enabled() costs. */
	if (sched_asym_cpucapacity.key.enabled.counter <= 0 || (s64)delta < 0)
		return avg->util_avg;
	delta = (delta >> 10) + avg->period_contrib;
	periods = delta / 1024;
	if (!periods)
		return avg->util_avg;
	return decayed(avg->util_sum, periods) / (LOAD_AVG_MAX - 1024 + delta % 1024);
}

/* _task_util_est(): a word, or two of which the greater counts; the upper bit of the first is a mark. */
static unsigned int util_est_of(struct task_struct *p)
{
	unsigned int words[sizeof(p->se.avg.util_est) / sizeof(int)];

	memcpy(words, &p->se.avg.util_est, sizeof(words));
	words[0] &= ~(1U << 31);
	return max(words[0], words[ARRAY_SIZE(words) - 1]);
}

/* The hints of the domain that a search near this CPU scans; a domain without a shared state limits no scan. */
static void read_hints(struct img_choice_cpu *c, int cpu)
{
#ifdef HAVE_BALANCE_SHARED
	struct sched_domain *asym = per_cpu(sd_asym_cpucapacity, cpu);
	struct sched_domain_shared *shared = per_cpu(sd_balance_shared, cpu);
	bool unlimited = asym && !asym->shared;
#else
	struct sched_domain_shared *shared = per_cpu(sd_llc_shared, cpu);
	bool unlimited = false;
#endif

	if (!shared)
		return;
	c->has_idle_cores = shared->has_idle_cores;
#ifdef HAVE_NR_IDLE_SCAN
	c->nr_idle_scan = unlimited ? INT_MAX : shared->nr_idle_scan;
#endif
}

static void read_cpu(struct img_choice_cpu *c, int cpu)
{
	struct rq *rq = cpu_rq(cpu);
	bool pending = false;

#ifdef HAVE_TTWU_PENDING
	pending = rq->ttwu_pending;
#endif
	*c = (struct img_choice_cpu){
		.load = rq->cfs.avg.load_avg, .capacity = rq->cpu_capacity, .nr_running = rq->nr_running,
		.idle = rq->curr == rq->idle && !rq->nr_running && !pending,
	};
#ifdef HAVE_H_NR_IDLE
	c->nr_sched_idle = rq->cfs.h_nr_idle;
#else
	c->nr_sched_idle = rq->cfs.idle_h_nr_running;
#endif
#if defined(HAVE_H_NR_RUNNABLE)
	c->nr_delayed = rq->cfs.h_nr_queued - rq->cfs.h_nr_runnable;
#elif defined(HAVE_H_NR_DELAYED)
	c->nr_delayed = rq->cfs.h_nr_delayed;
#endif
	read_hints(c, cpu);
}

/* The figures that SIS_PROP reads. */
static void read_costs(struct img_choice *c)
{
#ifdef HAVE_AVG_SCAN_COST
	struct sched_domain *sd = *this_cpu_ptr(&sd_llc);

	c->avg_scan_cost = sd ? sd->avg_scan_cost : 0;
#endif
	c->avg_idle = this_rq()->avg_idle;
#ifdef HAVE_WAKE_AVG_IDLE
	c->wake_avg_idle = this_rq()->wake_avg_idle;
	if (jiffies > this_rq()->wake_stamp)
		c->wake_avg_idle >>= min(jiffies - this_rq()->wake_stamp, 63UL);
#endif
}

/* wakee_flips after record_wakee(). */
static unsigned int flips_with(struct task_struct *p)
{
	unsigned int flips = current->wakee_flips;

	if (time_after(jiffies, current->wakee_flip_decay_ts + HZ))
		flips >>= 1;
	return flips + (current->last_wakee != p);
}

static void read_cpus(struct img_choice_cpu *cpus)
{
	int cpu;

	/* for_each_possible_cpu() would cost time. */
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		read_cpu(&cpus[cpu], cpu);
}

static struct slot *read_state(PARAMETERS)
{
	struct slot *slot = slot_new();
	struct img_choice *c = &slot->choice;

	*c = (struct img_choice){
		.cpus = c->cpus, .allowed = c->allowed, .cpu = img_cpu, .prev = prev, .recent = p->recent_used_cpu,
		.how = IS_NEW ? IMG_C_FORK : IS_WAKEUP ? IMG_C_WAKEUP : IMG_C_EXEC,
		.fair = p->sched_class == &fair_sched_class, .sched_idle = p->policy == SCHED_IDLE,
		.sync = (flags & WF_SYNC) && !(current->flags & PF_EXITING),
		.by_cpu_thread = in_task() && (current->flags & PF_KTHREAD) && current->nr_cpus_allowed == 1,
		.waker_flips = flips_with(p), .wakee_flips = p->wakee_flips,
	};
	memcpy(c->allowed, cpumask_bits(p->cpus_ptr), BITS_TO_LONGS(nr_cpu_ids) * sizeof(long));
	if (!c->fair || c->how != IMG_C_WAKEUP)
		return slot;
	c->util = max_t(unsigned long long, util_of(p), util_est_of(p));
	c->wakee_load = load_of(p);
	c->waker_load = load_of(current);
	read_costs(c);
	read_cpus(c->cpus);
	return slot;
}

static int explained(select_t class, PARAMETERS)
{
	struct slot *slot = read_state(ARGUMENTS);
	unsigned long left = img_times_left;
	int chosen = class(ARGUMENTS);
	struct rq *rq = cpu_rq(chosen);
	struct img_note *note = img_note(IMG_CHOSE, img_cpu);

	if (left != img_times_left) {
		slot->choice.after = slot->choice.cpus + nr_cpu_ids;
		read_cpus(slot->choice.after);
	}
	note->pid = p->pid;
	note->other = chosen;
	note->flags = img_is_ext(p) | (rq->curr == rq->idle && !rq->nr_running) << 1;
	note->at = (unsigned long)&slot->choice;
	slot->next = noted;
	noted = slot;
	return chosen;
}
static int explained_fair(PARAMETERS)
{
	return explained(fair, ARGUMENTS);
}
static int explained_rt(PARAMETERS)
{
	return explained(rt, ARGUMENTS);
}
static int explained_dl(PARAMETERS)
{
	return explained(dl, ARGUMENTS);
}
static int explained_ext(PARAMETERS)
{
	return explained(ext, ARGUMENTS);
}

void img_explain(void)
{
	if (fair)
		return;
	fair = img_in_place_of(fair_sched_class.select_task_rq, explained_fair);
	rt = img_in_place_of(rt_sched_class.select_task_rq, explained_rt);
	dl = img_in_place_of(dl_sched_class.select_task_rq, explained_dl);
#ifdef CONFIG_SCHED_CLASS_EXT
	ext = img_in_place_of(ext_sched_class.select_task_rq, explained_ext);
#endif
	img_explain_preemption();
}
