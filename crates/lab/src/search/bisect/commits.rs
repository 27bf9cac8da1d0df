//! Measures commits of a kernel's repository: checks each out, builds it, and makes its runs in guests or by its own
//! scheduler code.

use super::{Commit, MeasuredCommit, Meter, Repository};
use crate::ask::code::{self, CodeImage, Driven};
use crate::ask::experiment::Experiment;
use crate::ask::{builds, here};
use crate::listener::Listener;
use crate::make::exec::{Backends, RunOptions};
use crate::make::plan::Options;
use crate::make::request::{Lab, RunRequest};
use crate::search::trial;
use schedlab_base::{Backend, Error, Result, content_hash, temp};
use schedlab_compare::metrics::evaluate;
use schedlab_kernel::Variant;
use schedlab_kernels::code::CodeRecipe;
use schedlab_kernels::{Recipe, Source, cache};
use schedlab_record::{Record, Value};
use schedlab_transplant::shim;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The question asked of each commit.
#[derive(Clone, Debug)]
pub struct CommitQuestion {
    /// The machine, simulated or of the guests.
    pub machine: String,
    /// The metric that moved.
    pub metric: String,
    /// The fragment of configuration, with its name.
    pub fragment: Option<(String, String)>,
    /// The request of a commit's runs, without their number.
    pub request: RunRequest,
    /// How they are made.
    pub options: RunOptions,
}

/// The values of a metric.
pub(super) fn values(records: &[Record], metric: &str) -> Result<Vec<f64>> {
    let value = |record| match evaluate(record, metric).value {
        Value::Number(n) => Ok(n),
        Value::Missing(why) => Err(Error::input(format!("{metric}: {why}"))),
    };
    records.iter().map(value).collect()
}

/// A folder of the cache with the files of the commit that is being measured. Other processes leave it alone.
pub(super) struct Checkout {
    folder: PathBuf,
    /// Held as long as the folder is used.
    _lock: File,
}

impl Checkout {
    /// The folder of a repository.
    ///
    /// # Errors
    /// When another bisection of the repository is under way.
    pub fn of(repository: Repository<'_>, cache: &Path) -> Result<Checkout> {
        let git = repository.folder()?;
        let name = format!("bisect-{}", &content_hash(git.as_os_str().as_encoded_bytes())[..12]);
        let folder = cache::sources(cache).join(name).join("checkout");
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "make", &e))?;
        let path = folder.with_file_name("lock");
        let lock = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|e| Error::io(&path, "open", &e))?;
        lock.try_lock().map_err(|_| {
            Error::machine("another bisection of this repository is under way")
                .help("wait until it has ended")
        })?;
        Ok(Checkout { folder, _lock: lock })
    }
    /// A file or folder beside the commit's.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }
    /// A file or folder of the commit.
    pub fn join(&self, name: &Path) -> PathBuf {
        self.folder.join(name)
    }
    /// Writes the files of a commit, in place of those of another.
    ///
    /// # Errors
    /// When they can't be written: a full disk is not the commit's fault.
    pub fn at(&self, commit: &Commit, repository: Repository<'_>) -> Result<&Path> {
        write_files(commit, repository, &self.folder, &self.beside("index"))?;
        Ok(&self.folder)
    }
}

/// Writes the files of a commit to a folder that is there.
///
/// # Errors
/// As [`Checkout::at`].
pub(super) fn write_files(
    commit: &Commit,
    repository: Repository<'_>,
    folder: &Path,
    index: &Path,
) -> Result<()> {
    let failed = |e: Error| Error::machine(format!("the files of {} can't be written: {e}", commit.words()));
    repository.check_out(commit, folder, index).map_err(failed)
}

/// Builds commits and measures them.
pub struct CommitRuns<'a> {
    repository: Repository<'a>,
    question: CommitQuestion,
    listener: &'a dyn Listener,
    /// Gets each measured commit, and the number of those left.
    report: &'a dyn Fn(&MeasuredCommit, usize),
    checkout: Checkout,
    cache: PathBuf,
    /// The compiler's version: kernels built by another one are built anew.
    compiler: String,
}

