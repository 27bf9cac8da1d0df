//! Runs make(1) and watches it: how many files are compiled, the compiler's warnings and errors.
//!
//! kbuild prints a line " CC kernel/sched/fair.o" for each step. The number of steps is estimated from the existing
//! objects (`outdated`); before the first build it is a guess. The build's environment is fixed ([`PASSED`],
//! [`FIXED`]), so that equal sources give equal images: kbuild would obey LLVM, KCFLAGS, LOCALVERSION and more.

use schedlab_base::{Error, Result};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Guess for a first build: the steps of 6.1.192 with the built-in configuration.
pub const FIRST_STEPS: u64 = 1700;
/// Steps of a build that compiles hardly anything: archives, the link, the image.
pub const LINK_STEPS: u64 = 30;
/// How often the build is checked for an interrupt.
const LOOK: Duration = Duration::from_millis(100);
/// The user's variables that a build sees: places of programs, temporary files and ccache's store.
const PASSED: &[&str] = &["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "CCACHE_DIR", "XDG_CACHE_HOME"];
/// Variables that a build always sees with these values.
const FIXED: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("KBUILD_BUILD_TIMESTAMP", "1970-01-01"),
    ("KBUILD_BUILD_USER", "schedlab"),
    ("KBUILD_BUILD_HOST", "schedlab"),
    ("KBUILD_BUILD_VERSION", "1"),
];
/// An error shows this many lines of the compiler's output.
const SHOWN_LINES: usize = 24;

/// The progress of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub done: u64,
    /// Expected steps; 0 if unknown.
    pub of: u64,
    /// The file of the last step.
    pub file: String,
    /// How long the rest takes at the build's own pace, if it is known.
    pub left: Option<Duration>,
}

/// Runs make for one kernel.
#[derive(Debug)]
pub struct Make<'a> {
    pub tree: &'a Path,
    pub objects: &'a Path,
    /// The file that gets the whole output.
    pub log: PathBuf,
    /// Expected steps; 0 if unknown.
    pub expected: u64,
    /// Set when the user interrupts.
    pub stop: &'a AtomicBool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MakeOutput {
    /// Warnings with the lines that belong to them.
    pub warnings: Vec<String>,
    /// Number of steps made.
    pub steps: u64,
}

impl Make<'_> {
    /// Makes targets with variables.
    ///
    /// # Errors
    /// The compiler's own message, once; or the interruption.
    pub fn run(&self, words: &[&str], jobs: usize, step: &mut dyn FnMut(Step)) -> Result<MakeOutput> {
        let mut command = Command::new("make");
        let passed = PASSED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.env_clear().envs(passed).envs(FIXED.iter().copied());
        command
            .arg("-C")
            .arg(self.tree)
            .arg(format!("O={}", self.objects.display()))
            .arg(format!("-j{jobs}"));
        if crate::tools::on_path("ccache") {
            command.arg("CC=ccache gcc");
        }
        command.args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // A build that outlived schedlab would write into the folder while the next one runs. On SIGTERM make ends its
        // children and removes their unfinished files.
        crate::parent::end_with_parent(&mut command);
        let mut child = command.spawn().map_err(|e| Error::machine(format!("make can't be started: {e}")))?;
        let group = child.id();
        let (send, lines) = mpsc::channel();
        let out = reader(child.stdout.take(), false, send.clone());
        let err = reader(child.stderr.take(), true, send);
        let mut watch = Watch::new(self.expected);
        let ended = watch.listen(&lines, self.stop, step);
        if !ended {
            // SAFETY: kill takes plain numbers; the group is the child's own, made by process_group(0).
            let _ = unsafe { libc::kill(-(group as i32), libc::SIGTERM) };
        }
        let status = child.wait().map_err(|e| Error::machine(format!("make can't be waited for: {e}")))?;
        out.into_iter().chain(err).for_each(|t| drop(t.join()));
        lines.try_iter().for_each(|l| watch.take(l, step));
        let _ = fs::write(&self.log, watch.all.join("\n"));
        if !ended {
            return Err(crate::interrupted("a kernel was built"));
        }
        self.judge(status, watch)
    }

    fn judge(&self, status: ExitStatus, watch: Watch) -> Result<MakeOutput> {
        if status.success() {
            return Ok(MakeOutput { warnings: watch.warnings(), steps: watch.done });
        }
        let shown = watch.errors();
        let full = watch.all.iter().any(|l| l.contains("No space left on device"));
        let text = format!("the kernel's build failed:\n{}", indented(&shown));
        let help = format!("all of its output: {}", self.log.display());
        Err(match full {
            true => Error::machine(text)
                .help("the disk is full: make room, then the same command continues from there"),
            false => Error::input(text).help(help),
        })
    }
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|l| format!("    {l}")).collect::<Vec<_>>().join("\n")
}

