//! Options of the kernel's configuration that patches add, or whose default they change.
//!
//! The built-in configuration is a fragment over `make allnoconfig`, which switches off every option that it does not
//! name, so code under an option added by a patch would not be compiled. Therefore such options get their own defaults
//! ([`crate::configure`]), and the result says who set each. Mirrors Documentation/kbuild/kconfig-language: entries
//! `config NAME` and `menuconfig NAME`; help is text that is indented more than `help` itself.

use crate::blob::Content;
use crate::walk::Walk;
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The beginning of the names of files that hold options.
const FILE: &str = "Kconfig";

/// Who sets an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetBy {
    /// Its own default, or its dependencies.
    Default,
    /// The fragment on top of the built-in configuration.
    Fragment,
    /// The built-in configuration, which names it or switches it off by not naming it.
    BuiltIn,
}

impl SetBy {
    /// Its word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            SetBy::Default => "default",
            SetBy::Fragment => "fragment",
            SetBy::BuiltIn => "builtin",
        }
    }
}

/// An option that patches add, or whose default they change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Its name, without CONFIG_.
    pub name: String,
    /// Its value: "y", "n", a number, or a text with its quotes; `None` if its dependencies are off.
    pub value: Option<String>,
    pub by: SetBy,
    /// Whether the patches add it; otherwise they change its default.
    pub new: bool,
}

impl Setting {
    /// The option and who set it, in words: "brings CONFIG_X: y, its default".
    pub fn words(&self) -> String {
        let what = if self.new { "brings" } else { "changes the default of" };
        let state = match (self.value.as_deref(), self.by) {
            (None, _) => "not there, since what it depends on is off here".to_owned(),
            (Some(value), SetBy::Default) => format!("{value}, its default"),
            (Some(value), SetBy::Fragment) => format!("{value}, as --config sets it"),
            (Some(value), SetBy::BuiltIn) => format!("{value}, as the built-in configuration sets it"),
        };
        let off = self.value.as_deref().is_none_or(|v| v == "n");
        let rest = match off {
            true => format!(
                "; what stands behind it is compiled out, and --config FRAGMENT with CONFIG_{}=y takes it in",
                self.name
            ),
            false => String::new(),
        };
        format!("{what} CONFIG_{}: {state}{rest}", self.name)
    }
}

/// Whether a file of a tree defines options.
pub fn is_kconfig(path: &str) -> bool {
    Path::new(path).file_name().is_some_and(|name| name.to_string_lossy().starts_with(FILE))
}

/// The defaults of each option of a file, by name: its lines `default ...` and `def_bool ...`.
type Options = BTreeMap<String, Vec<String>>;

fn options(text: &str) -> Options {
    let mut all = Options::new();
    let (mut current, mut help): (Option<String>, Option<usize>) = (None, None);
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() {
            continue;
        }
        let indent = indent(line);
        if help.is_some_and(|at| indent > at) {
            continue;
        }
        help = matches!(bare, "help" | "---help---").then_some(indent);
        let mut words = bare.split_whitespace();
        match (words.next().unwrap_or_default(), words.next()) {
            ("config" | "menuconfig", Some(name)) => {
                all.entry(name.to_owned()).or_default();
                current = Some(name.to_owned());
            }
            ("default" | "def_bool" | "def_tristate", Some(_)) => {
                let of = current.as_ref().and_then(|name| all.get_mut(name));
                of.into_iter().for_each(|own| own.push(bare.to_owned()));
            }
            ("choice" | "endchoice" | "menu" | "endmenu" | "if" | "endif" | "comment" | "source", _) => {
                current = None
            }
            _ => {}
        }
    }
    all
}

/// The columns before a line's text; a tab advances to the next multiple of eight.
fn indent(line: &str) -> usize {
    let space = line.chars().take_while(|c| c.is_whitespace());
    space.fold(0, |at, c| if c == '\t' { at / 8 * 8 + 8 } else { at + 1 })
}

/// The options that differ between two states of some files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Names that only the new files have.
    pub new: Vec<String>,
    /// Names with other defaults.
    pub defaults: Vec<String>,
}

