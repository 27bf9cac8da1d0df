//! Whether an image has what a fragment of configuration asks for, where its results would mean something else.
//!
//! kconfig drops an option silently whose dependencies are off. A fragment that is shared with guests may name drivers
//! and the like, which an image has no use for; these are left alone.

use crate::kconfig;
use schedlab_base::{Error, Result};
use std::fs;
use std::path::Path;

/// Options that must be as they are asked for: names, or beginnings of names.
const HOLD: [&str; 2] = ["PREEMPT", "PROVE_LOCKING"];

/// Compares a fragment, with its name, and the configuration that was made of it.
///
/// # Errors
/// An option that the tree or the image's architecture does not have.
pub(super) fn check(fragment: &(String, String), config: &Path, source: &str) -> Result<()> {
    let (name, text) = fragment;
    let made = fs::read_to_string(config).map_err(|e| Error::io(config, "read", &e))?;
    let Some((option, value)) = refused(text, &made) else { return Ok(()) };
    let error = Error::input(format!("{name}: an image of {source} can't have CONFIG_{option}={value}"));
    Err(error.help(match option {
        "PREEMPT_RT" => {
            "its kernel locks would sleep, for which tasks of backend 'code' have no stack: take backend 'vm', or \
             CONFIG_PREEMPT=y"
        }
        _ => "the release lacks it, or what it depends on is off: take it out of the fragment",
    }))
}

/// The first option that was asked for and is not as it was asked for.
fn refused<'f>(fragment: &'f str, config: &str) -> Option<(&'f str, &'f str)> {
    let options = fragment.lines().filter_map(|line| line.trim().strip_prefix("CONFIG_")?.split_once('='));
    let mut held = options.filter(|(name, _)| HOLD.iter().any(|beginning| name.starts_with(beginning)));
    held.find(|(name, value)| {
        // Of several lines the last one counts.
        let last = kconfig::value_in(fragment, name);
        last.as_deref() == Some(*value) && kconfig::value_in(config, name).unwrap_or("n".to_owned()) != *value
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_preemption_that_is_dropped_is_refused_and_others_are_not() {
        let config = "CONFIG_PREEMPT=y\n# CONFIG_PREEMPT_NONE is not set\n";
        let of = |fragment: &'static str| refused(fragment, config);
        assert_eq!(of("CONFIG_PREEMPT=y\nCONFIG_VIRTIO_NET=y\n"), None);
        assert_eq!(of("CONFIG_PREEMPT_NONE=n\nCONFIG_PREEMPT_LAZY=n\n"), None);
        assert_eq!(of("# one\nCONFIG_PREEMPT_RT=y\n"), Some(("PREEMPT_RT", "y")));
        assert_eq!(of("CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT=y\n"), Some(("PREEMPT_NONE", "y")));
    }
}
