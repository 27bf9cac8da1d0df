//! Checks that an image has those options of a fragment without which its results would mean something else.
//!
//! kconfig silently drops an option whose dependencies are off. A fragment shared with guests may name drivers and the
//! like, for which an image has no use: these are reported, and are not errors.

use crate::kconfig;
use schedlab_base::{Error, Result};
use std::fs;
use std::path::Path;

/// Options that must be set as asked for: names, or beginnings of names.
const HOLD: [&str; 2] = ["PREEMPT", "PROVE_LOCKING"];

/// The most options that a warning names.
const MOST_NAMED: usize = 8;

/// Checks a fragment (name, text) against the configuration that was made of it.
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

/// In words: the requests of a fragment (name, text) that its configuration does not fulfil.
pub(super) fn unmet(fragment: &(String, String), config: &str) -> Option<String> {
    let (name, text) = fragment;
    let mut all: Vec<String> = Vec::new();
    for option in text.lines().filter_map(option_of) {
        let Some(asked) = kconfig::value_in(text, option) else { continue };
        let has = kconfig::value_in(config, option).unwrap_or("n".to_owned());
        // An image has no modules: an option that asks for one is built in.
        let is_met = has == asked || (asked == "m" && has == "y");
        let words = format!("CONFIG_{option}={asked}");
        if !is_met && !all.contains(&words) {
            all.push(words);
        }
    }
    let further = all.len().saturating_sub(MOST_NAMED);
    all.truncate(MOST_NAMED);
    let more = if further > 0 { format!(" and {further} more") } else { String::new() };
    let why = "the release or the image lacks them, or what they depend on is set otherwise";
    (!all.is_empty()).then(|| format!("{name} asks in vain for {}{more}: {why}", all.join(", ")))
}

fn option_of(line: &str) -> Option<&str> {
    let line = line.trim();
    let off = line.strip_prefix("# CONFIG_").and_then(|l| l.strip_suffix(" is not set"));
    off.or_else(|| Some(line.strip_prefix("CONFIG_")?.split_once('=')?.0))
}

/// The first option that must hold and is not as asked for.
fn refused<'f>(fragment: &'f str, config: &str) -> Option<(&'f str, &'f str)> {
    let options = fragment.lines().filter_map(|line| line.trim().strip_prefix("CONFIG_")?.split_once('='));
    let mut held = options.filter(|(name, _)| HOLD.iter().any(|beginning| name.starts_with(beginning)));
    held.find(|(name, value)| {
        // The last of several lines counts.
        let last = kconfig::value_in(fragment, name);
        last.as_deref() == Some(*value) && kconfig::value_in(config, name).unwrap_or("n".to_owned()) != *value
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmet_options_are_reported_once_with_their_last_value() {
        let config = "CONFIG_HZ=250\nCONFIG_A=y\nCONFIG_MOD=y\n# CONFIG_B is not set\n";
        let of = |text: &str| unmet(&("my.config".to_owned(), text.to_owned()), config);
        assert_eq!(of("CONFIG_A=y\nCONFIG_MOD=m\nCONFIG_B=n\n# CONFIG_NOWHERE is not set\n# a word\n"), None);
        let said =
            of("CONFIG_HZ=100\nCONFIG_B=y\nCONFIG_NONE=m\nCONFIG_HZ=1000\n# CONFIG_A is not set\n").unwrap();
        let words =
            "my.config asks in vain for CONFIG_HZ=1000, CONFIG_B=y, CONFIG_NONE=m, CONFIG_A=n: the release";
        assert!(said.starts_with(words), "{said}");
        let many: String = (0..10).map(|n| format!("CONFIG_N{n}=y\n")).collect();
        assert!(of(&many).unwrap().contains("CONFIG_N7=y and 2 more: "));
    }

    #[test]
    fn a_dropped_option_of_preemption_is_refused_and_others_are_not() {
        let config = "CONFIG_PREEMPT=y\n# CONFIG_PREEMPT_NONE is not set\n";
        let of = |fragment: &'static str| refused(fragment, config);
        assert_eq!(of("CONFIG_PREEMPT=y\nCONFIG_VIRTIO_NET=y\n"), None);
        assert_eq!(of("CONFIG_PREEMPT_NONE=n\nCONFIG_PREEMPT_LAZY=n\n"), None);
        assert_eq!(of("# one\nCONFIG_PREEMPT_RT=y\n"), Some(("PREEMPT_RT", "y")));
        assert_eq!(of("CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT=y\n"), Some(("PREEMPT_NONE", "y")));
    }
}
