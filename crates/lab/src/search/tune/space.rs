//! What a search for settings tries: a table of axes, each with words for changes of one kernel.
//!
//! The words are those of variants on the command line (`policy=batch`, `NO_PLACE_LAG`, `base_slice_ns=2800000`), and
//! `scx=PROGRAM`. Each is tried alone. The values are the kernel's default times powers of two where a number is meant,
//! since effects of slices and limits grow with their logarithm.

use super::cpus::{self, Cpus};
use crate::ask::variant_words;
use schedlab_base::{Error, Result, Version};
use schedlab_kernel::feature::FEATURES;
use schedlab_kernel::tunable::TUNABLES;
use schedlab_kernel::variant::SLICES_SINCE;
use schedlab_kernel::{FeatureSet, Scx, Tunables, Variant};

/// The word before a scheduler's program.
pub(super) const SCX: &str = "scx=";

/// A row of the table of axes.
pub struct Axis {
    pub name: &'static str,
    /// What it tries, one line.
    pub about: &'static str,
    words: fn(&Ground<'_>) -> Vec<String>,
}

/// What the words depend on.
pub struct Ground<'a> {
    /// The kernel's release.
    pub version: Version,
    /// Programs of sched_ext schedulers that are installed.
    pub schedulers: &'a [String],
    /// The CPUs; `None`: those of the machines differ.
    pub cpus: Option<&'a Cpus>,
}

pub const AXES: &[Axis] = &[
    Axis { name: "policy", about: "SCHED_BATCH for all tasks", words: |_| vec!["policy=batch".to_owned()] },
    Axis { name: "slice", about: "slices that tasks ask for, 0.2 to 50 ms (6.12 and later)", words: slices },
    Axis { name: "nice", about: "other nice values; they matter beside other tasks", words: nice },
    Axis {
        name: "tunables",
        about: "the kernel's tunables, a quarter to four times their defaults",
        words: tunables,
    },
    Axis { name: "features", about: "each of the kernel's sched/features, switched", words: features },
    Axis {
        name: "cpus",
        about: "fewer CPUs: one core, cache or node, or a thread of each core",
        words: sets,
    },
    Axis { name: "scx", about: "sched_ext schedulers in PATH (scx_*)", words: schedulers },
];

fn slices(ground: &Ground<'_>) -> Vec<String> {
    let has = ground.version >= SLICES_SINCE;
    let all = has.then_some(["200us", "500us", "1ms", "6ms", "12ms", "25ms", "50ms"]);
    all.into_iter().flatten().map(|slice| format!("slice={slice}")).collect()
}

fn nice(_: &Ground<'_>) -> Vec<String> {
    [-10, -5, 5, 10].map(|nice| format!("nice={nice}")).to_vec()
}

fn tunables(ground: &Ground<'_>) -> Vec<String> {
    /// Those that place or preempt fair tasks.
    const TRIED: &[&str] = &[
        "base_slice_ns",
        "sched_latency_ns",
        "min_granularity_ns",
        "wakeup_granularity_ns",
        "migration_cost_ns",
        "nr_migrate",
    ];
    let defaults = Tunables::defaults(ground.version);
    let rows = TUNABLES.iter().filter(|row| TRIED.contains(&row.name));
    let rows = rows.filter(|row| row.kernels.is_some_and(|span| span.has(ground.version)));
    rows.flat_map(|row| {
        let usual = defaults.get(row.name).unwrap_or_default();
        let values = [usual / 4, usual / 2, usual * 2, usual * 4];
        let fits = move |value: &u64| (row.range.0..=row.range.1).contains(value);
        values.into_iter().filter(fits).map(|value| format!("{}={value}", row.name))
    })
    .collect()
}

fn features(ground: &Ground<'_>) -> Vec<String> {
    let on = FeatureSet::defaults(ground.version);
    let rows = FEATURES.iter().filter(|row| !row.source.is_ours());
    let rows = rows.filter(|row| row.kernels.is_some_and(|span| span.has(ground.version)));
    rows.map(|row| format!("{}{}", if on.has(row.feature) { "NO_" } else { "" }, row.name)).collect()
}

fn sets(ground: &Ground<'_>) -> Vec<String> {
    ground.cpus.map(Cpus::words).unwrap_or_default()
}

