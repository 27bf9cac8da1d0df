//! Finds the place in an experiment's text of the feature, tunable, patch or fragment for which a run was refused.
//!
//! Names of a kernel's own code are known when its image runs, and a patch is read when its image is built, so such an
//! error knows no file. The experiment's file is read once more to find the place.

use super::lists::strings;
use super::model::Experiment;
use crate::ask::code::settings::name_in_tree;
use crate::ask::guests;
use schedlab_base::Error;
use schedlab_machine::reader::{Source, Table};
use std::fs;

/// The error of an experiment's run, with the place of the setting that it names, if the file has one.
pub(crate) fn placed(experiment: &Experiment, error: Error) -> Error {
    if error.spot().is_some() {
        return error;
    }
    match fs::read_to_string(&experiment.file) {
        Ok(text) => in_text(Source { file: &experiment.file, text: &text }, error),
        Err(_) => error,
    }
}

fn in_text(source: Source<'_>, error: Error) -> Error {
    let Ok(document) = source.parse() else { return error };
    let top = Table::open(source, "the experiment", document.span(), document.get_ref());
    // A variant of the part that was run comes before one of the same name elsewhere.
    let parts = ["code", "vm"].into_iter().filter_map(|key| top.open_table(key).ok()?);
    let mut places: Vec<Table<'_>> = parts.collect();
    places.push(top);
    let message = error.message().to_owned();
    for place in &places {
        let variants = place.open_tables("variant").unwrap_or_default();
        let own = variants.into_iter().filter(|v| is_of(v, &message));
        let shared = place.open_tables("at").unwrap_or_default();
        for table in own.flat_map(with_changes).chain(shared) {
            let files =
                ["patch", "config"].into_iter().flat_map(|key| strings(&table, key).unwrap_or_default());
            if let Some((_, value)) = files.into_iter().find(|(word, _)| names_file(&message, word)) {
                return table.error_on(value, error);
            }
            let features = strings(&table, "features").unwrap_or_default();
            if let Some((_, value)) = features.into_iter().find(|(word, _)| names_feature(&message, word)) {
                return table.error_on(value, error);
            }
            let Ok(Some(tunables)) = table.open_table("tunables") else { continue };
            let found = tunables.keys().find(|key| names_tunable(&message, key));
            if let Some(key) = found {
                return tunables.place(key, error);
            }
        }
    }
    error
}

/// A variant's table and those of its changes in mid-run.
fn with_changes<'t>(variant: Table<'t>) -> Vec<Table<'t>> {
    let changes = variant.open_tables("at").unwrap_or_default();
    std::iter::once(variant).chain(changes).collect()
}

/// Whether a message is about a variant, including one made by a sweep.
fn is_of(variant: &Table<'_>, message: &str) -> bool {
    let kernel = variant.label("kernel").ok().flatten().unwrap_or_default();
    let name = variant.label("name").ok().flatten().unwrap_or(guests::short_name(kernel));
    [' ', ','].iter().any(|end| message.contains(&format!(" {name}{end}")))
        || message.contains(&format!("variant '{name}'"))
}

/// Whether a message is about a file that can't be read, or a missing patch.
fn names_file(message: &str, word: &str) -> bool {
    let is_read = message.contains("can't read ") && message.contains(&format!("{word}: "));
    is_read || message.contains(&format!("unknown patch '{word}'"))
}

fn names_feature(message: &str, word: &str) -> bool {
    message.contains(&format!("feature '{}'", word.strip_prefix("NO_").unwrap_or(word)))
}

fn names_tunable(message: &str, key: &str) -> bool {
    [key, name_in_tree(key)].iter().any(|name| {
        let forms = [format!("tunable '{name}'"), format!("tunable {name} "), format!(" {name} = ")];
        forms.iter().any(|form| message.contains(form))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TEXT: &str = "name = \"x\"\n[[variant]]\nname = \"a\"\nkernel = \"6.1\"\ntunables = { base_slice_ns = 1 }\n\
        [[variant]]\nname = \"b\"\nkernel = \"6.1\"\nfeatures = [\"NEXT_BUDDY\", \"NO_MINE\"]\n\
        tunables = { base_slice_ns = 3, sched_latency_ns = 7 }\n[code]\n[[code.variant]]\nname = \"c\"\nkernel = \"6.1\"\n\
        features = [\"MINE\"]\npatch = [\"gone.patch\"]\n[[code.variant.at]]\ntime = \"1ms\"\ntunables = { rt_period_ns = 1 }\n";

    #[test]
    fn the_setting_of_the_variant_that_failed_is_found() {
        let of = |message: &str| {
            let error =
                in_text(Source { file: Path::new("x.toml"), text: TEXT }, Error::input(message.to_owned()));
            error.spot().map(ToString::to_string)
        };
        let run = |variant: &str, text: &str| of(&format!("hogs default {variant} on smp-2, seed 1: {text}"));
        let at = |place: &str| Some(format!("x.toml:{place}"));
        assert_eq!(run("b", "unknown feature 'MINE'"), at("9:27"));
        assert_eq!(run("c", "unknown feature 'MINE'"), at("15:13"));
        assert_eq!(run("b", "unknown tunable 'base_slice_ns'"), at("10:30"));
        assert_eq!(run("a", "unknown tunable 'base_slice_ns'"), at("5:30"));
        assert_eq!(run("b", "the kernel refuses latency_ns = 7: Invalid argument"), at("10:52"));
        assert_eq!(run("c", "rt_period_ns = 1 is not a whole number of the kernel's units"), at("19:29"));
        assert_eq!(run("a", "unknown feature 'MINE'"), None, "it does not name it");
        assert_eq!(run("b", "no memory is left"), None);
        let gone = "variant 'c': can't read dir/gone.patch: No such file or directory (os error 2)";
        assert_eq!(of(gone), at("16:10"));
        assert_eq!(of(&gone.replace("'c'", "'b'")), None, "another variant's");
    }
}
