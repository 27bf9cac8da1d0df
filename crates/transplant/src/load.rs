//! The image in this process: loaded once, booted once, and driven by the verbs of `shim/abi.h`.
//!
//! All `unsafe` of the crate is here. What makes it sound: the image never calls the engine; it reads only what a verb
//! is given, while the verb runs; and what it hands out (the view, notes, text) is copied before the next verb.

use crate::abi::{self, Attr, Flags, NewTask, Note, RawNewTask, Usage, View};
use schedlab_base::{CpuId, CpuSet, Error, Result, Warning};
use schedlab_machine::Machine;
use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_ulonglong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// CPUs for which an image has room (CONFIG_NR_CPUS).
pub const MAX_CPUS: usize = 1024;

macro_rules! verbs {
    ($($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The image's functions.
        struct Verbs { $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }

        impl Verbs {
            /// Looks every function up.
            fn find(library: &Library) -> Result<Verbs> {
                Ok(Verbs { $($name: {
                    let found = library.symbol(concat!("img_", stringify!($name)))?;
                    // SAFETY: the image defines this symbol as a function of this type; abi.h is the agreement.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(found) }
                },)* })
            }
        }
    };
}

verbs! {
    abi: fn() -> c_int;
    boot: fn(*const abi::Machine) -> c_int;
    enter: fn(c_int) -> *const View;
    clear: fn();
    kthread_pid: fn(c_int, c_int) -> c_int;
    irq_timer: fn(c_int);
    irq_resched: fn();
    irq_call: fn();
    idle_enter: fn();
    idle_leave: fn();
    schedule: fn();
    prepare_sleep: fn(c_int);
    start_timer: fn(c_ulonglong, c_ulonglong);
    timed_out: fn(c_int) -> c_int;
    r#yield: fn();
    exit: fn();
    exec: fn();
    user_work: fn();
    kthread: fn();
    resume: fn();
    task_new: fn(*const RawNewTask) -> c_int;
    task_start: fn(c_int);
    wake: fn(c_int, c_int) -> c_int;
    set_attr: fn(c_int, *const Attr) -> c_int;
    set_affinity: fn(c_int, *const c_ulong) -> c_int;
    usage: fn(c_int, *mut Usage);
    group_new: fn(c_int) -> c_int;
    group_write: fn(c_int, *const c_char, *const c_char) -> c_int;
    group_move: fn(c_int, c_int) -> c_int;
    feature: fn(*const c_char, c_int) -> c_int;
    feature_name: fn(c_int, *mut c_int) -> *const c_char;
    tunable: fn(*const c_char, *const c_char) -> c_int;
    tunable_name: fn(c_int, *mut c_char, c_int) -> *const c_char;
    schedstat: fn(*mut c_char, c_int) -> c_int;
    domains: fn(c_int, *mut c_char, c_int) -> c_int;
}

/// A shared object, open until the process ends.
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Result<Library> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| Error::internal(e.to_string()))?;
        // SAFETY: the object is ours, built by `kernels`; its constructors do nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Error::internal(format!("the image {} can't be loaded: {}", path.display(), dl_error()))
                .help("remove its folder, and the next run builds it again"));
        }
        Ok(Library(handle))
    }
    fn symbol(&self, name: &str) -> Result<*mut c_void> {
        let text = CString::new(name).map_err(|e| Error::internal(e.to_string()))?;
        // SAFETY: the handle is open.
        let found = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if found.is_null() {
            return Err(Error::internal(format!("the image has no {name}"))
                .help("it is of another version of schedlab: remove its folder, and the next run builds it again"));
        }
        Ok(found)
    }
}

/// The linker's last words.
fn dl_error() -> String {
    // SAFETY: dlerror() returns text of its own, or NULL.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it is not NULL, ends with a NUL, and lasts until the next dl call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A loaded image.
pub struct Image {
    verbs: Verbs,
    now: *mut c_ulonglong,
    view: *const View,
    /// The kernel's own tasks by CPU: stopper and ksoftirqd.
    kthreads: Vec<[i32; 2]>,
    messages: Vec<String>,
}

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident = $verb:ident;)*) => {
        impl Image {
            $($(#[$doc])* #[inline] pub fn $name(&mut self) {
                // SAFETY: the image has booted and a CPU is entered.
                unsafe { (self.verbs.$verb)() }
            })*
        }
    };
}

