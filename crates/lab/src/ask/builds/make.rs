//! Builds kernels, and estimates the time of builds beforehand.

use super::{KernelOrder, check_features};
use crate::ask::here;
use crate::listener::Listener;
use schedlab_base::{Error, Result, counted};
use schedlab_guest::Image;
use schedlab_kernel::Variant;
use schedlab_kernels::cache;
use schedlab_kernels::forecast::{Forecast, Speed, forecast};
use schedlab_kernels::{Made, Recipe, Setting, Step};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The speed of earlier builds counts like this many objects made before the first: the first objects are short
/// programs of the build itself, and say little.
const PRIOR: f64 = 60.0;

/// The time that a build still takes, from its own speed and the speed of earlier builds.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Wall time of an object, from earlier builds.
    object_s: f64,
    began: Option<Instant>,
}

impl Estimate {
    /// The estimate from the builds that a cache knows.
    pub fn of(cache: &Path) -> Estimate {
        let object_s = Speed::read(cache).object_ms as f64 / 1000.0 / here::cpus() as f64;
        Estimate { object_s, began: None }
    }
    /// The progress of a build, in words; its first step begins the time.
    pub fn words(&mut self, step: &Step) -> String {
        let began = *self.began.get_or_insert_with(Instant::now);
        if step.of == 0 {
            return format!("{} compiled", counted(step.done, "file"));
        }
        let by_speed = || left_s(step, began.elapsed().as_secs_f64(), self.object_s);
        let left = step.left.map_or_else(by_speed, |left| left.as_secs_f64());
        format!("{} of about {} objects, {} left", step.done, step.of, about(left))
    }
}

/// Seconds until the last object, from the speed so far and the speed of earlier builds.
fn left_s(step: &Step, so_far_s: f64, object_s: f64) -> f64 {
    let each = (so_far_s + PRIOR * object_s) / (PRIOR + step.done as f64);
    each * step.of.saturating_sub(step.done) as f64
}

/// A time in words: "about 9 min".
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => "a few seconds".to_owned(),
        s if s < 90.0 => format!("about {:.0} s", (s / 10.0).ceil() * 10.0),
        s => format!("about {:.0} min", s / 60.0),
    }
}

/// Estimates the time of a trial: the kernels to build for it, and its runs, made `jobs` side by side. `runs` has those
/// of the first look and the most further ones, `None` if a budget of time decides.
///
/// # Errors
/// As [`schedlab_kernels::build`] for sources and tools.
pub fn foretell(wanted: &[KernelOrder], runs: (u64, Option<u64>), jobs: u64) -> Result<String> {
    let cache = cache::folder(None)?;
    let speed = Speed::read(&cache);
    let all = wanted.iter().map(|w| forecast(&w.recipe, &cache)).collect::<Result<Vec<_>>>()?;
    Ok(forecast_text(&all, speed, runs, jobs))
}

fn forecast_text(
    kernels: &[Forecast],
    speed: Speed,
    (first, further): (u64, Option<u64>),
    jobs: u64,
) -> String {
    let of = |count: u64, each_ms: u64, side_by_side: u64| {
        count as f64 * each_ms as f64 / 1000.0 / side_by_side.max(1) as f64
    };
    let missing: Vec<&Forecast> = kernels.iter().filter(|f| f.objects > 0).collect();
    // Kernels of one source share their objects: a second one has little to make.
    let objects = missing.iter().map(|f| f.objects).max().unwrap_or(0);
    let build_s = of(objects, speed.object_ms, here::cpus());
    let runs = first + further.unwrap_or(0);
    let runs_s = of(runs, speed.run_ms, jobs.min(runs));
    let mut parts = Vec::new();
    if missing.iter().any(|f| f.source) {
        parts.push("the source to fetch or copy".to_owned());
    }
    if !missing.is_empty() {
        let count = missing.len();
        let kernels = if count == 1 { "a kernel".to_owned() } else { format!("{count} kernels") };
        parts.push(format!("{kernels} to build ({objects} objects, {})", about(build_s)));
    }
    // A budget of time gives no number of runs, so the note gives the first look's runs and time.
    let (of_runs, of_time) = if further.is_some() { ("up to", "") } else { ("at least", "at least ") };
    parts.push(format!("{of_runs} {} in guests ({of_time}{})", counted(runs, "run"), about(runs_s)));
    format!("{of_time}{} in all: {}", about(build_s + runs_s), parts.join(", "))
}

/// Checks that this machine can boot kernels, and build them if `builds`; reports everything that is missing in one
/// error.
///
/// # Errors
/// When tools or QEMU are missing.
pub fn ready(builds: bool) -> Result<()> {
    let tools = if builds { schedlab_kernels::check_tools() } else { Ok(()) };
    match (tools, schedlab_guest::find_qemu()) {
        (tools, Ok(_)) => tools,
        (Ok(()), Err(qemu)) => Err(qemu),
        (Err(tools), Err(qemu)) => Err(both(&tools, &qemu)),
    }
}

/// Two errors of the machine as one.
fn both(first: &Error, second: &Error) -> Error {
    let remedies: Vec<&str> = [first, second].iter().filter_map(|e| e.remedy()).collect();
    Error::machine(format!("{}; {}", first.message(), second.message())).help(remedies.join("; "))
}

