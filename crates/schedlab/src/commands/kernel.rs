//! `schedlab kernel`: the kernel images that guests can boot, on this machine or fetched; the reference of features and
//! tunables; and what came and went by version.

use super::{kernel_build, kernel_code};
use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use schedlab_base::{Error, Result, Version, printable};
use schedlab_kernel::history::{self, HISTORY, Mechanism, UNMODELLED};
use schedlab_kernel::reference::{self, Setting};
use schedlab_kernel::{Kernel, PROFILES, Profile, distribution, profile};
use schedlab_kernels::Built;
use schedlab_kernels::cache;
use schedlab_kernels::catalog;
use schedlab_kernels::code;
use schedlab_kernels::fetch;
use schedlab_kernels::images::{self, Listed, Origin};
use schedlab_report::features as report;
use schedlab_report::history as chronicle;
use schedlab_report::text::wrap;
use std::io::Write;
use std::path::{Path, PathBuf};

pub const ENTRY: Entry = Entry { command, run };

#[derive(Subcommand)]
enum KernelArgs {
    /// List the kernels of this machine: fetched ones, installed ones, built ones, images of the scheduler's code, and
    /// files named here
    List(List),
    /// Fetch kernels and QEMU into the cache through the machine's package client; nothing is installed
    Fetch(Fetch),
    /// Build a kernel from source, with patches, for guests; or its scheduler's code, for backend code
    Build(kernel_build::Build),
    /// Remove kernels from the cache. What 'bisect' keeps of a repository is in the cache's sources/bisect-*, which may
    /// be removed whole
    Remove(kernel_code::Remove),
    /// Show every feature and tunable: what it does, since when, its default, whose name it is
    Features(Features),
    /// Mechanisms that came to the scheduler or went: their releases, and the behaviour of a simulated kernel
    History(Chronology),
}

#[derive(Args)]
struct Chronology {
    /// A simulated kernel (v6.5): what it has, what it has not, and why; or the name of one mechanism; or a word of its
    /// name, function or text
    #[arg(value_name = "VERSION|MECHANISM|WORD")]
    what: Option<String>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Features {
    /// A simulated kernel (v6.5), for its features and tunables with their values; or the name of one feature or
    /// tunable
    #[arg(value_name = "VERSION|NAME")]
    what: Option<String>,
    /// One feature or tunable, the same as NAME
    #[arg(long, value_name = "NAME", conflicts_with = "what")]
    feature: Option<String>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Fetch {
    /// Series of kernels (6.1, 6.12, 7), or qemu [default: 6.1 7 qemu]
    #[arg(value_name = "SERIES|qemu")]
    words: Vec<String>,
    /// Folder for fetched kernels and QEMU [default: SCHEDLAB_CACHE_DIR, else schedlab in the user's cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Fetch a newer version, if there is one, even if the cache has an older one
    #[arg(long)]
    refresh: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct List {
    /// Files to list, too
    #[arg(value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Folder of fetched kernels and QEMU [default: SCHEDLAB_CACHE_DIR, else schedlab in the user's cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    KernelArgs::augment_subcommands(
        Command::new("kernel").subcommand_required(true).arg_required_else_help(true),
    )
    .about("Kernel images for --backend vm, features and tunables, what came and went by version")
}

fn run(matches: &ArgMatches) -> Result<()> {
    match KernelArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))? {
        KernelArgs::List(args) => list(&args),
        KernelArgs::Fetch(args) => fetch(&args),
        KernelArgs::Build(args) => kernel_build::run(&args),
        KernelArgs::Remove(args) => kernel_code::remove(&args),
        KernelArgs::Features(args) => features(&args),
        KernelArgs::History(args) => chronology(&args),
    }
}

/// Whether a word is a version: it begins with a digit, or with "v" and a digit; names of features, tunables
/// and mechanisms do not.
fn is_version(text: &str) -> bool {
    text.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
}