impl<'a> CommitRuns<'a> {
    /// The commits of a repository.
    ///
    /// # Errors
    /// When another bisection of the repository is under way, or there is no compiler.
    pub fn of(
        repository: Repository<'a>,
        question: CommitQuestion,
        listener: &'a dyn Listener,
        report: &'a dyn Fn(&MeasuredCommit, usize),
    ) -> Result<CommitRuns<'a>> {
        let cache = cache::folder(None)?;
        let checkout = Checkout::of(repository, &cache)?;
        let compiler = schedlab_kernels::compiler()?;
        Ok(CommitRuns { repository, question, listener, report, checkout, cache, compiler })
    }
    /// The kernel of a commit, from the cache or built now. `counts`: the image of its code that counts its
    /// instructions. A note in the cache maps the commit to its build.
    fn image(&self, commit: &Commit, counts: bool) -> Result<PathBuf> {
        let by_code = self.by_code();
        let config = if by_code { shim::OVERLAY.hash() } else { schedlab_kernels::GUEST_CONFIG.to_owned() };
        let (fragment, compiler) = (&self.question.fragment, &self.compiler);
        let kind = if counts { "\ncounts" } else { "" };
        let key =
            content_hash(format!("{}\n{fragment:?}\n{config}\n{compiler}{kind}", commit.hash).as_bytes());
        let note = self.checkout.beside(&format!("built-{}", &key[..16]));
        if let Ok(path) = std::fs::read_to_string(&note).map(PathBuf::from)
            && path.is_file()
        {
            return Ok(path);
        }
        let source = self.checkout.at(commit, self.repository)?;
        let source = Source::parse(&source.to_string_lossy())?;
        let (patches, fragment) = (Vec::new(), fragment.clone());
        let path = if by_code {
            let recipe = CodeRecipe { source, patches, fragment, counts };
            code::build(&recipe, &self.cache, self.listener)?.image.object
        } else {
            let recipe = Recipe { source, patches, fragment };
            builds::build(&recipe, &self.cache, self.listener)?.built.image.path
        };
        temp::write_whole(&note, path.to_string_lossy().as_bytes())?;
        Ok(path)
    }
    fn by_code(&self) -> bool {
        self.question.request.backend == Backend::Code
    }
    /// The variant of an experiment of one commit with its image, for the kernel's own code; empty for guests.
    fn driven(&self, commit: &Commit, experiment: &Experiment, object: &Path) -> Result<Vec<Driven>> {
        if !self.by_code() {
            return Ok(Vec::new());
        }
        let level = self.question.request.level.unwrap_or_default();
        let image = match level.counts() {
            true => CodeImage::counted(&self.image(commit, true)?, object, level)?,
            false => CodeImage::open(object)?,
        };
        let one = |v: &Variant| Driven {
            variant: Variant { level, ..v.clone() },
            image: image.clone(),
            of: Some(v.name.clone()),
        };
        Ok(experiment.variants.iter().map(one).collect())
    }
}

impl Meter for CommitRuns<'_> {
    fn of_commit(&mut self, commit: &Commit, runs: u64) -> Result<Vec<f64>> {
        let image = self.image(commit, false)?;
        let CommitQuestion { machine, metric, request, options, .. } = &self.question;
        let kernel = Variant::plain(&image.to_string_lossy());
        let variant = Variant { name: commit.hash[..12].to_owned(), ..kernel };
        let experiment = trial::alone(&variant, machine, here::cpus())?;
        let driven = self.driven(commit, &experiment, &image)?;
        let wanted = Options { runs: Some(runs), ..request.wanted };
        // Guests at rest are kept as long as their executor: those of this commit end with its runs.
        let backends = Backends::new(options.clone());
        let lab = Lab::here(&backends, self.listener);
        let made = lab.compared(&RunRequest { wanted, driven, ..request.clone() }, experiment)?;
        values(&made.records, metric)
    }
    fn report_step(&mut self, step: &MeasuredCommit, left: usize) {
        (self.report)(step, left);
    }
}
