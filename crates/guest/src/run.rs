//! One run in a guest: passes the job, waits for the reply, reads it, and checks that the guest had the requested
//! machine. A deterministic guest continues from its rest ([`crate::rest`]); a guest in real time boots for each run.

use crate::counter::Counter;
use crate::initramfs::Scheduler;
use crate::job::{Answer, Boot, Job, Reply, parted};
use crate::limits::{self, Limits};
use crate::qemu::{self, Files, Way};
use crate::rest::{AtRest, Rest};
use crate::wake::{self, SETTLE};
use crate::watch::{self, Left, Outputs};
use crate::{Guest, Image, Mode, initramfs, llc, shape, symptoms};
use schedlab_base::temp::TempFolder;
use schedlab_base::{Error, ErrorKind, Ns, Result, Warning};
use schedlab_kernel::Variant;
use schedlab_kernel::variant::RUNNING;
use schedlab_machine::Machine;
use schedlab_native::Outcome;
use schedlab_native::live::Request;
use schedlab_record::Counts;
use schedlab_record::Observe;
use schedlab_workload::{ChannelKind, Params, Spec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Size of event rings for short runs in deterministic guests, KiB. The kernel clears a ring when it makes it; at the
/// usual size this takes longer than the rest of such a run.
const SHORT_RING_KIB: u32 = 2048;
/// The longest short run. Runs that end by themselves count as short.
const SHORT: Ns = Ns::secs(1);

/// The result of a run in a guest.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The outcome. Its environment has facts about the guest and warnings.
    pub outcome: Outcome,
    pub log: String,
    /// Calls and instructions of the scheduler's functions; empty if not counted.
    pub counts: Counts,
    /// The file of events; empty if not wanted or not kept.
    pub events: Vec<u8>,
}

/// The files of a guest, in a temporary folder.
pub(crate) struct Place {
    folder: TempFolder,
    initrd: PathBuf,
    log: PathBuf,
    reply: PathBuf,
    said: PathBuf,
    monitor: PathBuf,
}

impl Place {
    pub fn new() -> Result<Place> {
        let folder = TempFolder::create(&std::env::temp_dir(), "schedlab-guest-", 0o700)
            .map_err(|e| e.help("schedlab writes the guest's files there; TMPDIR names another place"))?;
        let path = |name: &str| folder.path.join(name);
        let (initrd, log, reply, said, monitor) =
            (path("initrd"), path("log"), path("reply"), path("said"), path("monitor"));
        Ok(Place { folder, initrd, log, reply, said, monitor })
    }
    pub fn pack(&self, image: &Image, request: &Request, boot: &Boot) -> Result<()> {
        let boot = serde_json::to_vec(boot).map_err(|e| Error::internal(format!("a guest's boot: {e}")))?;
        let program = request.variant.scx.as_ref().and_then(|scx| Some(PathBuf::from(scx.words()?.0)));
        let config = || image.config().map(|path| (path, image.release.clone()));
        let scheduler = program.zip(place_of(request));
        let scheduler = scheduler.map(|(program, place)| Scheduler { program, place, config: config() });
        let packed = initramfs::pack(&request.spec, scheduler.as_ref(), &boot)?;
        std::fs::write(&self.initrd, packed).map_err(|e| Error::io(&self.initrd, "write", &e))
    }
    /// The input files for QEMU, except the kernel.
    pub fn files(&self) -> Files<'_> {
        Files { kernel: Path::new(""), initrd: &self.initrd, log: &self.log, reply: &self.reply }
    }
    /// The output files to watch.
    pub fn outputs(&self, monitor: bool) -> Outputs<'_> {
        let monitor = monitor.then_some(self.monitor.as_path());
        Outputs { log: &self.log, reply: &self.reply, said: &self.said, monitor }
    }
}

/// Makes a run in a guest with the topology of `machine`; `None` when `stop` became true before it was done. A run of a
/// deterministic guest depends only on the guest, the machine and the request, not on earlier runs. The scheduler's
/// instructions are counted if the image has a table of functions ([`crate::counter`]). With `keep` the run's events
/// are returned, as many as the port transfers in reasonable time; a warning reports where they were cut off.
///
/// # Errors
/// When QEMU can't build or start the machine, the kernel fails, or the guest lacks something that the run needs.
pub fn run(
    at_rest: &AtRest,
    guest: &Guest,
    machine: &Machine,
    request: &Request,
    keep: bool,
    stop: &AtomicBool,
) -> Result<Option<Visit>> {
    let machine = shape::as_built(machine)?;
    let length = SETTLE.plus(length(request));
    let limits = limits::limits(guest, machine.topology.nr_cpus(), length)?;
    if guest.mode == Mode::RealTime {
        return whole(guest, &machine, (request, keep), SETTLE, limits, stop);
    }
    let Some(rest) = at_rest.of(guest, &machine, request, limits, stop)? else { return Ok(None) };
    from_rest(&rest, guest, &machine, (request, keep), limits, stop)
}

