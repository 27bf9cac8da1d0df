// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cache lines that a CPU has asked for and that are still on their way; a part of cost.c. Stands for the reorder
 * buffer, which holds as many instructions as the CPU looks ahead, and for the store buffer.
 */

/* When all lines have come that are only written, by img_charged_ps(); 0: none is missing. */
static u64 stores_until;
/* The CPU queues longer than it looks ahead for a line that it reads and that is missing; where it asked for that. */
static bool has_queued;
static struct img_sample queued_at;

/* A wait for a line is the time of the oldest instruction that is not done: that which has asked for it. */
static void img_sample_wait(void)
{
	while (unlikely(unsampled_ps() >= costs.sample_ps)) {
		sampled_ps += costs.sample_ps;
		img_sample(has_queued ? &queued_at : NULL);
	}
}

/* Waits until all missing lines that are read have come. */
void img_wait(void)
{
	u64 charged = img_charged_ps();

	if (!missing_until)
		return;
	if (missing_until > charged) {
		img_due_ps += missing_until - charged;
		waited_ps += missing_until - charged;
		img_sample_wait();
	}
	missing_until = 0;
	has_queued = false;
	look_again();
}
/* Waits until all missing lines have come, those that are written too. */
void img_drain(void)
{
	img_wait();
	missing_until = stores_until;
	stores_until = 0;
	img_wait();
}
/* The verb is over: lines that are only written come behind its back. */
void img_retire(void)
{
	img_wait();
	stores_until = 0;
}
/* When other CPUs see what this one has written. */
u64 img_stored_ps(void)
{
	return img_now * 1000 + max(stores_until, img_charged_ps());
}

/* A CPU leaves a verb, or takes it up again: it keeps its own missing lines. */
void img_missing_keep(struct img_missing *missing)
{
	u64 charged = img_charged_ps();

	missing->wait_ps = missing_until > charged ? missing_until - charged : 0;
	missing->stores_ps = stores_until > charged ? stores_until - charged : 0;
	missing->executed = executed() - missing_since;
	missing->has_queued = has_queued;
	if (has_queued)
		missing->queued_at = queued_at;
	missing_until = 0;
	stores_until = 0;
	has_queued = false;
}
void img_missing_restore(const struct img_missing *missing)
{
	missing_until = missing->wait_ps ? img_charged_ps() + missing->wait_ps : 0;
	stores_until = missing->stores_ps ? img_charged_ps() + missing->stores_ps : 0;
	missing_since = executed() - missing->executed;
	has_queued = missing->has_queued;
	if (has_queued)
		queued_at = missing->queued_at;
	if (missing_until)
		look_again();
}

/* A line comes in so many ps, for a CPU that reads it or only writes it. */
void img_comes(u64 ps, bool write)
{
	bool first = !missing_until;

	if (write && costs.lookahead) {
		stores_until = max(stores_until, img_charged_ps() + ps);
		return;
	}
	if (first)
		missing_since = executed();
	missing_until = max(missing_until, img_charged_ps() + ps);
	if (!costs.lookahead)
		img_drain();
	else if (first && (long)img_left >= costs.lookahead)
		look_after(costs.lookahead);
}
/*
 * The CPU has to queue so long for a line that it reads. It stands still when it has looked as far ahead as it can,
 * which may be in another function.
 */
void img_queues_for(u64 ps)
{
	if (!missing_until || ps <= (u64)costs.lookahead * img_instruction_ps)
		return;
	has_queued = true;
	host_backtrace((void **)queued_at.calls, IMG_CALLS);
}
