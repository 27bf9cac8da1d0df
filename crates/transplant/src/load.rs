//! Opens an image and calls it.
//!
//! One process holds one image, for good: the kernel's code has global state, and its memory is never freed. This file,
//! `choices`, `judged`, `verbs`, `fault`, `symbols` and `watchdog` are unsafe. A fault within the image ends the
//! process (`fault`).

use crate::abi::{
    ABI, Attr, RawAnswer, RawFleet, RawFleetAnswer, RawIdleState, RawMachine, RawNewTask, RawNote,
    RawQuestion, RawStubs, RawTree, RawTreeAnswer, RawView, SIZES, Usage,
};
use crate::charge::Counted;
use crate::loader::Handle;
use crate::note::{CallsAt, TextAt};
use crate::verbs::{Verb, Verbs};
use crate::{fault, watchdog};
use schedlab_base::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong};
use std::path::Path;
use std::string::FromUtf8Error;
use std::sync::atomic::{AtomicBool, Ordering};

/// One image a process.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A machine for the boot; arrays are by CPU, `distance` by node and node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    pub nr_nodes: u32,
    pub node: Vec<u32>,
    pub package: Vec<u32>,
    pub core: Vec<u32>,
    pub cluster: Vec<u32>,
    pub llc: Vec<u32>,
    /// 1024: a fastest CPU.
    pub capacity: Vec<u32>,
    pub distance: Vec<u8>,
    /// Nodes farther apart are not balanced at fork, exec and wakeup; 0: the tree's own limit.
    pub reclaim_distance: u32,
    pub llc_bytes: u64,
    /// Seed of the kernel's own random draws.
    pub seed: u64,
    /// An error if the image was built with another HZ; 0: any.
    pub hz: u32,
    /// The shallowest first; none: no cpuidle driver, a CPU halts at once.
    pub idle_states: Vec<IdleState>,
    /// "menu", "teo"; empty: the tree's choice.
    pub idle_governor: String,
}

/// A way to halt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdleState {
    pub name: String,
    /// Time to leave it.
    pub exit_ns: u32,
    /// The shortest stay that pays.
    pub residency_ns: u32,
    /// The CPU polls the idle task's flag, so that no interrupt has to be sent.
    pub polls: bool,
}

/// A new task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewTask<'a> {
    pub name: &'a str,
    pub attr: Attr,
    /// Bits by CPU; `None`: all.
    pub allowed: Option<&'a [c_ulong]>,
    pub slack_ns: u64,
    pub group: i32,
    /// Tasks of the same number share an address space; 0: a kernel thread.
    pub mm: u32,
    /// 0: a thread group of its own.
    pub tgid: i32,
    /// It has the attributes and CPUs of the current task.
    pub inherits: bool,
    /// A task whose session it is born into; 0: the current task's.
    pub session_of: i32,
}

/// A booted image, or one before its boot.
pub struct Image {
    pub(crate) verbs: Verbs,
    now: *mut u64,
    pub(crate) horizon_ps: *mut u64,
    /// Whether verbs may leave in the middle.
    pub(crate) leaves: bool,
    pub(crate) counted: Option<Counted>,
    /// Address of the object's first byte.
    pub(crate) base: usize,
    guard: *mut c_int,
    pub(crate) handle: Handle,
    view: *const RawView,
    pub(crate) cpus: usize,
    /// Whether notes point to states of choices.
    pub(crate) explains: bool,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image of {} CPUs", self.cpus)
    }
}

/// A verb's error: a negative errno.
pub type Errno = c_int;

pub(crate) fn checked(result: c_int) -> std::result::Result<c_int, Errno> {
    if result < 0 { Err(-result) } else { Ok(result) }
}