/// Boots a guest of two CPUs as a run does, makes a very short run, and receives its reply.
///
/// # Errors
/// As [`run`], and when the boot or the run takes longer than `within`.
pub fn boots(guest: &Guest, within: Duration) -> Result<()> {
    let once = Params([("loops".to_owned(), 1)].into());
    let spec = Spec::bench("pipe", &once)?;
    let request = Request { spec, variant: Variant::plain(RUNNING), seed: 1, observe: Observe::Accounts };
    let machine = shape::as_built(&Machine::load("smp-2")?)?;
    let limits = limits::given_or(Limits { boot: within, run: within })?;
    whole(guest, &machine, (&request, false), Ns::ZERO, limits, &AtomicBool::new(false)).map(|_| ())
}

/// A run that boots.
fn whole(
    guest: &Guest,
    machine: &Machine,
    (request, keep): (&Request, bool),
    settle: Ns,
    limits: Limits,
    stop: &AtomicBool,
) -> Result<Option<Visit>> {
    let job = Job { ring_kib: 0, ..job(request, keep, false) };
    let boot = Boot { settle, llc_balancing_off: guest.setup(machine).llc_balancing_off, job: Some(job) };
    let place = Place::new()?;
    place.pack(&guest.image, request, &boot)?;
    let files = Files { kernel: &guest.image.path, ..place.files() };
    let command = qemu::command(guest, machine, request.seed, files, Way::Whole)?;
    let watched = watch::watch(command, place.outputs(false), guest.accelerator, limits, stop);
    let Some(left) = watched.map_err(|e| named(e, guest, machine))? else { return Ok(None) };
    let (outcome, events) = outcome(guest, machine, &request.variant, &left)?;
    Ok(Some(Visit { outcome, log: left.log, counts: Counts::new(), events }))
}

/// A run that continues from rest.
fn from_rest(
    rest: &Rest,
    guest: &Guest,
    machine: &Machine,
    (request, keep): (&Request, bool),
    limits: Limits,
    stop: &AtomicBool,
) -> Result<Option<Visit>> {
    let counter = Counter::of(guest)?;
    let place = Place::new()?;
    let path = |name: &str| place.folder.path.join(name);
    let job = serde_json::to_vec(&job(request, keep, counter.is_some()))
        .map_err(|e| Error::internal(format!("a guest's job: {e}")))?;
    let (item, counts) = (path("job"), path("counts"));
    let write =
        |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).map_err(|e| Error::io(path, "write", &e));
    write(&item, &wake::packed(&job))?;
    // The initramfs is unpacked already, but QEMU requires one as before.
    write(&place.initrd, &[0])?;
    let files = Files { kernel: &guest.image.path, ..place.files() };
    let mut command = qemu::command(guest, machine, request.seed, files, Way::FromRest(&rest.memory, &item))?;
    crate::sys::inherit(&mut command, std::slice::from_ref(&rest.state));
    if let Some(counter) = &counter {
        command.arg("-plugin").arg(counter.option(&path("map"), &counts)?);
    }
    let state = qemu::inherited(&rest.state);
    let watched = watch::watch_from_rest(command, place.outputs(true), &state, limits, stop);
    let Some(left) = watched.map_err(|e| named(e, guest, machine))? else { return Ok(None) };
    let left = Left { log: format!("{}{}", rest.log, left.log), ..left };
    let (outcome, events) = outcome(guest, machine, &request.variant, &left)?;
    let counts = counter.map_or_else(Counts::new, |c| c.read(&counts));
    Ok(Some(Visit { outcome, log: left.log, counts, events }))
}

/// The job for the guest's init.
fn job(request: &Request, keep: bool, marks: bool) -> Job {
    let short = match &request.spec {
        Spec::Command(_) => false,
        spec => spec.build(request.seed).is_ok_and(|b| b.to_the_end || b.warmup.plus(b.duration) <= SHORT),
    };
    Job {
        loopback: needs_loopback(request),
        // In a guest, recording events disturbs no other user, and init is root.
        request: in_guest(request),
        marks,
        ring_kib: if short { SHORT_RING_KIB } else { 0 },
        keep,
    }
}

/// The request for the guest: the path of its scheduler's program changes, because the guest may mount over folders of
/// this host.
fn in_guest(request: &Request) -> Request {
    let mut request = Request { observe: Observe::Events, ..request.clone() };
    let place = place_of(&request);
    if let (Some(scx), Some(place)) = (&mut request.variant.scx, place) {
        let args = scx.command.split_once(char::is_whitespace).map_or("", |(_, args)| args);
        scx.command = format!("{place} {args}");
    }
    request
}

