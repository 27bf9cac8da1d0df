//! The other thread of a measurement.

use crate::sys::{self, Scope};
use schedlab_base::{CpuId, CpuSet, Error, Result};
use schedlab_kernel::Attr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::JoinHandle;

/// The state that the two threads share.
#[derive(Default)]
pub struct Shared {
    /// 0 while it is to continue.
    pub phase: AtomicU32,
    /// The word that the other thread waits on.
    pub word: AtomicU32,
    /// The word that the caller waits on.
    pub back: AtomicU32,
    /// The other thread's id.
    pub thread: AtomicU32,
    /// The time at which the other thread last came out of a wait, ns; 0 before.
    pub ran_at: AtomicU64,
}

impl Shared {
    /// Waits on `word` again and again and notes each time at which it came out, until the end.
    pub fn wait_again_and_again(&self) {
        while self.phase.load(SeqCst) == 0 {
            sys::futex_wait(&self.word, 0, None, Scope::Threads);
            self.ran_at.store(sys::monotonic_ns(), SeqCst);
        }
    }
    /// The time at which the other thread came out of its wait, if that is before `limit_ns`.
    pub fn when_it_ran(&self, limit_ns: u64) -> Option<u64> {
        while sys::monotonic_ns() < limit_ns {
            let at = self.ran_at.load(SeqCst);
            if at != 0 {
                return Some(at);
            }
            std::hint::spin_loop();
        }
        None
    }
}

pub struct Peer {
    /// The state that it shares with the caller.
    pub shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Peer {
    /// Starts the thread; returns when it is on its CPU with its attributes.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(cpu: CpuId, attr: Attr, body: impl FnOnce(CpuId, &Shared) + Send + 'static) -> Result<Peer> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = std::sync::mpsc::channel();
        let own = shared.clone();
        let thread = std::thread::Builder::new().spawn(move || {
            let mask: CpuSet = [cpu].into_iter().collect();
            let ready = sys::set_affinity(&mask)
                .and_then(|()| if attr == Attr::default() { Ok(()) } else { sys::set_attr(attr) });
            let fine = ready.is_ok();
            own.thread.store(sys::thread_id(), SeqCst);
            // If the caller is gone, it needs no answer.
            let _ = tell.send(ready);
            if fine {
                body(cpu, &own);
            }
        });
        let thread = thread.map_err(|e| Error::machine(format!("can't start a thread: {e}")))?;
        match told.recv() {
            Ok(Ok(())) => Ok(Peer { shared, thread }),
            Ok(Err(e)) => Err(Error::machine(format!("can't place a thread on CPU {}: {e}", cpu.0))),
            Err(_) => Err(Error::internal("a thread of the probe ended at once")),
        }
    }
    /// Ends it and waits for its end.
    pub fn end(self) {
        self.shared.phase.store(1, SeqCst);
        while !self.thread.is_finished() {
            self.shared.word.store(1, SeqCst);
            sys::futex_wake(&self.shared.word, 1, Scope::Threads);
            sys::sleep_for(100_000);
        }
        // A panic of the thread has been printed on standard error.
        let _ = self.thread.join();
    }
}