impl Image {
    /// Loads an image. From then on a fault in it ends the process with a report.
    ///
    /// # Errors
    /// When the process has one, or the file is not an image of this interface.
    pub fn load(path: &Path) -> Result<Image> {
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(Error::internal("a process holds one image, and this one has it"));
        }
        let handle = Handle::open(path)?;
        let verbs = Verbs::of(handle)?;
        // SAFETY: img_abi() takes nothing and touches nothing.
        let abi = unsafe { (verbs.img_abi)() };
        let mut sizes: [c_uint; SIZES.len()] = [0; SIZES.len()];
        // SAFETY: the array has room for as many sizes as the call may write.
        let count = unsafe { (verbs.img_sizes)(sizes.as_mut_ptr(), SIZES.len() as c_int) };
        let agree = count as usize == SIZES.len() && sizes.iter().zip(SIZES).all(|(a, b)| *a as usize == b);
        if abi != ABI || !agree {
            return Err(Error::internal(format!("{} has another interface ({abi})", path.display())));
        }
        let mut stubs = RawStubs { start: std::ptr::null(), end: std::ptr::null(), names: std::ptr::null() };
        // SAFETY: the call fills the structure, whose size was compared by the compiler of both sides.
        unsafe { (verbs.img_stubs)(&raw mut stubs) };
        let words = fault::Words { last: verbs.img_last_words, memory: verbs.img_memory_at };
        fault::watch(path, &stubs, handle.symbol("img_abi")?, words)?;
        watchdog::begin()?;
        let now = handle.symbol("img_now")?.cast::<u64>();
        let horizon_ps = handle.symbol("img_horizon_ps")?.cast::<u64>();
        let guard = handle.symbol("img_guard")?.cast::<c_int>();
        let base = fault::code().map_or(0, |code| code.base());
        Ok(Image {
            verbs,
            now,
            horizon_ps,
            leaves: false,
            counted: None,
            base,
            guard,
            handle,
            view: std::ptr::null(),
            cpus: 0,
            explains: false,
        })
    }

    /// Boots the image on a machine, and enters CPU 0.
    ///
    /// # Errors
    /// When the machine has more CPUs or nodes than the image was built for, or is booted already.
    pub fn boot(&mut self, machine: Machine) -> Result<()> {
        let cpus = machine.node.len();
        let by_cpu = [&machine.package, &machine.core, &machine.cluster, &machine.llc, &machine.capacity];
        let nodes = machine.nr_nodes as usize;
        let whole = by_cpu.iter().all(|array| array.len() == cpus) && machine.distance.len() == nodes * nodes;
        if cpus == 0 || !whole || self.cpus > 0 || machine.node.iter().any(|n| *n >= machine.nr_nodes) {
            return Err(Error::internal("the machine of an image's boot is not whole"));
        }
        // The image keeps the pointers as long as the process lives.
        let kept: &'static Machine = Box::leak(Box::new(machine));
        let name =
            |text: &str| CString::new(text).map_or(std::ptr::null(), |text| text.into_raw().cast_const());
        let idle = |state: &IdleState| RawIdleState {
            name: name(&state.name),
            exit_ns: state.exit_ns,
            residency_ns: state.residency_ns,
            polls: c_uint::from(state.polls),
        };
        let idle_states: &'static [RawIdleState] =
            kept.idle_states.iter().map(idle).collect::<Vec<_>>().leak();
        let raw = RawMachine {
            nr_cpus: cpus as c_uint,
            nr_nodes: kept.nr_nodes,
            node: kept.node.as_ptr(),
            package: kept.package.as_ptr(),
            core: kept.core.as_ptr(),
            cluster: kept.cluster.as_ptr(),
            llc: kept.llc.as_ptr(),
            capacity: kept.capacity.as_ptr(),
            distance: kept.distance.as_ptr(),
            reclaim_distance: kept.reclaim_distance,
            llc_bytes: kept.llc_bytes,
            seed: kept.seed,
            hz: kept.hz,
            nr_idle_states: idle_states.len() as c_uint,
            idle_states: idle_states.as_ptr(),
            idle_governor: match kept.idle_governor.as_str() {
                "" => std::ptr::null(),
                governor => name(governor),
            },
        };
        // SAFETY: all arrays have the length that the structure says, and are never freed.
        let failed = unsafe { (self.verbs.img_boot)(&raw const raw) };
        checked(failed).map_err(|errno| {
            if errno == libc::ENODEV {
                let text = format!("the image has no cpuidle governor '{}'", kept.idle_governor);
                return Error::input(text).help(
                    "its tree or its configuration lacks it: take another kernel, or another idle_governor in the \
                     machine's file",
                );
            }
            let text =
                format!("the image can't boot a machine of {cpus} CPUs and {nodes} nodes (error {errno})");
            Error::input(text)
                .help("CONFIG_NR_CPUS, CONFIG_NODES_SHIFT and CONFIG_HZ of its configuration bound it")
        })?;
        self.cpus = cpus;
        self.enter(0);
        Ok(())
    }

    /// Random draws from here on are those of a machine that booted with that seed.
    pub fn seed(&mut self, seed: u64) {
        // SAFETY: the verb takes a number.
        unsafe { (self.verbs.img_seed)(seed) };
    }
    /// Makes each allocation of the kernel end at a page that nobody may touch, and closes freed memory: an access to
    /// either is a fault. Such a run takes much memory and time. Must be called before the boot.
    ///
    /// # Errors
    /// When the image is booted already.
    pub fn guard(&mut self) -> Result<()> {
        if self.cpus > 0 {
            return Err(Error::internal("the image is booted already"));
        }
        // SAFETY: `img_guard` is an aligned int of the image, which lives as long as the process; one thread uses it.
        unsafe { *self.guard = 1 };
        Ok(())
    }
    /// Sets the kernel's clock, ns.
    #[inline]
    pub fn set_now(&mut self, now: u64) {
        watchdog::gets_on();
        // SAFETY: `img_now` is an aligned u64 of the image, which lives as long as the process, and one thread uses it.
        unsafe { *self.now = now }
    }
    /// Enters a CPU: all following verbs are on it. The view shows it.
    pub fn enter(&mut self, cpu: usize) {
        assert!(cpu < self.cpus, "CPU {cpu} of {}", self.cpus);
        // SAFETY: the image is booted and has the CPU.
        self.view = unsafe { (self.verbs.img_enter)(cpu as c_int) };
    }
    /// The same for a verb: the view does not show the CPU before the verb's end.
    #[inline]
    pub fn turn_to(&mut self, cpu: usize) {
        assert!(cpu < self.cpus, "CPU {cpu} of {}", self.cpus);
        // SAFETY: the image is booted and has the CPU.
        unsafe { (self.verbs.img_turn_to)(cpu as c_int) };
    }
    fn raw_view(&self) -> &RawView {
        assert!(!self.view.is_null(), "no CPU was entered");
        // SAFETY: the view is one structure of the image's, there for good; verbs, which change it, take `&mut self`.
        unsafe { &*self.view }
    }
    /// The current task of the entered CPU; 0: the idle task.
    pub fn current(&self) -> i32 {
        self.raw_view().current
    }
    /// `abi::view`.
    pub fn flags(&self) -> u32 {
        self.raw_view().flags
    }
    /// Notes since [`Image::clear`].
    pub fn notes(&self) -> &[RawNote] {
        let view = self.raw_view();
        if view.nr_notes == 0 {
            return &[];
        }
        // SAFETY: the image gives their place and number; verbs, which move them, take `&mut self`.
        unsafe { std::slice::from_raw_parts(view.notes, view.nr_notes as usize) }
    }
    /// The text of a message.
    pub fn text(&self, text: TextAt) -> String {
        // SAFETY: a note of this image has the pointer, which is not null; the text ends with a zero and is not freed.
        unsafe { CStr::from_ptr(text.pointer()) }.to_string_lossy().into_owned()
    }
    /// The calls that led to a message or a finding, as "function at file:line", innermost first; empty where they were
    /// not kept.
    pub fn calls(&self, calls: CallsAt) -> Vec<String> {
        let (Some(code), false) = (fault::code(), calls.pointer().is_null()) else { return Vec::new() };
        // SAFETY: a note of this image has the pointer to addresses, with a zero behind them, that are not freed.
        let all = (0..).map(|i| unsafe { *calls.pointer().add(i) }).take_while(|at| *at != 0);
        code.names(&code.kept(&all.collect::<Vec<_>>()))
    }
    /// Notes the faults of tasks and queues at this instant ([`crate::abi::kind::FOUND`]).
    pub fn audit(&mut self) {
        // SAFETY: a CPU is entered; the image only looks.
        unsafe { (self.verbs.img_audit)() };
    }
    /// Forgets the notes, and the states that they point to.
    #[inline]
    pub fn clear(&mut self) {
        if self.explains {
            // SAFETY: the image is loaded.
            unsafe { (self.verbs.img_clear)() };
        }
        // SAFETY: the view is the image's only one, there for good; it is written here through its own pointer.
        if let Some(view) = unsafe { self.view.cast_mut().as_mut() } {
            view.nr_notes = 0;
        }
    }
}

