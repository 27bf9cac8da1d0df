//! Images of the scheduler's own code for backend code: `schedlab kernel build --code`, their rows of `kernel list`,
//! and `kernel remove`, which removes any kernel of the cache.

use crate::listener::Shown;
use crate::output;
use clap::Args;
use schedlab_base::{Error, Result};
use schedlab_kernels::code::{CodeRecipe, Image, MadeImage};
use schedlab_kernels::{cache, removal};
use schedlab_lab::ask::code;
use schedlab_record::cell::compiler_in_short;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Options of the scheduler that are shown if an image has them.
const OPTIONS: &[&str] = &[
    "NR_CPUS",
    "HZ",
    "PREEMPT_NONE",
    "PREEMPT_VOLUNTARY",
    "PREEMPT",
    "PREEMPT_LAZY",
    "FAIR_GROUP_SCHED",
    "CFS_BANDWIDTH",
    "SCHED_AUTOGROUP",
    "SCHED_HRTICK",
    "SCHED_SMT",
    "SCHED_CLUSTER",
    "SCHED_MC",
    "SCHED_CORE",
    "SCHED_CLASS_EXT",
    "NUMA_BALANCING",
    "UCLAMP_TASK",
    "PSI",
];

/// The options of `kernel remove`.
#[derive(Args)]
pub struct Remove {
    /// Names that 'schedlab kernel list' shows: fetched kernels, built ones, images of the scheduler's code
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Folder of kernels [default: SCHEDLAB_CACHE_DIR, else schedlab in the user's cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// Removes kernels from the cache.
pub fn remove(args: &Remove) -> Result<()> {
    let removed = removal::remove(&args.names, &cache::folder(args.cache.as_deref())?).map_err(|e| {
        if e.remedy().is_some() { e } else { e.help("'schedlab kernel list' shows what is there") }
    })?;
    output::result(|out| {
        removed.iter().try_for_each(|r| writeln!(out, "{}: removed, {}", r.name, mb(r.size_bytes)))
    })
}

/// Builds an image and prints its properties.
pub fn build(recipe: &CodeRecipe, cache: &Path, json: bool, quiet: bool) -> Result<()> {
    let began = Instant::now();
    let made = code::build(recipe, cache, &Shown::new(quiet))?;
    let seconds = began.elapsed().as_secs_f64();
    if json {
        return output::json_as("schedlab/built/1", &as_json(&made)?);
    }
    let version = version(&made.image)?;
    output::result(|out| {
        let MadeImage { image, new, .. } = &made;
        let state = if *new { format!("built in {seconds:.0} s") } else { "was there already".to_owned() };
        writeln!(out, "{}: {state}: {}", image.name, image.object.display())?;
        writeln!(out, "  release {version}, source {}, {}", image.note.source, image.note.compiler)?;
        writeln!(out, "  {}", image.options(OPTIONS).join(", "))?;
        for warning in image.note.warnings() {
            writeln!(out, "  warning: {warning}")?;
        }
        for patch in &image.note.patches {
            let subject = patch.subject.as_ref().map_or(String::new(), |s| format!(": {s}"));
            writeln!(out, "  patch {}{subject}", patch.name)?;
        }
        for feature in &image.note.features {
            writeln!(
                out,
                "  adds feature {}, {} at boot",
                feature.name,
                if feature.on { "on" } else { "off" }
            )?;
        }
        image.note.counters.iter().try_for_each(|counter| writeln!(out, "  adds counter {counter}"))?;
        let lacks = image.note.lacks.join(", ");
        if lacks.is_empty() { Ok(()) } else { writeln!(out, "  names what the image lacks: {lacks}") }
    })
}

fn as_json(made: &MadeImage) -> Result<serde_json::Value> {
    let image = &made.image;
    let version = version(image)?;
    Ok(serde_json::json!({
        "name": image.name, "path": image.object, "release": version, "version": version, "hash": image.note.key,
        "new": made.new, "made_of": image.note, "options": image.options(OPTIONS),
        "moved": made.moved.iter().map(schedlab_kernels::diff::Placement::words).collect::<Vec<_>>(),
        "warnings": made.warnings,
    }))
}

/// A row of `kernel list --json`.
pub fn row_as_json(image: &Image) -> serde_json::Value {
    let used = image.last_use().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    serde_json::json!({
        "name": image.name, "path": image.object, "version": version(image).ok(), "hash": image.note.key,
        "size_bytes": image.size_bytes(), "last_use_s": used.map(|d| d.as_secs()), "made_of": image.note,
    })
}

/// A row of `kernel list`.
pub fn row_as_text(out: &mut dyn Write, image: &Image) -> std::io::Result<()> {
    let version = version(image).unwrap_or_else(|_| "?".to_owned());
    let (size, hash) = (mb(image.size_bytes()), image.note.key.get(..8).unwrap_or(&image.note.key));
    writeln!(out, "{:<34} {version:<10} {size:>8}  code       {hash}", image.name)?;
    writeln!(out, "  {}", image.object.display())?;
    let patches: Vec<&str> = image.note.patches.iter().map(|p| p.name.as_str()).collect();
    let patches = if patches.is_empty() { "none".to_owned() } else { patches.join(", ") };
    let used = image
        .last_use()
        .and_then(|at| at.elapsed().ok())
        .map_or(String::new(), |d| format!(", used {}", ago(d.as_secs())));
    let compiler = compiler_in_short(&image.note.compiler);
    let counted = if image.note.counts { ", counted" } else { "" };
    writeln!(out, "  source {}, {compiler}{counted}, patches: {patches}{used}", image.note.source)
}

fn version(image: &Image) -> Result<String> {
    Ok(image.version()?.to_string().trim_start_matches('v').to_owned())
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A time before now in words.
fn ago(seconds: u64) -> String {
    match seconds {
        0..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Refuses a whole kernel's image in place of a source.
///
/// # Errors
/// When the word is not a source.
pub fn check_source(word: &str) -> Result<()> {
    if schedlab_kernels::Image::open(Path::new(word)).is_ok() {
        return Err(Error::input(format!(
            "{word} is a kernel's image, and --code compiles a kernel's source"
        ))
        .help("name a series (6.1), a tarball, or the folder of a kernel's tree"));
    }
    Ok(())
}
