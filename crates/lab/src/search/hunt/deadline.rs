//! A limit of time for a piece of work that looks at a stop flag: the flag it gets is set when the caller's is, and
//! when the time is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the caller's flag and the time are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Does the work with a flag that is set once `stop` is, or `limit` is over.
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
        // Set also if the work panics: the scope waits for the watcher.
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

    /// Waits for the flag; whether it came before the test's patience ended.
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
