//! A time limit for work that checks a stop flag: the work's flag is set when the caller's is set, and when the time is
//! over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval of the checks of the caller's flag and the time.
const LOOK: Duration = Duration::from_millis(20);

/// Does the work with a flag that is set once `stop` is set or `limit` is over.
pub(super) fn within<T>(limit: Duration, stop: &AtomicBool, work: impl FnOnce(&AtomicBool) -> T) -> T {
    let (over, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let began = Instant::now();
    thread::scope(|scope| {
        let watch = || {
            while !done.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) || began.elapsed() >= limit {
                    return over.store(true, Ordering::Relaxed);
                }
                thread::park_timeout(LOOK.min(limit));
            }
        };
        let watcher = scope.spawn(watch);
        // Also set if the work panics, since the scope waits for the watcher.
        let set = SetAtEnd(&done, watcher.thread());
        let found = work(&over);
        drop(set);
        found
    })
}

/// Ends the watcher when it is dropped.
struct SetAtEnd<'a>(&'a AtomicBool, &'a thread::Thread);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for the flag; returns whether it came before the test's limit.
    fn waits(flag: &AtomicBool) -> bool {
        let began = Instant::now();
        while !flag.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(1));
        }
        flag.load(Ordering::Relaxed)
    }

    #[test]
    fn work_is_ended_by_its_time_and_by_the_callers_flag() {
        let (never, now) = (AtomicBool::new(false), AtomicBool::new(true));
        assert!(within(Duration::from_millis(30), &never, waits));
        assert!(within(Duration::from_secs(3600), &now, waits));
        assert!(!within(Duration::from_secs(3600), &never, |flag| flag.load(Ordering::Relaxed)));
    }
}
