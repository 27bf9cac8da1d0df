//! The second thread of a measurement.

use crate::sys::{self, Scope};
use schedlab_base::{CpuId, CpuSet, Error, Result};
use schedlab_kernel::Attr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::JoinHandle;

/// State that the two threads share.
#[derive(Default)]
pub struct Shared {
    /// 0 while the other thread should continue.
    pub phase: AtomicU32,
    /// The word on which the other thread waits.
    pub word: AtomicU32,
    /// The word on which the caller waits.
    pub back: AtomicU32,
    pub thread: AtomicU32,
    /// Time of the other thread's last return from a wait, ns; 0 before.
    pub ran_at: AtomicU64,
}

impl Shared {
    /// Repeatedly waits on `word` and notes the time of each return, until the end.
    pub fn wait_again_and_again(&self) {
        while self.phase.load(SeqCst) == 0 {
            sys::futex_wait(&self.word, 0, None, Scope::Threads);
            self.ran_at.store(sys::monotonic_ns(), SeqCst);
        }
    }
    /// The time of the other thread's return from its wait, if before `limit_ns`.
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
    pub shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Peer {
    /// Starts the thread; returns once it is on its CPU with its attributes.
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
            // If the caller has gone, no answer is needed.
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
    /// Ends the thread and waits for it.
    pub fn end(self) {
        self.shared.phase.store(1, SeqCst);
        while !self.thread.is_finished() {
            self.shared.word.store(1, SeqCst);
            sys::futex_wake(&self.shared.word, 1, Scope::Threads);
            sys::sleep_for(100_000);
        }
        // A panic of the thread was printed on standard error.
        let _ = self.thread.join();
    }
}