plain! {
    /// Forgets the notes.
    clear = clear;
    irq_resched = irq_resched;
    irq_call = irq_call;
    /// The idle loop up to a halt, or to the switch to a task.
    idle_enter = idle_enter;
    /// The idle loop from a halt on.
    idle_leave = idle_leave;
    schedule = schedule;
    yield_now = r#yield;
    exit = exit;
    exec = exec;
    user_work = user_work;
    kthread = kthread;
    resume = resume;
}

fn done(errno: c_int) -> std::result::Result<(), i32> {
    if errno < 0 { Err(-errno) } else { Ok(()) }
}

impl Image {
    /// Loads an image.
    ///
    /// # Errors
    /// A file that is not an image of this version.
    pub fn load(path: &Path) -> Result<Image> {
        let library = Library::open(path)?;
        let verbs = Verbs::find(&library)?;
        // SAFETY: the function takes nothing.
        let version = unsafe { (verbs.abi)() };
        if version != abi::ABI {
            return Err(Error::internal(format!("the image is of agreement {version}, not {}", abi::ABI))
                .help("remove its folder, and the next run builds it again"));
        }
        let now = library.symbol("img_now")?.cast();
        Ok(Image { verbs, now, view: std::ptr::null(), kthreads: Vec::new(), messages: Vec::new() })
    }

    /// Boots the kernel for a machine. An image boots once.
    ///
    /// # Errors
    /// A machine that is too large, and what the kernel refuses.
    pub fn boot(&mut self, machine: &Machine, seed: u64) -> Result<()> {
        let n = machine.topology.nr_cpus();
        if n > MAX_CPUS {
            let text = format!("{} has {n} CPUs: backend 'code' simulates {MAX_CPUS} at most", machine.name);
            return Err(Error::input(text).help("take backend 'sim', or a smaller machine"));
        }
        if !self.view.is_null() {
            return Err(Error::internal("the image has booted already"));
        }
        let arrays = crate::machine::Arrays::of(machine);
        let raw = arrays.raw(machine, seed);
        self.set_now(crate::board::EPOCH_NS);
        // SAFETY: `arrays` lives until after the call, and the image copies what it keeps.
        let errno = unsafe { (self.verbs.boot)(&raw) };
        if errno < 0 {
            let text = format!("the kernel does not boot on {}: error {}", machine.name, -errno);
            return Err(Error::internal(text));
        }
        for cpu in 0..n {
            // SAFETY: the image has booted with this CPU.
            let pid = |which| unsafe { (self.verbs.kthread_pid)(cpu as c_int, which) };
            self.kthreads.push([pid(0), pid(1)]);
        }
        self.enter(CpuId(0));
        Ok(())
    }

    /// The kernel's clock from now on, ns.
    #[inline]
    pub fn set_now(&mut self, now: u64) {
        // SAFETY: img_now is a variable of the image; nothing else refers to it while no verb runs.
        unsafe { *self.now = now }
    }
    /// Verbs are this CPU's from now on.
    #[inline]
    pub fn enter(&mut self, cpu: CpuId) {
        // SAFETY: the CPU is one of those the image has booted with.
        self.view = unsafe { (self.verbs.enter)(cpu.0 as c_int) };
    }
    /// The entered CPU's flags after the last verb.
    #[inline]
    pub fn view(&self) -> Flags {
        // SAFETY: img_enter() returned it, and it stays where it is.
        Flags(unsafe { (*self.view).flags })
    }
    #[inline]
    pub fn nr_notes(&self) -> u64 {
        // SAFETY: as in view().
        unsafe { (*self.view).nr_notes }
    }
    /// Note `i` of the last verbs.
    #[inline]
    pub fn note(&self, i: u64) -> Note {
        assert!(i < self.nr_notes(), "no such note");
        // SAFETY: the view says how many there are.
        unsafe { *(*self.view).notes.add(i as usize) }
    }
    /// What a pid of the kernel's own is: whether ksoftirqd, and of which CPU.
    pub fn kthread_of(&self, pid: i32) -> Option<(bool, CpuId)> {
        let at = |which: usize| self.kthreads.iter().position(|pids| pids[which] == pid).map(CpuId::from);
        at(0).map(|cpu| (false, cpu)).or_else(|| at(1).map(|cpu| (true, cpu)))
    }