/// A line of make's output, and whether it came on standard error.
type OutputLine = (bool, String);

fn reader(
    from: Option<impl Read + Send + 'static>,
    is_error: bool,
    to: mpsc::Sender<OutputLine>,
) -> Option<std::thread::JoinHandle<()>> {
    let from = from?;
    Some(std::thread::spawn(move || {
        let mut lines = BufReader::new(from);
        let mut bytes = Vec::new();
        while lines.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if to.send((is_error, text)).is_err() {
                return;
            }
            bytes.clear();
        }
    }))
}

/// The output so far.
struct Watch {
    done: u64,
    of: u64,
    all: Vec<String>,
    errors: Vec<String>,
}

impl Watch {
    fn new(of: u64) -> Watch {
        Watch { done: 0, of, all: Vec::new(), errors: Vec::new() }
    }
    /// Reads the output until it ends; `false` when the user interrupts before.
    fn listen(
        &mut self,
        lines: &mpsc::Receiver<OutputLine>,
        stop: &AtomicBool,
        step: &mut dyn FnMut(Step),
    ) -> bool {
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            match lines.recv_timeout(LOOK) {
                Ok(line) => self.take(line, step),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return true,
            }
        }
    }
    fn take(&mut self, (is_error, line): OutputLine, step: &mut dyn FnMut(Step)) {
        if let Some(file) = file_of(&line).filter(|_| !is_error) {
            self.done += 1;
            self.of = if self.of == 0 { 0 } else { self.of.max(self.done) };
            step(Step { done: self.done, of: self.of, file: file.to_owned(), left: None });
        }
        if is_error {
            self.errors.push(line.clone());
        }
        self.all.push(line);
    }
    /// Warnings, each with the lines that belong to it.
    fn warnings(&self) -> Vec<String> {
        blocks(&self.errors).into_iter().filter(|b| b.contains("warning:")).collect()
    }
    /// The compiler's errors; without any, the end of the output. make's own messages about them are left out.
    fn errors(&self) -> Vec<String> {
        let own = |l: &&String| !l.starts_with("make") && !l.is_empty();
        let all = blocks(&self.errors.iter().filter(own).cloned().collect::<Vec<_>>());
        let bad: Vec<String> =
            all.into_iter().filter(|b| b.contains("error:") || b.contains("undefined")).collect();
        let lines: Vec<String> = match bad.is_empty() {
            false => bad.iter().flat_map(|b| b.lines()).map(str::to_owned).collect(),
            true => {
                let from = self.errors.len().saturating_sub(SHOWN_LINES / 2);
                self.errors[from..].to_vec()
            }
        };
        lines.into_iter().take(SHOWN_LINES).collect()
    }
}

/// "  CC      kernel/sched/fair.o".
fn file_of(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("  ")?.split_whitespace();
    let tool = words.next()?;
    let is_tool = tool.len() >= 2
        && tool.starts_with(|c: char| c.is_ascii_uppercase())
        && tool.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    words.find(|w| *w != "[M]").filter(|_| is_tool)
}

