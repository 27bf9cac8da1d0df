//! Mechanisms end to end: small scenarios whose outcome follows from the kernel's rules by arithmetic.
//!
//! Each test asserts the experience of tasks on a whole machine; if the rule can be switched, the test also shows that
//! the rule is the cause. Numbers in comments: on 8 CPUs and more, 3.4 to 6.5 have latency 24 ms, min_granularity 3 ms,
//! wakeup_granularity 4 ms; on 2 CPUs 12, 1.5 and 2 ms.

mod asymmetry;
mod balance;
mod cache;
mod channels;
mod eevdf;
mod fair;
mod fair_sleepers;
mod groups;
mod later;
mod memory;
mod nested;
mod newidle;
mod o1;
mod preempt;
mod quotas;
mod rt;
mod starts;
mod time;
mod trees;
mod usage;
mod wakeup;