    /// The clock event device's interrupt; whether it interrupted user mode.
    pub fn irq_timer(&mut self, user: bool) {
        // SAFETY: the image has booted and a CPU is entered.
        unsafe { (self.verbs.irq_timer)(user.into()) }
    }
    /// The current task is marked as asleep; [`Self::schedule`] takes it off its CPU unless it is woken before.
    pub fn prepare_sleep(&mut self) {
        // SAFETY: as above.
        unsafe { (self.verbs.prepare_sleep)(0) }
    }
    /// A timer of the current task's is to wake it.
    pub fn start_timer(&mut self, until: u64, slack_ns: u64) {
        // SAFETY: as above.
        unsafe { (self.verbs.start_timer)(until, slack_ns) }
    }
    /// Whether the timer of a task's last sleep has fired; if not, it is cancelled.
    pub fn timed_out(&mut self, pid: i32) -> bool {
        // SAFETY: the pid is a task's.
        unsafe { (self.verbs.timed_out)(pid) == 1 }
    }

    /// Makes a task; its pid, or the error's number.
    pub fn task_new(&mut self, new: &NewTask<'_>) -> std::result::Result<i32, i32> {
        let name = CString::new(new.name.replace('\0', "")).unwrap_or_default();
        let allowed = new.allowed.map(|cpus| abi::mask(cpus, MAX_CPUS));
        let raw = RawNewTask {
            name: name.as_ptr(),
            attr: new.attr,
            allowed: allowed.as_ref().map_or(std::ptr::null(), |words| words.as_ptr()),
            slack_ns: new.slack_ns,
            group: new.group,
            mm: new.mm,
            tgid: 0,
            inherits: new.inherits.into(),
        };
        // SAFETY: `raw` and what it points to live until after the call.
        let pid = unsafe { (self.verbs.task_new)(&raw) };
        if pid < 0 { Err(-pid) } else { Ok(pid) }
    }
    /// A new task is woken for the first time.
    pub fn task_start(&mut self, pid: i32) {
        // SAFETY: the pid is a task's that was not started.
        unsafe { (self.verbs.task_start)(pid) }
    }
    /// Wakes a task; whether it was asleep.
    pub fn wake(&mut self, pid: i32, sync: bool) -> bool {
        // SAFETY: the pid is a task's.
        unsafe { (self.verbs.wake)(pid, sync.into()) == 1 }
    }
    pub fn set_attr(&mut self, pid: i32, attr: &Attr) -> std::result::Result<(), i32> {
        // SAFETY: the pid is a task's, and `attr` lives until after the call.
        done(unsafe { (self.verbs.set_attr)(pid, attr) })
    }
    pub fn set_affinity(&mut self, pid: i32, allowed: &CpuSet) -> std::result::Result<(), i32> {
        let words = abi::mask(allowed, MAX_CPUS);
        // SAFETY: as in set_attr(); there are words for all CPUs of an image.
        done(unsafe { (self.verbs.set_affinity)(pid, words.as_ptr()) })
    }
    /// A task's usage up to now.
    pub fn usage(&mut self, pid: i32) -> Usage {
        let mut usage = Usage::default();
        // SAFETY: the pid is a task's.
        unsafe { (self.verbs.usage)(pid, &mut usage) };
        usage
    }

    /// Makes a task group; its number, or the error's.
    pub fn group_new(&mut self, parent: i32) -> std::result::Result<i32, i32> {
        // SAFETY: the parent is 0 or a group's number.
        let number = unsafe { (self.verbs.group_new)(parent) };
        if number < 0 { Err(-number) } else { Ok(number) }
    }
    /// Writes a file of a group, by its name in cgroup v1 or v2.
    pub fn group_write(&mut self, group: i32, file: &str, value: &str) -> std::result::Result<(), i32> {
        let (file, value) = (text(file), text(value));
        // SAFETY: the group is 0 or a group's number, and the texts live until after the call.
        done(unsafe { (self.verbs.group_write)(group, file.as_ptr(), value.as_ptr()) })
    }
    pub fn group_move(&mut self, pid: i32, group: i32) -> std::result::Result<(), i32> {
        // SAFETY: pid and group are those of a task and a group.
        done(unsafe { (self.verbs.group_move)(pid, group) })
    }