fn chronology(args: &Chronology) -> Result<()> {
    const SCHEMA: &str = "schedlab/history/1";
    match args.what.as_deref() {
        Some(text) if is_version(text) => {
            let version = Kernel::profile(text)?.version;
            if !args.json {
                return output::result(|out| chronicle::profile(version, out));
            }
            let concern = HISTORY.iter().filter(|m| m.concerns(version));
            let rows: Vec<_> = concern.map(|m| in_version(m, version)).collect();
            let absent: Vec<_> = UNMODELLED.iter().filter(|u| u.is_in(version)).collect();
            output::json_as(
                SCHEMA,
                &serde_json::json!({ "kernel": version, "mechanisms": rows, "not_modelled": absent }),
            )
        }
        Some(words) if history::find(words).is_err() && !history::search(words).is_empty() => {
            let found = history::search(words);
            if args.json {
                output::json_as(SCHEMA, &serde_json::json!({ "mechanisms": found }))
            } else {
                output::result(|out| chronicle::matching(&printable::name(words), &found, out))
            }
        }
        Some(name) => {
            let one = history::find(name)?;
            if !args.json {
                return output::result(|out| chronicle::page(one, out));
            }
            output::json_as(SCHEMA, &serde_json::json!({ "mechanisms": [one] }))
        }
        None if args.json => {
            output::json_as(SCHEMA, &serde_json::json!({ "mechanisms": HISTORY, "not_modelled": UNMODELLED }))
        }
        None => output::result(chronicle::all),
    }
}

/// A mechanism, and whether the kernel of a version has it.
fn in_version(m: &'static Mechanism, version: Version) -> InVersion {
    InVersion { mechanism: m, has: m.is_in(version), because: m.because(version) }
}

/// See [`in_version`].
#[derive(serde::Serialize)]
struct InVersion {
    #[serde(flatten)]
    mechanism: &'static Mechanism,
    has: bool,
    because: String,
}

fn features(args: &Features) -> Result<()> {
    const SCHEMA: &str = "schedlab/features/1";
    let name = args.feature.as_ref().or(args.what.as_ref());
    let version = args.what.as_deref().filter(|text| is_version(text));
    if let Some(text) = version {
        let version = Kernel::profile(text)?.version;
        let entries = reference::of(version);
        if !args.json {
            return output::result(|out| report::profile(version, &entries, out));
        }
        let rows: Vec<_> = entries.iter().map(|e| Valued { entry: e, value: e.value(version) }).collect();
        let debian = distribution::of(version);
        return output::json_as(
            SCHEMA,
            &serde_json::json!({ "kernel": version, "entries": rows, "debian": debian }),
        );
    }
    let entries = match name {
        Some(name) => vec![reference::find(name)?],
        None => reference::all(),
    };
    if args.json {
        return output::json_as(SCHEMA, &serde_json::json!({ "entries": entries }));
    }
    match (name, &entries[..]) {
        (Some(_), [entry]) => output::result(|out| report::page(entry, out)),
        _ => output::result(|out| report::all(&entries, out)),
    }
}

/// An entry with its value in one profile.
#[derive(serde::Serialize)]
struct Valued<'a> {
    #[serde(flatten)]
    entry: &'a reference::Entry,
    value: Option<Setting>,
}

fn fetch(args: &Fetch) -> Result<()> {
    let cache = cache::folder(args.cache.as_deref())?;
    let usual = || fetch::USUAL.iter().map(|w| (*w).to_owned()).collect();
    let words = if args.words.is_empty() { usual() } else { args.words.clone() };
    let all = fetch::fetch(&words, &cache, args.refresh, &mut output::note)?;
    if args.json {
        return output::json_as("schedlab/fetched/1", &serde_json::json!({ "fetched": all }));
    }
    output::result(|out| {
        all.iter().try_for_each(|f| {
            let (what, state) = (if f.word == fetch::QEMU { "QEMU " } else { "" }, f.state());
            writeln!(out, "{what}{}: {state}: {}", f.name, f.path.display())
        })
    })
}

fn list(args: &List) -> Result<()> {
    let cache = cache::folder(args.cache.as_deref())?;
    let mut all = images::list(&args.images, &cache);
    // The user asked for this file, so a file that is not an image is an error, not a row of the list.
    if let Some(at) = all.iter().position(|l| l.origin == Origin::Given && l.image.is_err()) {
        return all.swap_remove(at).image.map(|_| ());
    }
    let (built, by_code) = (catalog::all(&cache), code::all(&cache));
    if args.json {
        let rows: Vec<_> = all.iter().map(as_json).collect();
        let builds: Vec<_> = built.iter().map(built_as_json).collect();
        return output::json_as(
            "schedlab/kernels/1",
            &serde_json::json!({
                "images": rows, "built": builds, "code": by_code.iter().map(kernel_code::row_as_json).collect::<Vec<_>>(),
                "profiles": profiles(),
            }),
        );
    }
    output::result(|out| {
        as_text(out, &all, &cache)?;
        built.iter().try_for_each(|b| built_as_text(out, b))?;
        by_code.iter().try_for_each(|image| kernel_code::row_as_text(out, image))?;
        simulated_as_text(out)
    })
}

