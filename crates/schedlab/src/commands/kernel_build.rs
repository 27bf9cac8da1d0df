//! `schedlab kernel build`: a kernel from source, with patches, into the cache; or with --code its scheduler alone.

use super::kernel_code;
use crate::listener::Shown;
use crate::output;
use clap::Args;
use schedlab_base::Result;
use schedlab_kernels::cache;
use schedlab_kernels::code::CodeRecipe;
use schedlab_kernels::{Made, Recipe, Source};
use schedlab_lab::ask::builds;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The options of the command.
#[derive(Args)]
pub struct Build {
    /// Source: a series (6.1, 6.12, 7), fetched as the distribution's source package; a tarball; or a tree of your own,
    /// which is copied and not written to
    #[arg(long, value_name = "SERIES|TREE|TARBALL", default_value = "6.1")]
    source: String,
    /// The source, the same as --source
    #[arg(value_name = "SERIES|TREE|TARBALL", conflicts_with = "source")]
    given: Option<String>,
    /// Build only the scheduler's code, as a shared object for backend code
    #[arg(long)]
    code: bool,
    /// A patch, applied with -p1: a diff, a mail, a mailbox, a folder of them, - for standard input, or the name of a
    /// patch that ships; may be given more than once, in order. Building runs code of patches and source, as you
    #[arg(long, value_name = "FILE")]
    patch: Vec<String>,
    /// A fragment of configuration on top of the built-in one
    #[arg(long, value_name = "FRAGMENT")]
    config: Option<String>,
    /// Folder for sources and kernels [default: SCHEDLAB_CACHE_DIR, else schedlab in the user's cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Builds the kernel and prints its properties.
pub fn run(args: &Build) -> Result<()> {
    let cache = cache::folder(args.cache.as_deref())?;
    let fragment = builds::fragment(args.config.as_deref(), Path::new(""))?;
    let word = args.given.as_ref().unwrap_or(&args.source);
    let patches = builds::patches(&args.patch, word, Path::new(""))?;
    if args.code {
        kernel_code::check_source(word)?;
        let recipe = CodeRecipe { source: Source::parse(word)?, patches, fragment, counts: false };
        return kernel_code::build(&recipe, &cache, args.json, args.quiet);
    }
    let recipe = Recipe { source: Source::parse(word)?, patches, fragment };
    let made = builds::build(&recipe, &cache, &Shown::new(args.quiet))?;
    if args.json {
        return output::json_as("schedlab/built/1", &as_json(&made));
    }
    output::result(|out| as_text(out, &made))
}

fn as_json(made: &Made) -> serde_json::Value {
    let (built, image) = (&made.built, &made.built.image);
    serde_json::json!({
        "name": built.name, "path": image.path, "release": image.release, "version": image.version.to_string(),
        "hash": image.hash, "new": made.new, "made_of": built.note,
        "moved": made.moved.iter().map(schedlab_kernels::diff::Placement::words).collect::<Vec<_>>(),
        "warnings": made.warnings,
    })
}

fn as_text(out: &mut dyn Write, made: &Made) -> std::io::Result<()> {
    let (built, note) = (&made.built, &made.built.note);
    let state = if made.new { "built" } else { "was there already" };
    writeln!(out, "{}: {state}: {}", built.name, built.image.path.display())?;
    writeln!(out, "  release {}, source {}, {}", built.image.release, note.source, note.compiler)?;
    for patch in &note.patches {
        let subject = patch.subject.as_ref().map_or(String::new(), |s| format!(": {s}"));
        writeln!(out, "  patch {}{subject}", patch.name)?;
    }
    for feature in &note.features {
        writeln!(out, "  adds feature {}, {} at boot", feature.name, if feature.on { "on" } else { "off" })?;
    }
    for counter in &note.counters {
        writeln!(out, "  adds counter {counter}")?;
    }
    for option in &note.options {
        writeln!(out, "  {}", option.words())?;
    }
    Ok(())
}