fn schedulers(ground: &Ground<'_>) -> Vec<String> {
    ground.schedulers.iter().map(|program| format!("{SCX}{program}")).collect()
}

/// The words of these axes; of all but `nice` if none is named.
///
/// # Errors
/// For an unknown axis.
pub fn words(axes: &[String], ground: &Ground<'_>) -> Result<Vec<String>> {
    if let Some(odd) = axes.iter().find(|name| !AXES.iter().any(|axis| axis.name == **name)) {
        return Err(Error::unknown("axis", odd, AXES.iter().map(|axis| axis.name)));
    }
    let is_asked = |axis: &&Axis| {
        if axes.is_empty() { axis.name != "nice" } else { axes.iter().any(|a| a == axis.name) }
    };
    Ok(AXES.iter().filter(is_asked).flat_map(|axis| (axis.words)(ground)).collect())
}

/// The base with changes, comma by comma; the words are the variant's name. A scheduler's words go to the end, since
/// its arguments may have commas.
///
/// # Errors
/// For a word that is not a change, and without one; for a set of CPUs where they are not known, and one that is not
/// there.
pub fn with(base: &Variant, words: &str, cpus: Option<&Cpus>) -> Result<Variant> {
    let mut variant = Variant { name: words.to_owned(), ..base.clone() };
    let (changes, program) = match words.find(SCX).filter(|at| *at == 0 || words[..*at].ends_with(',')) {
        Some(at) => (&words[..at], Some(&words[at + SCX.len()..])),
        None => (words, None),
    };
    variant.scx = program.map(|program| Scx { command: program.to_owned(), hash: None }).or(variant.scx);
    let changes = changes.split(',').map(str::trim).filter(|word| !word.is_empty());
    let (mut of_cpus, is_number) = (None, |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '-'));
    for word in changes.clone() {
        if let Some(cpus) = of_cpus.filter(|_| is_number(word)) {
            let text = format!("commas separate changes, and CPUs have slashes between: {cpus}/{word}");
            return Err(Error::input(text));
        }
        of_cpus = Some(word).filter(|word| word.starts_with(cpus::CPUS));
        let set = cpus::change(cpus, word)?;
        variant_words::change(&mut variant, set.as_deref().unwrap_or(word))?;
        of_cpus.and(cpus).map_or(Ok(()), |cpus| cpus.check(&variant))?;
    }
    if program.is_none() && changes.count() == 0 {
        return Err(Error::input("no change is named").help("--try slice=1ms"));
    }
    Ok(variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_own_words() {
        let of = |version| words(&[], &Ground { version, schedulers: &[], cpus: None }).unwrap();
        let (old, new) = (of(Version::new(6, 1)), of(Version::new(6, 12)));
        assert!(old.contains(&"wakeup_granularity_ns=2000000".to_owned()), "{old:?}");
        assert!(!old.iter().any(|word| word.starts_with("slice=")));
        assert!(new.contains(&"base_slice_ns=2800000".to_owned()), "{new:?}");
        assert!(new.contains(&"slice=1ms".to_owned()) && new.contains(&"NO_PLACE_LAG".to_owned()));
        assert!(!new.iter().any(|word| word.starts_with("nice=") || word.starts_with("sched_latency")));
        // Each is a change of that kernel.
        let base = Variant::plain("v6.12");
        for word in new {
            let variant = with(&base, &word, None).unwrap();
            assert!(Variant { name: base.name.clone(), ..variant } != base, "{word}");
        }
    }

    #[test]
    fn words_are_combined_by_commas_and_an_unknown_axis_is_named() {
        let base = Variant::plain("v6.12");
        let both = with(&base, "policy=batch,NO_PLACE_LAG,scx=scx_mine -a 1,2", None).unwrap();
        assert_eq!((both.features.len(), both.scx.unwrap().command.as_str()), (1, "scx_mine -a 1,2"));
        assert!(with(&base, " ,", None).is_err());
        let said = with(&base, "cpus=0-1,3,policy=batch", None).unwrap_err().to_string();
        assert!(said.contains("cpus=0-1/3"), "{said}");
        let ground = Ground { version: Version::new(6, 12), schedulers: &[], cpus: None };
        let said = words(&["polcy".to_owned()], &ground).unwrap_err().to_string();
        assert!(said.contains("policy"), "{said}");
    }
}