/// The simulated kernels, with the releases that they follow.
fn profiles() -> Vec<serde_json::Value> {
    let one = |p: &Profile| {
        serde_json::json!({
            "version": p.version.to_string(), "release": profile::release(p.version), "about": p.about,
        })
    };
    PROFILES.iter().map(one).collect()
}

fn simulated_as_text(out: &mut dyn Write) -> std::io::Result<()> {
    let one = |p: &Profile| match profile::release(p.version) {
        Some(release) => format!("{} ({release})", p.version),
        None => p.version.to_string(),
    };
    let all: Vec<String> = PROFILES.iter().map(one).collect();
    let text = format!(
        "{}. In parentheses the release of a stable tree that a profile follows, backports included; the others are the \
         first release of their series.",
        all.join(", ")
    );
    write!(out, "\n{}", wrap("simulated: ", &text))
}

fn built_as_json(built: &Built) -> serde_json::Value {
    serde_json::json!({
        "name": built.name, "path": built.image.path, "release": built.image.release,
        "version": built.image.version.to_string(), "hash": built.image.hash, "made_of": built.note,
    })
}

fn built_as_text(out: &mut dyn Write, built: &Built) -> std::io::Result<()> {
    let (image, note) = (&built.image, &built.note);
    let mb = std::fs::metadata(&image.path).map_or(0, |m| m.len()) as f64 / 1e6;
    let (version, size, hash) = (image.version.to_string(), format!("{mb:.1} MB"), &image.hash[..8]);
    writeln!(out, "{:<34} {version:<10} {size:>8}  built      {hash}", built.name)?;
    writeln!(out, "  {}", image.path.display())?;
    let patches: Vec<&str> = note.patches.iter().map(|p| p.name.as_str()).collect();
    let patches = if patches.is_empty() { "none".to_owned() } else { patches.join(", ") };
    let config = note.fragment.as_ref().map_or(String::new(), |f| format!(" with {f}"));
    writeln!(out, "  source {}, patches: {patches}; built-in configuration{config}", note.source)
}

fn as_json(listed: &Listed) -> serde_json::Value {
    let mut row = serde_json::json!({
        "path": listed.path, "origin": listed.origin, "size_bytes": listed.size_bytes,
    });
    match &listed.image {
        Ok(image) => {
            row["release"] = image.release.clone().into();
            row["version"] = image.version.to_string().into();
            row["hash"] = image.hash.clone().into();
        }
        Err(e) => row["error"] = e.to_string().into(),
    }
    if let Some(note) = listed.path.parent().and_then(cache::Note::read) {
        row["package"] = note.package.into();
        row["package_version"] = note.version.into();
    }
    row
}

fn as_text(out: &mut dyn Write, all: &[Listed], cache: &Path) -> std::io::Result<()> {
    if all.is_empty() {
        writeln!(out, "No kernel images here. 'schedlab kernel fetch 6.1' fetches one into")?;
        return writeln!(out, "{}.", cache.display());
    }
    writeln!(out, "{:<34} {:<10} {:>8}  {:<9}  hash", "release", "version", "size", "where")?;
    for l in all {
        let origin = match l.origin {
            Origin::Given => "given",
            Origin::Cache => "fetched",
            Origin::Installed => "installed",
        };
        match &l.image {
            Ok(i) => {
                let (version, hash) = (i.version.to_string(), &i.hash[..8]);
                let size = format!("{:.1} MB", l.size_bytes as f64 / 1e6);
                writeln!(out, "{:<34} {version:<10} {size:>8}  {origin:<9}  {hash}", i.release)?;
                writeln!(out, "  {}", l.path.display())?;
            }
            Err(e) => write!(out, "{}", wrap("? ", &e.to_string().replace("\n  help: ", "; ")))?,
        }
    }
    Ok(())
}
