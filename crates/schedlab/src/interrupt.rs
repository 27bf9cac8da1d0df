//! Ctrl-C, and whatever else asks for an end (SIGTERM, the end of the terminal): the first asks the work to stop, keep
//! what is done and put back what was changed, the second ends the process at once.

use crate::output;
use schedlab_base::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// What shells report for a process that SIGINT ended.
const KILLED: i32 = 130;

/// The flag that Ctrl-C, SIGTERM and SIGHUP set. To be asked for once, before the work begins.
///
/// # Errors
/// When the signal can't be caught here.
pub fn stop_flag() -> Result<&'static AtomicBool> {
    // nohup(1): what is to outlive its terminal still does.
    let stays = schedlab_native::hangups_are_ignored();
    let caught = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            // Nothing is unwound on this way out.
            schedlab_native::settings::put_back_mine();
            std::process::exit(KILLED);
        }
        output::note("stopping; Ctrl-C again to end at once");
    });
    if stays {
        schedlab_native::ignore_hangups();
    }
    match caught {
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(&STOP),
        Err(e) => Err(Error::machine(format!("can't catch Ctrl-C: {e}"))),
    }
}
