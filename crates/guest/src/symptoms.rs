//! Recognises failures in a kernel's log, and suggests remedies.
//!
//! Pure text: lines that every kernel from 3.x to 7.x prints when it stops, hangs, or lacks something that a guest
//! needs. Specific lines precede general ones in the tables, because a panic follows its cause in the log.

/// The prefix of init's own lines.
pub const INIT_SAYS: &str = "schedlab: ";
/// Init's line when it runs.
pub const INIT_UP: &str = "schedlab: init is up";
/// Init's line when it can neither work nor reply.
pub const INIT_FAILED: &str = "schedlab: init can't work: ";

/// A recognised line.
struct Sign {
    /// Words in the line.
    words: &'static str,
    /// The meaning, a clause about the kernel.
    what: &'static str,
    help: &'static str,
}

const INITRD: &str =
    "the image needs CONFIG_BLK_DEV_INITRD and CONFIG_BINFMT_ELF, and must be for x86-64 as schedlab is";
const MEMORY: &str = "give the guest more memory";
const KERNEL_FAULT: &str =
    "it is a fault of this kernel or of this QEMU: try another of either, or fewer CPUs";

/// Signs that the guest can't continue.
#[rustfmt::skip]
const FATAL: &[Sign] = &[
    Sign { words: "Out of memory: Kill", what: "its memory ran out", help: MEMORY },
    Sign { words: "System is deadlocked on memory", what: "its memory ran out", help: MEMORY },
    Sign { words: "initramfs unpacking failed: write error", what: "its memory does not hold the initramfs", help: MEMORY },
    Sign { words: "Initramfs unpacking failed: write error", what: "its memory does not hold the initramfs", help: MEMORY },
    Sign { words: "initrd too large to handle", what: "its memory does not hold the initramfs", help: MEMORY },
    Sign { words: "Initramfs unpacking failed", what: "the kernel could not unpack the initramfs", help: INITRD },
    Sign { words: "Failed to execute /init", what: "the kernel could not start schedlab as init", help: INITRD },
    Sign { words: "No working init found", what: "the kernel found no init", help: INITRD },
    Sign { words: "VFS: Unable to mount root fs", what: "the kernel ignored the initramfs", help: INITRD },
    Sign { words: "kernel BUG at", what: "the kernel ran into a BUG()", help: KERNEL_FAULT },
    Sign { words: "BUG: unable to handle", what: "the kernel oopsed", help: KERNEL_FAULT },
    Sign { words: "BUG: kernel NULL pointer", what: "the kernel oopsed", help: KERNEL_FAULT },
    Sign { words: "general protection fault", what: "the kernel oopsed", help: KERNEL_FAULT },
    Sign { words: "Oops: ", what: "the kernel oopsed", help: KERNEL_FAULT },
    Sign { words: "Attempted to kill init!", what: "schedlab died as init", help: "this is a fault of schedlab: please report it with the log" },
    Sign { words: "Kernel panic - not syncing", what: "the kernel panicked", help: KERNEL_FAULT },
];

/// Signs of a hang. They make results doubtful, and explain runs that do not end.
#[rustfmt::skip]
const DOUBTFUL: &[Sign] = &[
    Sign { words: "soft lockup", what: "a CPU did not schedule for more than 20 s (soft lockup)", help: KERNEL_FAULT },
    Sign { words: "detected stall", what: "RCU waited too long for a CPU (stall)", help: KERNEL_FAULT },
    Sign { words: "blocked for more than", what: "a task was blocked for minutes", help: KERNEL_FAULT },
    Sign { words: "Marking TSC unstable", what: "the kernel gave up its clock source", help: KERNEL_FAULT },
    Sign { words: "Marking clocksource", what: "the kernel gave up its clock source", help: KERNEL_FAULT },
    Sign { words: "WARNING: CPU:", what: "the kernel warned of itself", help: "see the log" },
];

/// A failure found in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    /// The failure, a clause about the kernel.
    pub what: String,
    pub help: &'static str,
    /// The lines of the log that prove it.
    pub lines: String,
}

/// Number of quoted log lines.
const QUOTED: usize = 15;

