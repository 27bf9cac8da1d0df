// SPDX-License-Identifier: GPL-2.0-only
/*
 * The forms of this tree: schedlab compiles this file for its errors: a probe without an error becomes HAVE_NAME in
 * generated/img_have.h. A probe is a function behind a line PROBE(NAME); an error in it is found by its line.
 *
 * The compiler complains of a call without a declaration once in a file. Of two probes that ask for one function the
 * second names it, and does not call it.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/percpu.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/timer.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>
#include "kernel/sched/sched.h"
#include "kernel/sched/smp.h"
#include <linux/cacheinfo.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/debugfs.h>
#include <linux/sysctl.h>

/* PROBE(PCPU_ALLOC_NOPROF) */
void *probe_pcpu(void) { return pcpu_alloc_noprof(8, 8, false, 0); }
/* PROBE(SWITCH_STATE_LAST) */
static void last(void *d, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state) { }
void probe_switch_last(void) { register_trace_sched_switch(last, NULL); }
/* PROBE(SWITCH_STATE_FIRST) */
static void first(void *d, bool preempt, unsigned int state, struct task_struct *prev, struct task_struct *next) { }
void probe_switch_first(void) { register_trace_sched_switch(first, NULL); }
/* PROBE(EXIT_OF_GROUP) */
void probe_exit_of_group(struct task_struct *p) { trace_sched_process_exit(p, false); }
/* PROBE(RQ_LOCK) */
void probe_rq_lock(struct rq *rq) { raw_spin_rq_lock(rq); }
/* PROBE(HRTIMER_SETUP) */
void probe_hrtimer_setup(struct hrtimer_sleeper *s) { hrtimer_setup_sleeper_on_stack(s, 0, HRTIMER_MODE_ABS); }
/* PROBE(CGROUP_FORK_INT) */
int probe_cgroup_fork_int(struct task_struct *p) { return sched_cgroup_fork(p, NULL); }
/* PROBE(CGROUP_FORK) */
void *probe_cgroup_fork(void) { return sched_cgroup_fork; }
/* PROBE(POST_FORK_ARGS) */
void probe_post_fork(struct task_struct *p) { sched_post_fork(p, NULL); }
/* PROBE(SYSCTL_INIT) */
int probe_sysctl_init(void) { return sysctl_init(); }
/* PROBE(SCHED_TICK_RENAMED) */
void probe_sched_tick(void) { sched_tick(); }
/* PROBE(TIMERS_INIT) */
void probe_timers_init(void) { timers_init(); }
/* PROBE(SET_NR_CPU_IDS) */
void probe_nr_cpu_ids(void) { set_nr_cpu_ids(2); }
/* PROBE(NOT_IDLE_RENAMED) */
int probe_not_idle(void) { return __CPU_NOT_IDLE; }
/* PROBE(DEBUGFS_FULL) */
void probe_debugfs_full(void) { debugfs_create_file_full("", 0, NULL, NULL, NULL, NULL); }
/* PROBE(SYSCTL_SZ) */
void probe_sysctl_sz(void) { register_sysctl_sz("", NULL, 1); }
/* PROBE(LOCK_SIGHAND_INLINE) */
void probe_lock_sighand(void) { __lock_task_sighand(NULL, NULL); }
/* PROBE(MM_ALLOC_SCHED) */
int probe_mm_alloc_sched(struct mm_struct *mm) { mm_destroy_sched(mm); return mm_alloc_sched(mm); }
/* PROBE(SCHED_CACHE_FORK) */
void probe_sched_cache_fork(struct task_struct *p) { sched_cache_fork(p); sched_cache_fork_cleanup(p); }
/* PROBE(SMT_NUM_THREADS) */
void probe_smt_num_threads(void) { cpu_smt_set_num_threads(2, 2); }
/* PROBE(CACHEINFO_LLC) */
void *probe_cacheinfo_llc(void) { return get_cpu_cacheinfo_llc(0); }
/* PROBE(NUMA_NEAREST) */
int probe_numa_nearest(void) { return numa_nearest_node(0, N_CPU); }
/* PROBE(SYSCTL_CONST) */
void *probe_sysctl_const(void)
{
	struct ctl_table_header *(*call)(const char *, const struct ctl_table *, size_t) = register_sysctl_sz;
	return call;
}
/* PROBE(RCU_NEEDS_CPU_PLAIN) */
int probe_rcu_needs_cpu(void) { return rcu_needs_cpu(); }
/* PROBE(KTHREAD_STRUCT_BOOL) */
bool probe_kthread_struct(void) { return set_kthread_struct(NULL); }
/* PROBE(TASK_STATE) */
unsigned int probe_task_state(struct task_struct *p) { return p->__state; }
/* PROBE(SCHED_RND_STATE) */
void *probe_rnd_state(void) { return &sched_rnd_state; }
/* PROBE(SYSCTL_BASES) */
int probe_sysctl_bases(void) { return sysctl_init_bases(); }
/* PROBE(SYSCTL_BASE_TABLE) */
int probe_sysctl_base_table(struct ctl_table *base) { return __register_sysctl_base(base->child); }
/* PROBE(TG_CFS_RQ) */
struct cfs_rq *probe_tg_cfs_rq(struct task_group *tg) { return tg_cfs_rq(tg, 0); }
/* PROBE(PICK_TASK) */
void *probe_pick_task(struct task_struct *p) { return p->sched_class->pick_task; }
/* PROBE(PICK_TASK_RF) */
void *probe_pick_task_rf(struct task_struct *p, struct rq *rq) { return p->sched_class->pick_task(rq, NULL); }
/* PROBE(PUT_PREV_NEXT) */
void probe_put_prev(struct task_struct *p, struct rq *rq) { p->sched_class->put_prev_task(rq, p, NULL); }
/* PROBE(WAKEUP_PREEMPT) */
void *probe_wakeup_preempt(struct task_struct *p) { return p->sched_class->wakeup_preempt; }
/* PROBE(LAG) */
long probe_lag(struct sched_entity *se) { return se->vlag; }
/* PROBE(CUSTOM_SLICE) */
int probe_custom_slice(struct sched_entity *se) { return se->custom_slice + se->rel_deadline; }
/* PROBE(PROTECTED_UNTIL) */
long probe_protected(struct sched_entity *se) { return se->vprot; }
/* PROBE(FLAT_WEIGHT) */
struct load_weight probe_flat_weight(struct sched_entity *se) { return se->h_load; }
/* PROBE(ZERO_VRUNTIME) */
long probe_zero_vruntime(struct cfs_rq *cfs_rq) { return cfs_rq->zero_vruntime; }
/* PROBE(LAST_BUDDY) */
void *probe_last(struct cfs_rq *cfs_rq) { return cfs_rq->last == cfs_rq->skip ? cfs_rq->last : NULL; }
/* PROBE(FAIR_SERVER) */
int probe_fair_server(struct rq *rq) { return rq->fair_server.dl_server; }
/* PROBE(DONOR) */
void *probe_donor(struct rq *rq) { return &rq->donor; }
/* PROBE(RD_OVERLOADED) */
int probe_overloaded(struct root_domain *rd) { return rd->overloaded; }
/* PROBE(NR_IDLE_SCAN) */
int probe_nr_idle_scan(struct sched_domain_shared *shared) { return shared->nr_idle_scan; }
/* PROBE(SELECT_BY_FLAGS) */
int probe_select(struct task_struct *p) { return p->sched_class->select_task_rq(p, 0, 0); }
/* PROBE(TTWU_PENDING) */
unsigned int probe_ttwu_pending(struct rq *rq) { return rq->ttwu_pending; }
/* PROBE(TG_RUNNABLE) */
long probe_tg_runnable(struct task_group *tg) { return atomic_long_read(&tg->runnable_avg); }
/* PROBE(WAKE_AVG_IDLE) */
u64 probe_wake_avg_idle(struct rq *rq) { return rq->wake_avg_idle; }
/* PROBE(H_NR_IDLE) */
unsigned int probe_h_nr_idle(struct cfs_rq *cfs_rq) { return cfs_rq->h_nr_idle; }
/* PROBE(H_NR_RUNNABLE) */
unsigned int probe_h_nr_runnable(struct cfs_rq *cfs_rq) { return cfs_rq->h_nr_queued - cfs_rq->h_nr_runnable; }
/* PROBE(H_NR_DELAYED) */
unsigned int probe_h_nr_delayed(struct cfs_rq *cfs_rq) { return cfs_rq->h_nr_delayed; }
/* PROBE(AVG_SCAN_COST) */
u64 probe_avg_scan_cost(struct sched_domain *sd) { return sd->avg_scan_cost; }
/* PROBE(TASK_THROTTLED) */
bool probe_task_throttled(struct task_struct *p) { return p->throttled && list_empty(&p->throttle_node); }
/* PROBE(PICK_NEXT_FAIR) */
void *probe_pick_next_fair(struct rq *rq) { return pick_next_task_fair(rq, NULL, NULL); }
/* PROBE(IDLE_GROUP) */
int probe_idle_group(struct cfs_rq *cfs_rq, struct task_group *tg) { return cfs_rq->idle + tg->idle; }
/* PROBE(BALANCE_SHARED) */
void *probe_balance_shared(void) { return per_cpu(sd_balance_shared, 0); }