/// A compiler's messages: a line "FILE:LINE:COLUMN: ..." and the lines after it; an "In function" line belongs to the
/// message after it.
fn blocks(lines: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut before = String::new();
    for line in lines {
        let is_lead = line.contains(": In function ") || line.starts_with("In file included ");
        let is_head = ["warning:", "error:", "undefined"].iter().any(|w| line.contains(w));
        match (is_lead, is_head, all.last_mut()) {
            (true, ..) => before = format!("{line}\n"),
            (_, true, _) => all.push(std::mem::take(&mut before) + line),
            (.., Some(last)) => {
                last.push('\n');
                last.push_str(line);
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> Watch {
        let mut watch = Watch::new(10);
        lines.iter().for_each(|l| watch.take((file_of(l).is_none(), (*l).to_owned()), &mut |_| ()));
        watch
    }

    #[test]
    fn a_total_that_is_not_known_stays_unknown() {
        let of = |expected: u64| {
            let (mut watch, mut last) = (Watch::new(expected), 0);
            for line in ["  CC a.o", "  CC b.o"] {
                watch.take((false, line.to_owned()), &mut |step| last = step.of);
            }
            last
        };
        assert_eq!((of(0), of(1), of(10)), (0, 2, 10));
    }

    #[test]
    fn steps_are_lines_with_a_tool_and_a_file() {
        assert_eq!(file_of("  CC      kernel/sched/fair.o"), Some("kernel/sched/fair.o"));
        assert_eq!(file_of("  LD [M]  x.ko"), Some("x.ko"));
        for other in ["make[1]: Entering", "  Wait a bit", "CC x", "  HOSTCC"] {
            assert_eq!(file_of(other), None, "{other}");
        }
        assert_eq!(heard(&["  CC a.o", "  CC b.o"]).done, 2);
    }

    #[test]
    fn the_compilers_own_message_is_shown_once() {
        let watch = heard(&[
            "../kernel/sched/fair.c: In function 'f':",
            "../kernel/sched/fair.c:10:2: error: 'x' undeclared",
            "   10 |  x = 1;",
            "make[3]: *** [../scripts/Makefile.build:250: kernel/sched/fair.o] Error 1",
            "make[2]: *** [../Makefile:1: kernel] Error 2",
        ]);
        assert_eq!(watch.errors().len(), 3);
        assert!(watch.errors()[0].contains("In function"));
    }

    #[test]
    fn warnings_are_whole() {
        let watch = heard(&["../a.c:1:1: warning: unused variable 'y'", "    1 | int y;", "  CC b.o"]);
        assert_eq!(watch.warnings(), ["../a.c:1:1: warning: unused variable 'y'\n    1 | int y;"]);
    }

    /// A make in a folder, with the log in it.
    fn make_in<'a>(dir: &'a Path, stop: &'a AtomicBool) -> Make<'a> {
        Make { tree: dir, objects: dir, log: dir.join("log"), expected: 1, stop }
    }

    #[test]
    fn a_build_sees_no_other_variables() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Makefile"), "all:\n\t@env > seen\n").unwrap();
        let stop = AtomicBool::new(false);
        let make = make_in(dir.path(), &stop);
        // cargo gives each test variables of its own.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        make.run(&["all"], 1, &mut |_| ()).unwrap();
        let seen = fs::read_to_string(dir.path().join("seen")).unwrap();
        // make and the shell add these variables.
        let own = ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MAKE_TERMERR", "MAKE_TERMOUT"];
        let own = own.iter().chain(&["PWD", "OLDPWD", "SHLVL", "_", "O", "CC"]).chain(PASSED).copied();
        let known: Vec<&str> = own.chain(FIXED.iter().map(|(name, _)| *name)).collect();
        let names = seen.lines().filter_map(|l| l.split('=').next());
        assert_eq!(names.filter(|name| !known.contains(name)).collect::<Vec<_>>(), [""; 0]);
        assert!(seen.lines().any(|l| l == "KBUILD_BUILD_HOST=schedlab"));
    }

    #[test]
    fn an_interrupted_make_ends_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Makefile"), "all:\n\t@echo '  CC      a.o'; sleep 60\n").unwrap();
        let stop = AtomicBool::new(false);
        let make = make_in(dir.path(), &stop);
        let started = std::time::Instant::now();
        let error = make.run(&["all"], 1, &mut |_| stop.store(true, Ordering::Relaxed)).unwrap_err();
        assert!(error.to_string().contains("interrupted") && started.elapsed() < Duration::from_secs(20));
    }

    /// The test runs itself again in another process, which is killed.
    #[test]
    fn a_make_ends_with_its_killed_parent() {
        const AGAIN: &str = "SCHEDLAB_TEST_MAKE_IN";
        if let Some(dir) = std::env::var_os(AGAIN).map(PathBuf::from) {
            let stop = AtomicBool::new(false);
            let make = make_in(&dir, &stop);
            let _ = make.run(&["all"], 1, &mut |_| ());
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let makefile =
            "all:\n\t@$(MAKE) deep\ndeep:\n\t@echo $$$$ $$PPID > .pids; mv .pids pids; exec sleep 60\n";
        fs::write(dir.path().join("Makefile"), makefile).unwrap();
        let mut schedlab = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "make::tests::a_make_ends_with_its_killed_parent"])
            .env(AGAIN, dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let within = |what: &str, done: &dyn Fn() -> bool| {
            let began = std::time::Instant::now();
            while !done() {
                assert!(began.elapsed() < Duration::from_secs(20), "{what}");
                std::thread::sleep(LOOK);
            }
        };
        within("make begins", &|| dir.path().join("pids").exists());
        schedlab.kill().unwrap();
        schedlab.wait().unwrap();
        let pids = fs::read_to_string(dir.path().join("pids")).unwrap();
        // An ended process remains as a zombie until its new parent reaps it.
        let lives = |pid: &str| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
        };
        within("a process of make lives on", &|| !pids.split_whitespace().any(lives));
    }
}