/// Why the guest can't continue; `None` if it can.
pub fn fatal(log: &str) -> Option<Symptom> {
    if let Some((_, said)) = log.split_once(INIT_FAILED) {
        let what = format!("init can't work: {}", said.lines().next().unwrap_or_default().trim_end());
        let help = "the kernel lacks what schedlab needs: enable it, or use a distribution's kernel";
        return Some(Symptom { what, help, lines: last_lines(log) });
    }
    let sign = FATAL.iter().find(|s| log.contains(s.words))?;
    let at = log.find(sign.words)?;
    let from = log[..at].rfind('\n').map_or(0, |i| i + 1);
    Some(Symptom { what: sign.what.to_owned(), help: sign.help, lines: first_lines(&log[from..]) })
}

/// The symptoms that make a guest's results doubtful, without repetitions.
pub fn doubtful(log: &str) -> Vec<Symptom> {
    let one = |sign: &Sign| {
        let at = log.find(sign.words)?;
        let from = log[..at].rfind('\n').map_or(0, |i| i + 1);
        let lines = clean(log[from..].lines().next().unwrap_or_default());
        Some(Symptom { what: sign.what.to_owned(), help: sign.help, lines })
    };
    DOUBTFUL.iter().filter_map(one).collect()
}

/// The last lines of a log for an error message.
pub fn last_lines(log: &str) -> String {
    let lines = worth_quoting(log);
    lines[lines.len().saturating_sub(QUOTED)..].join("\n")
}

fn first_lines(log: &str) -> String {
    let mut lines = worth_quoting(log);
    lines.truncate(QUOTED);
    lines.join("\n")
}

/// The lines worth quoting: without the firmware's lines, code bytes and module lists.
fn worth_quoting(log: &str) -> Vec<String> {
    let noise = |line: &String| {
        let said = line.split_once("] ").map_or(line.as_str(), |(_, said)| said).trim_start();
        said.is_empty()
            || ["Code: ", "Modules linked in:", "Booting from ", "SeaBIOS "]
                .iter()
                .any(|n| said.starts_with(n))
    };
    log.lines().map(clean).filter(|line| !noise(line)).collect()
}

/// A line without terminal control sequences.
fn clean(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\x1b' {
            // A control sequence ends with a letter.
            let _ = rest.by_ref().find(char::is_ascii_alphabetic);
        } else if !c.is_control() || c == '\t' {
            out.push(c);
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OOPS: &str = "\x1b[2J\x1b[01;01HSeaBIOS (version 1.16)\r\n\
        [    0.000000] Linux version 7.3.4\r\n\
        [    1.100000] Oops: int3: 0000 [#1] SMP\r\n\
        [    1.100001] RIP: 0010:enqueue_task_fair+0x10/0x20\r\n\
        [    1.100002] Code: 90 90 cc\r\n\
        [    1.200000] Kernel panic - not syncing: Fatal exception\r\n";

    #[test]
    fn the_cause_is_named_and_not_the_panic_that_follows() {
        let found = fatal(OOPS).unwrap();
        assert_eq!(found.what, "the kernel oopsed");
        let lines: Vec<&str> = found.lines.lines().collect();
        assert_eq!(lines[0], "[    1.100000] Oops: int3: 0000 [#1] SMP");
        assert!(lines[1].contains("enqueue_task_fair") && lines.len() == 3, "{lines:?}");
    }

    #[test]
    fn every_sign_is_recognised() {
        for sign in FATAL {
            let log = format!("[ 1.0] fine\n[ 2.0] x {} y\n", sign.words);
            let found = fatal(&log).unwrap();
            assert!(
                FATAL.iter().any(|s| s.what == found.what && sign.words.contains(s.words)),
                "{}",
                sign.words
            );
        }
        assert_eq!(fatal("[ 0.0] Linux version 6.1\n[ 1.0] Run /init as init process\n"), None);
        let hangs = doubtful("[ 9.0] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [x:1]\n");
        assert!(hangs.len() == 1 && hangs[0].lines.contains("CPU#3"));
    }

    #[test]
    fn init_speaks_for_itself() {
        let log = "[    2.0] schedlab: init can't work: no devtmpfs: ENODEV\r\n[ 2.1] Kernel panic - not syncing: Attempted to kill init!\n";
        assert_eq!(fatal(log).unwrap().what, "init can't work: no devtmpfs: ENODEV");
    }

    #[test]
    fn only_the_end_is_quoted() {
        let log: String = (0..40).map(|i| format!("[ {i}.0] line {i}\r\n\n")).collect();
        let lines = last_lines(&log);
        assert!(lines.starts_with("[ 25.0] line 25\n") && lines.ends_with("line 39"), "{lines}");
    }
}
