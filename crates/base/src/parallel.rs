//! Loops over a list by several threads, with the results in the list's order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of CPUs that this process may use.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Calls `make` for each item; results are in order. At most `threads` threads work, including the caller's. If the
/// system refuses threads, fewer work.
///
/// # Panics
/// When `make` panics.
pub fn map<T: Sync, R: Send>(threads: usize, items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, R)> {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return made };
            made.push((at, make(item)));
        }
    };
    let others = threads.min(items.len()).saturating_sub(1);
    let mut all = thread::scope(|scope| {
        let spawned = (0..others).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok());
        let others: Vec<_> = spawned.collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(made) => all.extend(made),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_however_many_threads_work() {
        let items: Vec<u64> = (0..1000).collect();
        for threads in [0, 1, 2, 7, 2000] {
            let made = map(threads, &items, |n| n * n);
            assert!(made.iter().enumerate().all(|(at, square)| *square == (at * at) as u64), "{threads}");
            assert_eq!(made.len(), 1000);
        }
        assert_eq!(map(4, &[] as &[u64], |n| *n), [0u64; 0]);
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_is_passed_on() {
        map(3, &[1, 7, 9], |n| assert_ne!(*n, 7, "seven"));
    }
}
