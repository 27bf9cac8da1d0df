//! Makes a kernel's .config: the built-in configuration, the user's fragment, and the defaults of options that patches
//! add.
//!
//! `make allnoconfig` with KCONFIG_ALLCONFIG switches off what the fragment does not name. The defaults of options that
//! patches add come from kconfig: their lines are taken out of that configuration, and `make olddefconfig` fills them
//! in. Then the first step is repeated with these values in the fragment, so that options that depend on them become as
//! the fragment asks. All this is repeated until the values stay.

use crate::kconfig::{self, Changes, SetBy, Setting};
use crate::make::Make;
use schedlab_base::{Error, Result, temp};
use std::fs;
use std::path::PathBuf;

/// Options without which a guest of schedlab does not come up, or can't be measured.
pub const NEEDED: &[&str] = &[
    "SMP",
    "BLK_DEV_INITRD",
    "RD_ZSTD",
    "SERIAL_8250_CONSOLE",
    "PROC_FS",
    "SYSFS",
    "DEVTMPFS",
    "TMPFS",
    "FUTEX",
    "EPOLL",
    "FTRACE",
    "DEBUG_FS",
];
/// After this many passes, values that still change are taken as they are.
const MOST_PASSES: usize = 4;
/// The configuration by which defaults are asked for, next to the objects.
const ASKED: &str = "defaults.config";

/// The parts of a kernel's configuration.
#[derive(Clone, Copy, Debug)]
pub struct ConfigParts<'a> {
    pub built_in: &'a str,
    /// The user's fragment on top.
    pub fragment: &'a str,
    /// Options that the patches add or whose default they change.
    pub changes: &'a Changes,
}

impl ConfigParts<'_> {
    /// The whole fragment for kconfig.
    fn text(&self) -> String {
        format!("{}\n{}\n", self.built_in, self.fragment)
    }
    /// Who sets an option; `unnamed` if no part names it. The user's fragment overrides the rest.
    fn set_by(&self, name: &str, unnamed: SetBy) -> SetBy {
        if kconfig::value_in(self.fragment, name).is_some() {
            SetBy::Fragment
        } else if kconfig::value_in(self.built_in, name).is_some() {
            SetBy::BuiltIn
        } else {
            unnamed
        }
    }
    /// The options that the patches add or change, read from a .config; `unnamed` is who sets a changed one that no
    /// part names.
    pub fn settings(&self, config: &str, unnamed: SetBy) -> Vec<Setting> {
        let setting = |name: &String, new: bool| Setting {
            name: name.clone(),
            value: kconfig::value_in(config, name),
            by: self.set_by(name, if new { SetBy::Default } else { unnamed }),
            new,
        };
        let new = self.changes.new.iter().map(|name| setting(name, true));
        new.chain(self.changes.defaults.iter().map(|name| setting(name, false))).collect()
    }
}

/// Writes .config, whatever was built in this folder before; returns the options that the patches add or change.
/// kconfig does not rewrite a file with equal bytes.
///
/// # Errors
/// When kconfig fails, or a guest could not run the kernel.
pub fn configure(make: &Make<'_>, wanted: &ConfigParts<'_>) -> Result<Vec<Setting>> {
    let by_default = |name: &&String| wanted.set_by(name, SetBy::Default) == SetBy::Default;
    let asked: Vec<&String> = wanted.changes.new.iter().filter(by_default).collect();
    let mut defaults = String::new();
    for _ in 0..if asked.is_empty() { 0 } else { MOST_PASSES } {
        let found = defaults_of(make, wanted, &asked, &defaults)?;
        if std::mem::replace(&mut defaults, found.clone()) == found {
            break;
        }
    }
    let config = all_no(make, wanted, &defaults, None)?;
    bootable(&config)?;
    // allnoconfig switches off options that no part names.
    Ok(wanted.settings(&config, SetBy::BuiltIn))
}

/// Lines that set the asked options to their defaults. `so_far` sets the options that are already known.
fn defaults_of(make: &Make<'_>, wanted: &ConfigParts<'_>, asked: &[&String], so_far: &str) -> Result<String> {
    let place = make.objects.join(ASKED);
    let config = all_no(make, wanted, so_far, Some(&place))?;
    temp::write_whole(&place, kconfig::without(&config, asked).as_bytes())?;
    make.run(&[&format!("KCONFIG_CONFIG={}", place.display()), "olddefconfig"], 1, &mut |_| ())?;
    let config = read(&place)?;
    let line = |name: &&String| Some(kconfig::line_of(name, &kconfig::value_in(&config, name)?));
    Ok(asked.iter().filter_map(line).collect())
}

/// Runs `make allnoconfig` with further lines, into .config or another file.
fn all_no(make: &Make<'_>, wanted: &ConfigParts<'_>, more: &str, into: Option<&PathBuf>) -> Result<String> {
    let all = make.objects.join("all.config");
    temp::write_whole(&all, (wanted.text() + more).as_bytes())?;
    let all = format!("KCONFIG_ALLCONFIG={}", all.display());
    let place = into.map(|place| format!("KCONFIG_CONFIG={}", place.display()));
    let words: Vec<&str> =
        [Some(all.as_str()), place.as_deref(), Some("allnoconfig")].into_iter().flatten().collect();
    make.run(&words, 1, &mut |_| ())?;
    read(&into.cloned().unwrap_or_else(|| make.objects.join(".config")))
}