/// Builds one kernel, or finds it in the cache; reports moved hunks and the compiler's warnings about changed files.
///
/// # Errors
/// As [`schedlab_kernels::build`].
pub fn build(recipe: &Recipe, cache: &Path, listener: &dyn Listener) -> Result<Made> {
    let mut progress = listener.build(Estimate::of(cache));
    let made = schedlab_kernels::build(recipe, cache, listener.stop_flag()?, &mut *progress);
    drop(progress);
    let made = made?;
    made.moved.iter().for_each(|hunk| listener.warn(&hunk.words()));
    made.warnings.iter().for_each(|warning| listener.warn(&format!("the compiler warns:\n{warning}")));
    Ok(made)
}

/// Builds all kernels that variants need; returns each variant's image.
///
/// # Errors
/// As [`build`], and for features that neither the tables nor the patches have.
pub fn build_all(
    wanted: &[KernelOrder],
    variants: &[Variant],
    listener: &dyn Listener,
) -> Result<BTreeMap<String, Image>> {
    let mut images = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(images);
    }
    let cache = cache::folder(None)?;
    // Patched kernels come first: a patch that does not apply is reported before anything is compiled.
    let mut wanted: Vec<&KernelOrder> = wanted.iter().collect();
    wanted.sort_by_key(|w| w.recipe.patches.is_empty());
    for one in &wanted {
        let made = build(&one.recipe, &cache, listener)
            .map_err(|e| e.context(format!("variant '{}'", one.variants.join("', '"))))?;
        for name in &one.variants {
            if let Some(variant) = variants.iter().find(|v| v.name == *name) {
                check_features(variant, &made.built)?;
            }
            images.insert(name.clone(), made.built.image.clone());
        }
    }
    let firsts = wanted.iter().filter_map(|w| w.variants.first());
    let hashes: Vec<(&str, &str)> =
        firsts.filter_map(|name| Some((name.as_str(), images.get(name)?.hash.as_str()))).collect();
    same_images(&hashes).into_iter().for_each(|text| listener.warn(&text));
    Ok(images)
}

/// A note about each pair of kernels, by variant and hash, that were built from different sources and are one image.
fn same_images(hashes: &[(&str, &str)]) -> Vec<String> {
    let mut all = Vec::new();
    for (i, (name, hash)) in hashes.iter().enumerate() {
        all.extend(hashes[..i].iter().filter(|(_, other)| other == hash).map(|(other, _)| {
            format!(
                "the kernels of '{other}' and '{name}' are the same image: what the patch changes is not compiled \
                 with this configuration; --config FRAGMENT switches options on"
            )
        }));
    }
    all
}

/// The options that the patches of a built image bring or change; none for an image that was not built here.
pub fn options(image: &Image) -> Vec<Setting> {
    let built = image.path.parent().and_then(|folder| schedlab_kernels::catalog::open(folder).ok());
    built.map_or(Vec::new(), |built| built.note.options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_begins_with_earlier_builds_and_follows_this_one() {
        let step = |done, of| Step { done, of, file: String::new(), left: None };
        assert!((left_s(&step(0, 1700), 0.0, 0.2) - 340.0).abs() < 1e-9);
        let slow = left_s(&step(850, 1700), 850.0, 0.2);
        assert!((700.0..850.0).contains(&slow), "{slow}");
        assert_eq!(about(left_s(&step(1700, 1700), 900.0, 0.2)), "a few seconds");
        assert_eq!((about(41.0), about(540.0)), ("about 50 s".to_owned(), "about 9 min".to_owned()));
    }

    #[test]
    fn two_kernels_that_are_one_image_are_reported() {
        assert!(same_images(&[("base", "a"), ("patched", "b")]).is_empty());
        let told = same_images(&[("patched", "a"), ("base", "a")]);
        assert!(told.len() == 1 && told[0].contains("'patched' and 'base' are the same image"), "{told:?}");
    }

    #[test]
    fn a_trial_is_estimated_by_the_missing_kernels_and_runs() {
        let speed = Speed { object_ms: 400, run_ms: 3500 };
        let of = |source, objects| Forecast { source, objects };
        let first = forecast_text(&[of(true, 1700), of(true, 1700)], speed, (128, Some(64)), 2);
        for part in [
            "the source to fetch or copy",
            "2 kernels to build (1700 objects",
            "up to 192 runs in guests (about 6 min)",
        ] {
            assert!(first.contains(part), "{first}");
        }
        let again = forecast_text(&[of(false, 0), of(false, 0)], speed, (192, Some(0)), 2);
        assert!(again.starts_with("about 6 min in all: up to 192 runs"), "{again}");
        let in_time = forecast_text(&[of(false, 0), of(false, 0)], speed, (192, None), 2);
        assert_eq!(
            in_time,
            "at least about 6 min in all: at least 192 runs in guests (at least about 6 min)"
        );
        let one = forecast_text(&[of(false, 0)], speed, (1, Some(0)), 2);
        assert!(one.contains("up to 1 run in guests"), "{one}");
    }

    #[test]
    fn all_missing_things_of_a_machine_are_reported_at_once() {
        let one = |what: &str, help: &str| Error::machine(what).help(help);
        let error = both(&one("missing bison", "install bison"), &one("no QEMU", "fetch it"));
        assert_eq!(error.kind().exit_code(), 3);
        assert_eq!(
            (error.message(), error.remedy()),
            ("missing bison; no QEMU", Some("install bison; fetch it"))
        );
    }
}