impl Image {
    /// A verb with its arguments, which may leave in the middle if [`Image::leaves`] says so.
    pub(crate) fn act(&mut self, verb: Verb, arguments: &[u64]) -> c_int {
        assert!(self.cpus > 0, "the image is not booted");
        let argument = |i: usize| arguments.get(i).copied().unwrap_or_default();
        // SAFETY: a CPU is entered, and the verb takes numbers alone.
        unsafe { (self.verbs.img_do)(verb as c_int, argument(0), argument(1), c_int::from(self.leaves)) }
    }
    /// Marked as asleep; [`Image::schedule`] takes it off its CPU unless it is woken before.
    pub fn prepare_sleep(&mut self, uninterruptible: bool) {
        assert!(self.cpus > 0, "the image is not booted");
        // SAFETY: a CPU is entered.
        unsafe { (self.verbs.img_prepare_sleep)(c_int::from(uninterruptible)) };
    }
}

impl Image {
    /// Whether the timer of a task's last sleep has fired; else the timer is cancelled.
    pub fn timed_out(&mut self, pid: i32) -> bool {
        // SAFETY: the verb takes a number, and ends the process if it names no task.
        unsafe { (self.verbs.img_timed_out)(pid) != 0 }
    }
    /// Sets the timer of a task that sleeps with one, on the entered CPU, to another time.
    pub fn set_timer(&mut self, pid: i32, until: u64, slack_ns: u64) {
        assert!(self.cpus > 0, "the image is not booted");
        // SAFETY: a CPU is entered; the verb takes numbers, and ends the process if the first names no task.
        unsafe { (self.verbs.img_set_timer)(pid, until, slack_ns) };
    }
    /// Whether the current task is the only runnable one of its CPU.
    pub fn single_task(&mut self) -> bool {
        assert!(self.cpus > 0, "the image is not booted");
        // SAFETY: a CPU is entered.
        unsafe { (self.verbs.img_single_task)() != 0 }
    }
    /// A tick of a CPU that is idle: its domains are balanced if they are due.
    pub fn irq_idle_tick(&mut self) {
        assert!(self.cpus > 0, "the image is not booted");
        // SAFETY: a CPU is entered.
        unsafe { (self.verbs.img_irq_idle_tick)() };
    }
    /// A device's interrupt wakes these tasks.
    pub fn irq_device(&mut self, pids: &[i32]) {
        assert!(self.cpus > 0, "the image is not booted");
        // SAFETY: a CPU is entered; pids are read during the call, and one that names no task ends the process.
        unsafe { (self.verbs.img_irq_device)(pids.as_ptr(), pids.len() as c_uint) };
    }
    /// The pid of a CPU's stopper, or of its ksoftirqd.
    pub fn kthread_pid(&mut self, cpu: usize, ksoftirqd: bool) -> i32 {
        assert!(cpu < self.cpus, "CPU {cpu} of {}", self.cpus);
        // SAFETY: the CPU is there.
        unsafe { (self.verbs.img_kthread_pid)(cpu as c_int, c_int::from(ksoftirqd)) }
    }
    /// Makes a task, not yet woken.
    ///
    /// # Errors
    /// The kernel's.
    pub fn task_new(&mut self, task: &NewTask<'_>) -> std::result::Result<i32, Errno> {
        let name = CString::new(task.name).map_err(|_| libc::EINVAL)?;
        let raw = RawNewTask {
            name: name.as_ptr(),
            attr: task.attr,
            allowed: task.allowed.map_or(std::ptr::null(), |bits| self.mask(bits)),
            slack_ns: task.slack_ns,
            group: task.group,
            mm: task.mm,
            tgid: task.tgid,
            inherits: c_uint::from(task.inherits),
            session_of: task.session_of,
        };
        // SAFETY: the name ends with a zero, and the mask has a bit for each CPU.
        checked(unsafe { (self.verbs.img_task_new)(&raw const raw) })
    }
    fn mask(&self, bits: &[c_ulong]) -> *const c_ulong {
        assert!(bits.len() * c_ulong::BITS as usize >= self.cpus, "a mask has a bit for each CPU");
        bits.as_ptr()
    }
    /// # Errors
    /// The kernel's.
    pub fn set_attr(&mut self, pid: i32, attr: &Attr) -> std::result::Result<(), Errno> {
        // SAFETY: the structure lives through the call.
        checked(unsafe { (self.verbs.img_set_attr)(pid, attr) }).map(drop)
    }
    /// Changes a task's CPUs. The caller may sleep in the middle: then it is not current afterwards.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_affinity(&mut self, pid: i32, allowed: &[c_ulong]) -> std::result::Result<(), Errno> {
        let mask = self.mask(allowed);
        // SAFETY: the mask has a bit for each CPU.
        checked(unsafe { (self.verbs.img_set_affinity)(pid, mask) }).map(drop)
    }
    /// Changes a task's CPUs from outside: no task makes the change, so none sleeps for it. It takes effect once the
    /// stopper of the task's CPU has run.
    ///
    /// # Errors
    /// The kernel's.
    pub fn confine(&mut self, pid: i32, allowed: &[c_ulong]) -> std::result::Result<(), Errno> {
        let mask = self.mask(allowed);
        // SAFETY: the mask has a bit for each CPU.
        checked(unsafe { (self.verbs.img_confine)(pid, mask) }).map(drop)
    }
    pub fn usage(&mut self, pid: i32) -> Usage {
        let mut usage = Usage::default();
        // SAFETY: the call fills the structure.
        unsafe { (self.verbs.img_usage)(pid, &raw mut usage) };
        usage
    }
    /// Asks the fair class about a runqueue in a given state. CPU 0 is entered and idle, and nothing else runs.
    ///
    /// # Errors
    /// ENOSYS: this tree can't be asked; EINVAL: the state has no room.
    pub(crate) fn ask(&mut self, question: &RawQuestion) -> std::result::Result<RawAnswer, Errno> {
        let mut answer = RawAnswer::default();
        // SAFETY: the question's entities live through the call, and their number was taken from them.
        checked(unsafe { (self.verbs.img_ask)(question, &raw mut answer) }).map(|_| answer)
    }
    /// Asks one function of the fair class about a machine in a given state.
    ///
    /// # Errors
    /// ENOSYS: this image can't be asked; EINVAL: a state that the machine can't have.
    pub(crate) fn ask_fleet(&mut self, fleet: &RawFleet) -> std::result::Result<RawFleetAnswer, Errno> {
        let mut answer = RawFleetAnswer::default();
        // SAFETY: the fleet's arrays live through the call, and their lengths were taken from them.
        checked(unsafe { (self.verbs.img_ask_fleet)(fleet, &raw mut answer) }).map(|_| answer)
    }
    /// Asks one function of the fair class about a CPU whose tasks are in groups.
    ///
    /// # Errors
    /// ENOSYS: this image can't be asked; EINVAL: a state that a CPU can't have.
    pub(crate) fn ask_tree(&mut self, tree: &RawTree) -> std::result::Result<RawTreeAnswer, Errno> {
        let mut answer = RawTreeAnswer::default();
        // SAFETY: the tree's arrays live through the call. The number of tasks was taken from them, and there are as
        // many groups as the image has.
        checked(unsafe { (self.verbs.img_ask_tree)(tree, &raw mut answer) }).map(|_| answer)
    }
    /// Makes a task group.
    ///
    /// # Errors
    /// The kernel's.
    pub fn group_new(&mut self, parent: i32) -> std::result::Result<i32, Errno> {
        // SAFETY: the verb takes a number, and ends the process if it names no group.
        checked(unsafe { (self.verbs.img_group_new)(parent) })
    }
    /// Writes a file of a group, by its name in cgroup v2 or v1.
    ///
    /// # Errors
    /// The kernel's; ENOENT: the tree has no such file.
    pub fn group_write(&mut self, group: i32, file: &str, value: &str) -> std::result::Result<(), Errno> {
        let (file, value) = (text(file)?, text(value)?);
        // SAFETY: both texts end with a zero.
        checked(unsafe { (self.verbs.img_group_write)(group, file.as_ptr(), value.as_ptr()) }).map(drop)
    }
    /// The text of a group's file, by its name in cgroup v1 or v2; `None`: the tree has no such file.
    pub fn group_read(&self, group: i32, file: &str) -> Option<String> {
        let name = text(file).ok()?;
        // SAFETY: the name ends with a zero, and the call writes at most `size` bytes.
        self.written(|at, size| unsafe { (self.verbs.img_group_read)(group, name.as_ptr(), at, size) })
    }
    /// Time for which a group's quota has throttled CPUs that are still throttled, summed, ns.
    pub fn group_throttled(&self, group: i32) -> u64 {
        // SAFETY: the call takes a number, and ends the process if it names no group.
        unsafe { (self.verbs.img_group_throttled)(group) }
    }
    /// # Errors
    /// The kernel's.
    pub fn group_move(&mut self, pid: i32, group: i32) -> std::result::Result<(), Errno> {
        // SAFETY: as in `group_new`.
        checked(unsafe { (self.verbs.img_group_move)(pid, group) }).map(drop)
    }
    /// A fair task that is queued and has not run yet goes to sleep, and wakes up on its CPU.
    pub fn task_slept(&mut self, pid: i32) {
        // SAFETY: as for every verb.
        unsafe { (self.verbs.img_task_slept)(pid) }
    }
    /// Gives a task's thread group a session: an autogroup of its own, if autogroups are on.
    ///
    /// # Errors
    /// The kernel's; ENOSYS: the image has no autogroups.
    pub fn session_new(&mut self, pid: i32) -> std::result::Result<(), Errno> {
        // SAFETY: the verb takes a number, and ends the process if it names no task.
        checked(unsafe { (self.verbs.img_session_new)(pid) }).map(drop)
    }
    /// Switches a feature; `false`: the tree has none of that name.
    pub fn set_feature(&mut self, name: &str, on: bool) -> bool {
        let Ok(name) = text(name) else { return false };
        // SAFETY: the name ends with a zero.
        unsafe { (self.verbs.img_feature)(name.as_ptr(), c_int::from(on)) == 0 }
    }
    /// All features of the tree.
    pub fn features(&self) -> Vec<(String, bool)> {
        let one = |index: c_int| {
            let mut on = 0;
            // SAFETY: the call writes the number, and gives a name of the image's, or nothing.
            let name = unsafe { (self.verbs.img_feature_name)(index, &raw mut on) };
            // SAFETY: the name ends with a zero and is not freed.
            (!name.is_null())
                .then(|| (unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(), on != 0))
        };
        (0..).map_while(one).collect()
    }
    /// Sets a tunable, by the name of its file.
    ///
    /// # Errors
    /// The kernel's; ENOENT: the tree has none of that name.
    pub fn set_tunable(&mut self, name: &str, value: &str) -> std::result::Result<(), Errno> {
        let (name, value) = (text(name)?, text(value)?);
        // SAFETY: both texts end with a zero.
        checked(unsafe { (self.verbs.img_tunable)(name.as_ptr(), value.as_ptr()) }).map(drop)
    }
    /// All tunables of the tree with their values.
    pub fn tunables(&self) -> Vec<(String, String)> {
        let one = |index: c_int| {
            let mut value = [0u8; 256];
            // SAFETY: the call writes at most as many bytes as the buffer has, the last of them a zero.
            let name = unsafe {
                (self.verbs.img_tunable_name)(index, value.as_mut_ptr().cast(), value.len() as c_int)
            };
            if name.is_null() {
                return None;
            }
            // SAFETY: the name ends with a zero and is not freed.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
            Some((name, String::from_utf8_lossy(&value[..end]).into_owned()))
        };
        (0..).map_while(one).collect()
    }
    /// `/proc/schedstat`.
    pub fn schedstat(&self) -> String {
        // SAFETY: the call writes at most `size` bytes.
        self.written(|at, size| unsafe { (self.verbs.img_schedstat)(at, size) }).unwrap_or_default()
    }
    /// A line for each sched domain of a CPU.
    pub fn domains(&self, cpu: usize) -> String {
        assert!(cpu < self.cpus, "CPU {cpu} of {}", self.cpus);
        // SAFETY: the call writes at most `size` bytes, and the CPU exists.
        self.written(|at, size| unsafe { (self.verbs.img_domains)(cpu as c_int, at, size) })
            .unwrap_or_default()
    }
    fn written(&self, write: impl Fn(*mut c_char, c_int) -> c_int) -> Option<String> {
        // Room for all domains of every CPU, so that nothing is written twice.
        let mut bytes = vec![0u8; (1 << 16) + (self.cpus << 11)];
        loop {
            let length = write(bytes.as_mut_ptr().cast(), bytes.len() as c_int);
            match usize::try_from(length) {
                Ok(length) if length > bytes.len() => bytes.resize(length, 0),
                Ok(length) => {
                    bytes.truncate(length);
                    let lossy = |e: FromUtf8Error| String::from_utf8_lossy(e.as_bytes()).into_owned();
                    return Some(String::from_utf8(bytes).unwrap_or_else(lossy));
                }
                Err(_) => return None,
            }
        }
    }
}

fn text(text: &str) -> std::result::Result<CString, Errno> {
    CString::new(text).map_err(|_| libc::EINVAL)
}
