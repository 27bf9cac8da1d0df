//! One run in a guest: pack, boot, wait, read the reply, and check that the guest had the machine asked for.

use crate::counter::{Counter, Counts};
use crate::job::{Answer, Job, Reply, parted};
use crate::limits::{self, Limits};
use crate::qemu::{self, Files};
use crate::watch::{self, Left, Outputs};
use crate::{Guest, Mode, initramfs, shape, symptoms};
use schedlab_base::temp::Folder;
use schedlab_base::{Error, ErrorKind, Ns, Result, Warning};
use schedlab_kernel::Variant;
use schedlab_kernel::variant::RUNNING;
use schedlab_machine::Machine;
use schedlab_native::Outcome;
use schedlab_native::live::Request;
use schedlab_record::Observe;
use schedlab_workload::{ChannelKind, Params, Spec};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a booted kernel comes to rest before the run: work of the boot goes on for the first second or so.
const SETTLE: Ns = Ns::secs(2);

/// The result of a run in a guest.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The run's outcome, with facts about the guest in its environment and warnings.
    pub outcome: Outcome,
    /// The kernel's log.
    pub log: String,
    /// Calls and instructions of the scheduler's functions; empty if they were not counted.
    pub counts: Counts,
    /// The file of its events; empty if they were not wanted, or not kept.
    pub events: Vec<u8>,
}

/// Makes a run in a guest with the topology of `machine`; `None` when `stop` became true before it was done.
///
/// # Errors
/// When QEMU can't build or start the machine, the kernel fails, or the guest lacks what the run asks for.
pub fn run(guest: &Guest, machine: &Machine, request: &Request, stop: &AtomicBool) -> Result<Option<Visit>> {
    let visits = run_all(guest, machine, std::slice::from_ref(request), false, stop)?;
    Ok(visits.and_then(|all| all.into_iter().next()))
}

/// Makes several runs in one boot, one after the other. The scheduler's instructions are counted where the guest is
/// deterministic and has several runs ([`counter`]). With `keep` each run's events come back, too, as far as they go
/// through the port in good time; the run's warnings tell where they were cut off.
///
/// # Errors
/// As [`run`], and when one of the runs fails.
pub fn run_all(
    guest: &Guest,
    machine: &Machine,
    requests: &[Request],
    keep: bool,
    stop: &AtomicBool,
) -> Result<Option<Vec<Visit>>> {
    let machine = shape::as_built(machine)?;
    let length = requests.iter().map(length).fold(SETTLE, Ns::plus);
    let limits = limits::limits(guest, machine.topology.nr_cpus(), length)?;
    visit(guest, &machine, (requests, keep), SETTLE, limits, stop)
}

/// Boots a guest of two CPUs as a run does, lets it make a very short run, and takes its reply.
///
/// # Errors
/// As [`run`], and when the guest takes longer than `within` to boot, or for its run.
pub fn boots(guest: &Guest, within: Duration) -> Result<()> {
    let once = Params([("loops".to_owned(), 1)].into());
    let spec = Spec::bench("pipe", &once)?;
    let request = Request { spec, variant: Variant::plain(RUNNING), seed: 1, observe: Observe::Accounts };
    let machine = shape::as_built(&Machine::load("smp-2")?)?;
    let limits = limits::given_or(Limits { boot: within, run: within })?;
    visit(guest, &machine, (&[request], false), Ns::ZERO, limits, &AtomicBool::new(false)).map(|_| ())
}

fn visit(
    guest: &Guest,
    machine: &Machine,
    (requests, keep): (&[Request], bool),
    settle: Ns,
    limits: Limits,
    stop: &AtomicBool,
) -> Result<Option<Vec<Visit>>> {
    // Recording events disturbs no other user in a guest, and its init is root.
    let mut all = requests.iter().map(in_guest);
    let request = all.next().ok_or_else(|| Error::internal("a guest without a run"))?;
    let several = guest.sitting.is_some() && guest.mode == Mode::Deterministic;
    let counter = if several { Counter::of(guest)? } else { None };
    let job = Job {
        loopback: requests.iter().any(needs_loopback),
        request,
        more: all.collect(),
        marks: counter.is_some(),
        settle,
        llc_balancing_off: guest.setup(machine).llc_balancing_off,
        keep,
    };
    let job = serde_json::to_vec(&job).map_err(|e| Error::internal(format!("a guest's job: {e}")))?;
    let specs: Vec<&Spec> = requests.iter().map(|r| &r.spec).collect();
    let schedulers: Vec<(&Path, String)> = requests
        .iter()
        .filter_map(|r| Some((Path::new(r.variant.scx.as_ref()?.words()?.0), place_of(r)?)))
        .collect();
    let initramfs = initramfs::pack(&specs, &schedulers, &job)?;
    let folder = Folder::create(&std::env::temp_dir(), "schedlab-guest-", 0o700)
        .map_err(|e| e.help("schedlab writes the guest's files there; TMPDIR names another place"))?;
    let path = |name: &str| folder.path.join(name);
    let (initrd, log, reply, said) = (path("initrd"), path("log"), path("reply"), path("said"));
    std::fs::write(&initrd, initramfs).map_err(|e| Error::io(&initrd, "write", &e))?;
    let files = Files { kernel: &guest.image.path, initrd: &initrd, log: &log, reply: &reply };
    let mut command = qemu::command(guest, machine, requests[0].seed, files)?;
    let counts = path("counts");
    if let Some(counter) = &counter {
        command.arg("-plugin").arg(counter.option(&path("map"), &counts)?);
    }
    let outputs = Outputs { log: &log, reply: &reply, said: &said };
    let watched = watch::watch(command, outputs, guest.accelerator, limits, stop);
    let Some(left) = watched.map_err(|e| named(e, guest, machine))? else { return Ok(None) };
    let outcomes = outcomes(guest, machine, &left)?;
    let mut counted = counter.map_or_else(Vec::new, |c| c.read(&counts)).into_iter();
    let visit = |(outcome, events)| {
        let counts = counted.next().unwrap_or_default();
        Visit { outcome, log: left.log.clone(), counts, events }
    };
    Ok(Some(outcomes.into_iter().map(visit).collect()))
}