fn read(place: &PathBuf) -> Result<String> {
    fs::read_to_string(place).map_err(|e| Error::io(place, "read", &e))
}

/// Checks that a guest of schedlab can boot with a configuration.
fn bootable(config: &str) -> Result<()> {
    let has = |name: &&&str| kconfig::value_in(config, name).as_deref() == Some("y");
    let missing: Vec<String> = NEEDED.iter().filter(|n| !has(n)).map(|n| format!("CONFIG_{n}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::input(format!(
        "a guest can't run a kernel of this configuration: it lacks {}",
        missing.join(", ")
    ))
    .help("take these out of the fragment given by --config, or out of what they depend on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    /// A tree whose kconfig is written in awk: options are `config NAME` with `default VALUE` and `depends on NAME`,
    /// and stand before those that depend on them.
    const MAKEFILE: &str = "K = $(if $(KCONFIG_CONFIG),$(KCONFIG_CONFIG),$(O)/.config)\n\
        allnoconfig:\n\t@awk -f conf.awk -v all=1 $(KCONFIG_ALLCONFIG) Kconfig > $(K).new; mv $(K).new $(K)\n\
        olddefconfig:\n\t@awk -f conf.awk $(K) Kconfig > $(K).new; mv $(K).new $(K)\n";
    const CONF: &str = r##"
/^CONFIG_/ { n = $0; sub(/=.*/, "", n); v = $0; sub(/[^=]*=/, "", v); val[substr(n, 8)] = v; next }
/^# CONFIG_/ { val[substr($2, 8)] = "n"; next }
$1 == "config" { end(); name = $2; def = "n"; dep = ""; next }
$1 == "default" { def = $2 }
$1 == "depends" { dep = $3 }
END { end() }
function end() {
    if (name == "" || (dep != "" && out[dep] != "y")) { name = ""; return }
    v = (name in val) ? val[name] : (all ? "n" : def)
    out[name] = v
    print (v == "n") ? "# CONFIG_" name " is not set" : "CONFIG_" name "=" v
    name = ""
}
"##;

    fn configured(kconfig: &str, new: &[&str], fragment: &str) -> (String, Vec<Setting>) {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let needed: String = NEEDED.iter().map(|n| format!("config {n}\n")).collect();
        put("Makefile", MAKEFILE);
        put("conf.awk", CONF);
        put("Kconfig", &(needed + kconfig));
        let stop = AtomicBool::new(false);
        let path: &Path = dir.path();
        let make = Make { tree: path, objects: path, log: path.join("log"), expected: 1, stop: &stop };
        let built_in: String = NEEDED.iter().map(|n| format!("CONFIG_{n}=y\n")).collect();
        let changes = Changes {
            new: new.iter().map(|n| (*n).to_owned()).collect(),
            defaults: vec!["CHANGED".to_owned()],
        };
        let wanted = ConfigParts { built_in: &built_in, fragment, changes: &changes };
        let settings = configure(&make, &wanted).unwrap();
        (fs::read_to_string(path.join(".config")).unwrap(), settings)
    }

    #[test]
    fn new_options_get_their_defaults_and_others_stay_off() {
        let kconfig = "config ON\ndefault y\nconfig OFF\nconfig COUNT\ndefault 16\nconfig BEHIND\ndefault y\n\
                       depends on OFF\nconfig OLD\ndefault y\nconfig CHANGED\ndefault y\n";
        let (config, settings) = configured(kconfig, &["ON", "OFF", "COUNT", "BEHIND"], "");
        let told: Vec<(&str, Option<&str>, SetBy)> =
            settings.iter().map(|s| (s.name.as_str(), s.value.as_deref(), s.by)).collect();
        assert_eq!(
            told,
            [
                ("ON", Some("y"), SetBy::Default),
                ("OFF", Some("n"), SetBy::Default),
                ("COUNT", Some("16"), SetBy::Default),
                ("BEHIND", None, SetBy::Default),
                ("CHANGED", Some("n"), SetBy::BuiltIn),
            ]
        );
        assert_eq!(kconfig::value_in(&config, "OLD").as_deref(), Some("n"), "the base has it off, too");
    }

    #[test]
    fn the_fragment_overrides_defaults_and_reaches_dependents_of_new_options() {
        let kconfig =
            "config ON\ndefault y\nconfig NEXT\ndefault y\ndepends on ON\nconfig OLD\ndepends on ON\n";
        let (config, settings) = configured(kconfig, &["ON", "NEXT"], "CONFIG_OLD=y\n");
        assert_eq!(kconfig::value_in(&config, "OLD").as_deref(), Some("y"), "{config}");
        assert!(settings[..2].iter().all(|s| s.value.as_deref() == Some("y")), "{settings:?}");
        let (_, settings) = configured(kconfig, &["ON", "NEXT"], "# CONFIG_ON is not set\n");
        assert_eq!((settings[0].value.as_deref(), settings[0].by), (Some("n"), SetBy::Fragment));
        assert_eq!(settings[1].value, None);
    }

    #[test]
    fn a_configuration_without_a_console_is_refused() {
        let good: String = NEEDED.iter().map(|n| format!("CONFIG_{n}=y\n")).collect();
        assert!(bootable(&good).is_ok());
        let bad = good.replace("CONFIG_SMP=y", "# CONFIG_SMP is not set");
        assert!(bootable(&bad).unwrap_err().to_string().contains("lacks CONFIG_SMP"));
    }
}