impl Changes {
    /// The changes of pairs (old, new) of Kconfig files. An option that moves from one of them to another is not new.
    pub fn of<'c>(files: impl Iterator<Item = (&'c Content, &'c Content)>) -> Changes {
        let (mut old, mut new) = (Options::new(), Options::new());
        let read = |content: &Content| {
            let text = content.as_ref().map(|blob| String::from_utf8_lossy(&blob.bytes).into_owned());
            options(&text.unwrap_or_default())
        };
        for (before, after) in files {
            read(before).into_iter().for_each(|(name, own)| old.entry(name).or_default().extend(own));
            read(after).into_iter().for_each(|(name, own)| new.entry(name).or_default().extend(own));
        }
        let mut changes = Changes::default();
        for (name, defaults) in new {
            match old.get(&name) {
                None => changes.new.push(name),
                Some(before) if *before != defaults => changes.defaults.push(name),
                Some(_) => {}
            }
        }
        changes
    }
    /// Drops options that other files of the tree define, too: they are not new. `known` are the files that were
    /// compared.
    ///
    /// # Errors
    /// When the tree can't be read.
    pub fn without_those_elsewhere(mut self, tree: &Path, known: &[&str]) -> Result<Changes> {
        if self.new.is_empty() {
            return Ok(self);
        }
        Walk::new(tree).each(&mut |entry| {
            let inner = entry.inner.to_string_lossy();
            if !is_kconfig(&inner) || known.contains(&&*inner) || !entry.path.is_file() {
                return Ok(());
            }
            let text = fs::read(&entry.path).map_err(|e| Error::io(&entry.path, "read", &e))?;
            let others = options(&String::from_utf8_lossy(&text));
            self.new.retain(|name| !others.contains_key(name));
            Ok(())
        })?;
        Ok(self)
    }
}

/// The value of an option in a .config or a fragment; `None` if it is not there.
pub fn value_in(config: &str, name: &str) -> Option<String> {
    let of = |line: &str| -> Option<String> {
        let line = line.trim();
        let off = line.strip_prefix("# CONFIG_").and_then(|l| l.strip_suffix(" is not set"));
        if off == Some(name) {
            return Some("n".to_owned());
        }
        Some(line.strip_prefix("CONFIG_")?.strip_prefix(name)?.strip_prefix('=')?.to_owned())
    };
    // The last line counts.
    config.lines().rev().find_map(of)
}

/// A configuration without the lines of some options.
pub fn without(config: &str, names: &[&String]) -> String {
    let stands = |line: &&str| !names.iter().any(|name| value_in(line, name).is_some());
    config.lines().filter(stands).map(|l| format!("{l}\n")).collect()
}

/// The line of a fragment that gives an option a value.
pub fn line_of(name: &str, value: &str) -> String {
    match value {
        "n" => format!("# CONFIG_{name} is not set\n"),
        value => format!("CONFIG_{name}={value}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::Blob;

    const OLD: &str = "config A\n\tbool \"a\"\n\thelp\n\t  config B is no option here.\n\n\t  default n neither.\n\nconfig C\n\
                       \tint \"c\"\n\tdefault 3\n";

    fn changes(old: &str, new: &str) -> Changes {
        let content = |text: &str| (!text.is_empty()).then(|| Blob::plain(text));
        let pair = (content(old), content(new));
        Changes::of([(&pair.0, &pair.1)].into_iter())
    }

    #[test]
    fn new_options_and_changed_defaults_are_found_but_not_in_help() {
        assert_eq!(options(OLD).keys().collect::<Vec<_>>(), ["A", "C"]);
        let new = format!("{}\nmenuconfig D\n\tdef_bool y\n", OLD.replace("default 3", "default 4 if A"));
        let all = changes(OLD, &new);
        assert_eq!((all.new, all.defaults), (vec!["D".to_owned()], vec!["C".to_owned()]));
        assert_eq!(changes(OLD, OLD), Changes::default());
        assert_eq!(changes("", OLD).new, ["A", "C"], "a new file");
    }

    #[test]
    fn an_option_defined_elsewhere_is_not_new() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("arch/x86")).unwrap();
        fs::write(tree.path().join("arch/x86/Kconfig.cpu"), OLD).unwrap();
        fs::write(tree.path().join("Kconfig"), "config D\n").unwrap();
        let found = changes("", "config A\nconfig D\n");
        assert_eq!(found.without_those_elsewhere(tree.path(), &["Kconfig"]).unwrap().new, ["D"]);
    }

    #[test]
    fn values_are_read_written_and_taken_out() {
        let config = "CONFIG_AB=y\n# CONFIG_A is not set\nCONFIG_N=\"x=y\"\n";
        assert_eq!(value_in(config, "A").as_deref(), Some("n"));
        assert_eq!(value_in(config, "N").as_deref(), Some("\"x=y\""));
        assert_eq!(value_in(config, "B"), None);
        assert_eq!(without(config, &[&"A".to_owned()]), "CONFIG_AB=y\nCONFIG_N=\"x=y\"\n");
        assert_eq!(line_of("A", "n") + &line_of("N", "4"), "# CONFIG_A is not set\nCONFIG_N=4\n");
    }

    #[test]
    fn words_say_who_set_an_option_and_how_to_include_it() {
        let told = |value: Option<&str>, by, new| {
            Setting { name: "X".into(), value: value.map(str::to_owned), by, new }.words()
        };
        assert_eq!(told(Some("y"), SetBy::Default, true), "brings CONFIG_X: y, its default");
        assert!(told(Some("n"), SetBy::Default, true).contains("--config FRAGMENT with CONFIG_X=y"));
        assert!(told(None, SetBy::Default, true).contains("what it depends on is off"));
        assert_eq!(
            told(Some("16"), SetBy::Fragment, false),
            "changes the default of CONFIG_X: 16, as --config sets it"
        );
    }
}
