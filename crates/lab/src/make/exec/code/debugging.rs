//! Help with a fault of the kernel's code, which a run gives if the user asks for it.

use crate::ask::cell::Cell;
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The variable by which a run helps to find a fault of the kernel's code: words of [`Debugging`].
pub const DEBUG_VARIABLE: &str = "SCHEDLAB_CODE_DEBUG";

/// How a run helps.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Debugging {
    /// Its process waits for gdb before the image boots.
    pub(super) gdb: bool,
    /// Memory that is not allocated, or not any more, is out of reach.
    pub(super) guard: bool,
    /// Our rules are asked about its decisions.
    pub(super) rules: bool,
}

impl Debugging {
    /// What the user asks for.
    pub(super) fn asked() -> Result<Debugging> {
        let words = std::env::var(DEBUG_VARIABLE).unwrap_or_default();
        let mut all = Debugging::default();
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "gdb" => all.gdb = true,
                "guard" => all.guard = true,
                "rules" => all.rules = true,
                _ => return Err(Error::unknown(DEBUG_VARIABLE, word, ["gdb", "guard", "rules"])),
            }
        }
        Ok(all)
    }
}

/// How to attach gdb to a run's process, which stops by itself once its image is loaded.
pub(super) fn gdb_words(cell: &Cell, process: u32) -> String {
    let object = cell.code.as_ref().map_or_else(String::new, |code| format!(" ({})", code.object.display()));
    format!(
        "the run's process {process} waits for gdb, with its image loaded{object}:\n    \
         gdb -p {process} -ex 'handle SIGPROF nostop noprint' -ex 'handle SIGSTOP nostop noprint nopass' \
         -ex 'break schedule'\n\
         'continue' there lets it boot and run. Names are those of the kernel's functions."
    )
}