/// A run as the guest's init is asked for it: its scheduler's program lies elsewhere, because folders of this host
/// may be mounted over in the guest.
fn in_guest(request: &Request) -> Request {
    let mut request = Request { observe: Observe::Events, ..request.clone() };
    let place = place_of(&request);
    if let (Some(scx), Some(place)) = (&mut request.variant.scx, place) {
        let args = scx.command.split_once(char::is_whitespace).map_or("", |(_, args)| args);
        scx.command = format!("{place} {args}");
    }
    request
}

/// Where the program of a run's scheduler lies in the guest.
fn place_of(request: &Request) -> Option<String> {
    let (program, _) = request.variant.scx.as_ref()?.words()?;
    Some(format!("/schedlab/{}", program.rsplit('/').next()?))
}

/// Whether the run may use TCP or UDP. For any other run the interface stays down, because bringing it up is work for
/// the kernel and would change the figures of runs that count instructions.
fn needs_loopback(request: &Request) -> bool {
    let over_network = |kind: &ChannelKind| matches!(kind, ChannelKind::Tcp | ChannelKind::Udp);
    match &request.spec {
        Spec::Command(_) => true,
        spec => spec.build(request.seed).is_ok_and(|built| built.channels.iter().any(over_network)),
    }
}

/// How long the run takes in the guest's time, at most.
fn length(request: &Request) -> Ns {
    match &request.spec {
        Spec::Command(command) => {
            let parts = [&command.argv, &command.setup, &command.cleanup];
            let started = parts.iter().filter(|argv| !argv.is_empty()).count() as u64;
            Ns(command.timeout.0.saturating_mul(started))
        }
        // The guest refuses a spec that can't be built.
        spec => spec.build(request.seed).map_or(Ns::ZERO, |built| built.warmup.plus(built.duration)),
    }
}

fn named(e: Error, guest: &Guest, machine: &Machine) -> Error {
    e.context(format!("{} on {}", guest.image.release, machine.name))
}

/// What the guest's machine can't do its kernel can't.
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

/// The outcome of each run, and the file of its events.
fn outcomes(guest: &Guest, machine: &Machine, left: &Left) -> Result<Vec<(Outcome, Vec<u8>)>> {
    let unreadable = |e: String| Error::internal(format!("the guest's reply can't be read: {e}"));
    let payload =
        miniz_oxide::inflate::decompress_to_vec_zlib(&left.reply).map_err(|e| unreadable(e.to_string()))?;
    let (reply, files) = parted(&payload);
    let reply: Reply = serde_json::from_slice(reply).map_err(|e| unreadable(e.to_string()))?;
    let Answer { outcome, more, topology, events } = match reply {
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
    let mut outcomes = vec![outcome];
    outcomes.extend(more);
    for outcome in &mut outcomes {
        outcome.found.environment.extend(told(guest, machine));
        outcome.found.warnings.extend(warnings(guest, &left.log));
    }
    let mut files = files;
    let mut lengths = events.into_iter();
    let mut next = || {
        let length = usize::try_from(lengths.next().unwrap_or(0)).unwrap_or(usize::MAX);
        let (file, rest) =
            files.split_at_checked(length).ok_or_else(|| unreadable("its events are cut off".to_owned()))?;
        files = rest;
        Ok::<_, Error>(file.to_vec())
    };
    outcomes.into_iter().map(|outcome| Ok((outcome, next()?))).collect()
}

/// Facts about the guest for the record; none of them differs between equal runs.
fn told(guest: &Guest, machine: &Machine) -> BTreeMap<String, String> {
    let (setup, cpus) = (guest.setup(machine), machine.topology.nr_cpus());
    let facts = [
        ("vm.accelerator", setup.accelerator),
        ("vm.boot_options", setup.boot_options.join(" ")),
        ("vm.image", setup.image),
        ("vm.llc_balancing", if setup.llc_balancing_off { "off".to_owned() } else { String::new() }),
        ("vm.memory_mb", setup.memory_mb.to_string()),
        ("vm.mode", setup.mode),
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
