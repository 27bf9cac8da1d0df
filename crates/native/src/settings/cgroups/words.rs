//! Words about control groups that several files have.

use schedlab_base::Error;

/// The name of groups among settings.
pub const SETTING: &str = "control group";
/// Ways to the right to make groups, for remedies.
pub const DELEGATE: &str = "start schedlab in a group of its own, with the cpu controller and the right to make groups: \
    'systemd-run --user --scope -p Delegate=yes schedlab ...', as root without --user; or run it as root; \
    --backend sim needs no right";

/// The error about control groups that can't be had here.
pub(super) fn none_here(text: &str) -> Error {
    Error::machine(format!("no control groups can be made: {text}"))
}