/// The path of a run's scheduler program in the guest.
fn place_of(request: &Request) -> Option<String> {
    let (program, _) = request.variant.scx.as_ref()?.words()?;
    Some(format!("/schedlab/{}", program.rsplit('/').next()?))
}

/// Whether the run may use TCP or UDP. Otherwise the interface stays down: enabling it is work for the kernel, and
/// would change the figures of runs that count instructions.
fn needs_loopback(request: &Request) -> bool {
    let over_network = |kind: &ChannelKind| matches!(kind, ChannelKind::Tcp | ChannelKind::Udp);
    match &request.spec {
        Spec::Command(_) => true,
        spec => spec.build(request.seed).is_ok_and(|built| built.channels.iter().any(over_network)),
    }
}

/// The longest time of the run, in the guest's time.
fn length(request: &Request) -> Ns {
    match &request.spec {
        Spec::Command(command) => {
            let parts = [&command.argv, &command.setup, &command.cleanup];
            let started = parts.iter().filter(|argv| !argv.is_empty()).count() as u64;
            Ns(command.timeout.0.saturating_mul(started))
        }
        // The guest reports a spec that can't be built.
        spec => spec.build(request.seed).map_or(Ns::ZERO, |built| built.warmup.plus(built.duration)),
    }
}

pub(crate) fn named(e: Error, guest: &Guest, machine: &Machine) -> Error {
    e.context(format!("{} on {}", guest.image.release, machine.name))
}

/// An error about the guest's machine becomes one about its kernel.
fn of_kernel(e: Error) -> Error {
    if e.kind() != ErrorKind::Machine {
        return e;
    }
    let same = Error::new(ErrorKind::Guest, e.message());
    match e.remedy() {
        Some(remedy) => same.help(remedy),
        None => same,
    }
}

/// The outcome of a run, and the file of its events.
pub(crate) fn outcome(
    guest: &Guest,
    machine: &Machine,
    variant: &Variant,
    left: &Left,
) -> Result<(Outcome, Vec<u8>)> {
    let unreadable = |e: String| Error::internal(format!("the guest's reply can't be read: {e}"));
    let payload =
        miniz_oxide::inflate::decompress_to_vec_zlib(&left.reply).map_err(|e| unreadable(e.to_string()))?;
    let (reply, events) = parted(&payload);
    let reply: Reply = serde_json::from_slice(reply).map_err(|e| unreadable(e.to_string()))?;
    let Answer { mut outcome, topology } = match reply {
        Reply::Done(answer) => *answer,
        Reply::Failed(fault) => return Err(named(of_kernel(Error::from(fault)), guest, machine)),
    };
    if let Some(what) = shape::difference(&machine.topology, &topology) {
        let text = format!("the guest is not the machine that was asked for: {what}");
        let e = Error::new(ErrorKind::Guest, text).help(
            "this kernel reads QEMU's CPUs differently: try another kernel, or a machine without that unit",
        );
        return Err(named(e, guest, machine));
    }
    outcome.found.environment.extend(guest_facts(guest, machine, variant));
    outcome.found.warnings.extend(warnings(guest, &left.log));
    Ok((outcome, events.to_vec()))
}

/// Facts about the guest for the record; they are the same in equal runs.
fn guest_facts(guest: &Guest, machine: &Machine, variant: &Variant) -> BTreeMap<String, String> {
    let (setup, cpus) = (guest.setup(machine), machine.topology.nr_cpus());
    let llc_off = setup.llc_balancing_off && !llc::is_chosen(variant);
    let facts = [
        ("vm.accelerator", setup.accelerator),
        ("vm.boot_options", setup.boot_options.join(" ")),
        ("vm.image", setup.image),
        ("vm.llc_balancing", if llc_off { "off".to_owned() } else { String::new() }),
        ("vm.memory_mb", setup.memory_mb.to_string()),
        ("vm.mode", setup.mode.to_string()),
        ("vm.qemu", setup.qemu),
        ("vm.threads", qemu::threads(guest, cpus, qemu::host_cpus()).name().to_owned()),
        ("vm.vcpus", cpus.to_string()),
    ];
    facts.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v)).collect()
}

fn warnings(guest: &Guest, log: &str) -> Vec<Warning> {
    let mut all: Vec<Warning> = symptoms::doubtful(log)
        .into_iter()
        .map(|s| Warning::new("guest.log", format!("in the guest {}: {}", s.what, s.lines)))
        .collect();
    if guest.mode == Mode::RealTime && guest.accelerator == crate::Accelerator::Tcg {
        let text = "times are those of emulated CPUs, which run many times slower than the host's CPUs and share them";
        all.push(Warning::new("guest.emulated", text));
    }
    all
}
