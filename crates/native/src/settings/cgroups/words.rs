//! Texts about control groups that several files share.

use schedlab_base::Error;

/// The name of control groups as a setting.
pub const SETTING: &str = "control group";
/// How to get permission to make groups, for remedies.
pub const DELEGATE: &str = "start schedlab in a group of its own, with the cpu controller and the right to make groups: \
    'systemd-run --user --scope -p Delegate=yes schedlab ...', as root without --user; or run it as root; \
    --backend sim needs no right";

/// The error about control groups that are not available here.
pub(super) fn none_here(text: &str) -> Error {
    Error::machine(format!("no control groups can be made: {text}"))
}
