//! Ctrl-C, SIGTERM and SIGHUP. The first of them asks the work to stop, to keep the finished part and to put back
//! changed settings. The second ends the process at once.

use crate::output;
use schedlab_base::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// The exit code that shells report for a process that SIGINT ended.
const KILLED: i32 = 130;

/// The flag that Ctrl-C, SIGTERM and SIGHUP set. Call it before the work begins.
///
/// # Errors
/// When the signal can't be caught here.
pub fn stop_flag() -> Result<&'static AtomicBool> {
    // Under nohup(1) hangups stay ignored, so that the process outlives its terminal.
    let stays = schedlab_native::hangups_are_ignored();
    let caught = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            // This exit runs no destructors, so the settings are put back here.
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
