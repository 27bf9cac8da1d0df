//! Ctrl-C: the first asks the work to stop and keep what is done, the second ends the process at once.

use crate::output;
use schedlab_base::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// What shells report for a process that SIGINT ended.
const KILLED: i32 = 130;

/// The flag that Ctrl-C sets. To be asked for once, before the work begins.
///
/// # Errors
/// When the signal can't be caught here.
pub fn stop_flag() -> Result<&'static AtomicBool> {
    let caught = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            // Nothing is unwound on this way out.
            schedlab_native::settings::put_back_mine();
            std::process::exit(KILLED);
        }
        output::note("stopping; Ctrl-C again to end at once");
    });
    match caught {
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(&STOP),
        Err(e) => Err(Error::machine(format!("can't catch Ctrl-C: {e}"))),
    }
}