    /// Switches a feature of the tree's own table.
    ///
    /// # Errors
    /// When the tree has no such feature; the nearest name is the remedy.
    pub fn feature(&mut self, name: &str, on: bool) -> Result<()> {
        let word = text(name);
        // SAFETY: the text lives until after the call.
        match unsafe { (self.verbs.feature)(word.as_ptr(), on.into()) } {
            0 => Ok(()),
            _ => {
                let known: Vec<String> = self.features().into_iter().map(|(name, _)| name).collect();
                Err(Error::unknown("feature", name, known.iter().map(String::as_str)))
            }
        }
    }
    /// The tree's features, and whether each is on.
    pub fn features(&self) -> Vec<(String, bool)> {
        let mut all = Vec::new();
        loop {
            let mut on = 0;
            // SAFETY: `on` lives until after the call.
            let name = unsafe { (self.verbs.feature_name)(all.len() as c_int, &mut on) };
            if name.is_null() {
                return all;
            }
            // SAFETY: it is not NULL, and is text of the image that stays.
            all.push((unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(), on != 0));
        }
    }
    /// Sets a tunable of the tree's own table.
    ///
    /// # Errors
    /// When the tree has no such tunable, or refuses the value.
    pub fn tunable(&mut self, name: &str, value: &str) -> Result<()> {
        let (word, text) = (text(name), text(value));
        // SAFETY: the texts live until after the call.
        match unsafe { (self.verbs.tunable)(word.as_ptr(), text.as_ptr()) } {
            0 => Ok(()),
            errno if errno == -libc::ENOENT => {
                let known: Vec<String> = self.tunables().into_iter().map(|(name, _)| name).collect();
                Err(Error::unknown("tunable", name, known.iter().map(String::as_str)))
            }
            errno => Err(Error::input(format!("the kernel refuses {name} = {value}: error {}", -errno))),
        }
    }
    /// The tree's tunables, and their values as text.
    pub fn tunables(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        loop {
            let mut value = [0 as c_char; 64];
            // SAFETY: there is room for as many bytes as it says.
            let name = unsafe { (self.verbs.tunable_name)(all.len() as c_int, value.as_mut_ptr(), 64) };
            if name.is_null() {
                return all;
            }
            // SAFETY: both are text that ends with a NUL: the image's, which stays, and ours.
            let text = |p| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
            all.push((text(name), text(value.as_ptr())));
        }
    }
    /// /proc/schedstat, as the tree prints it.
    pub fn schedstat(&mut self) -> String {
        self.printed(|verbs, buffer, size| {
            // SAFETY: there is room for as many bytes as it says.
            unsafe { (verbs.schedstat)(buffer, size) }
        })
    }
    /// A line for each sched domain of a CPU.
    pub fn domains(&mut self, cpu: CpuId) -> String {
        self.printed(|verbs, buffer, size| {
            // SAFETY: as above; the CPU is one of those booted.
            unsafe { (verbs.domains)(cpu.0 as c_int, buffer, size) }
        })
    }
    fn printed(&self, print: impl Fn(&Verbs, *mut c_char, c_int) -> c_int) -> String {
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let length = print(&self.verbs, buffer.as_mut_ptr().cast(), buffer.len() as c_int).max(0) as usize;
            if length < buffer.len() {
                buffer.truncate(length);
                return String::from_utf8_lossy(&buffer).into_owned();
            }
            buffer.resize(2 * length, 0);
        }
    }

    /// Keeps the text of a note about a message of the kernel's.
    #[cold]
    pub fn keep_message(&mut self, note: &Note) {
        // SAFETY: the note's value is text of the image, which lasts until the next verb.
        let text = unsafe { CStr::from_ptr(note.value as *const c_char) }.to_string_lossy().into_owned();
        if note.flags & 1 != 0 && !self.messages.contains(&text) {
            self.messages.push(text);
        }
    }
    /// The kernel's own warnings so far, each once.
    pub fn warnings(&self) -> Vec<Warning> {
        self.messages.iter().map(|text| Warning::new("kernel.warn", format!("the kernel's code warns: {text}"))).collect()
    }
}

fn text(of: &str) -> CString {
    CString::new(of.replace('\0', "")).unwrap_or_default()
}
