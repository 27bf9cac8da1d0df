//! Tests whether KVM works. Opening the device or running code proves little; booting a kernel proves it.
//!
//! The first trial ([`starts`]) is short and needs no kernel. Its guest is 64 KiB of firmware, whose first
//! instructions, at the reset vector, write to the port of QEMU's debug exit device; QEMU then ends with a code that
//! they choose. The guest has the CPU model of all guests under KVM, because nested virtualisation fails there first
//! (the host refuses a register that the model asks for). Firmware and kernel may still fail later, so the second trial
//! ([`boots`]) boots a kernel as a run does.

use crate::watch::Guard;
use crate::{Accelerator, Guest, Image, Mode, Qemu, run};
use schedlab_base::temp::TempFolder;
use schedlab_base::{Error, Result};
use schedlab_kernels::parent::die_with_parent;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub const DEVICE: &str = "/dev/kvm";
/// mov al, 0x10; out 0xf4, al; hlt
const CODE: [u8; 5] = [0xb0, 0x10, 0xe6, 0xf4, 0xf4];
const ROM_BYTES: usize = 0x1_0000;
const RESET_VECTOR: usize = 0xfff0;
/// The device ends QEMU with the code: twice the value plus one.
const EXIT_CODE: i32 = 0x10 * 2 + 1;
const LONGEST: Duration = Duration::from_secs(2);
/// Kernels boot under KVM within 3 s; the limit allows for a busy host.
const BOOTS_WITHIN: Duration = Duration::from_secs(15);
/// Memory for the trial boot, MiB.
const MEMORY_MB: u32 = 512;
const POLL: Duration = Duration::from_millis(10);

/// Starts the tiny guest under KVM. On a timeout, QEMU and all processes it started are killed.
///
/// # Errors
/// When it does not run. The message has QEMU's reason.
pub fn starts(qemu: &Qemu) -> Result<()> {
    let folder = TempFolder::create(&std::env::temp_dir(), "schedlab-kvm-", 0o700)
        .map_err(|e| e.help("a guest's firmware goes there; TMPDIR names another place"))?;
    let (rom, said) = (folder.path.join("rom"), folder.path.join("said"));
    fs::write(&rom, firmware()).map_err(|e| Error::io(&rom, "write", &e))?;
    // Not a pipe: it would stay open as long as any process that a wrapper around QEMU left behind.
    let errors = fs::File::create(&said).map_err(|e| Error::io(&said, "write", &e))?;
    let mut command = qemu.command();
    command.args(["-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "16", "-nodefaults"]);
    command.args(["-display", "none", "-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
    command.arg("-bios").arg(&rom).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    command.process_group(0);
    die_with_parent(&mut command);
    let program = qemu.program.display();
    let child = command.spawn().map_err(|e| Error::machine(format!("{program} can't be started: {e}")))?;
    match ended(&mut Guard(child)) {
        Some(Some(EXIT_CODE)) => Ok(()),
        Some(_) => Err(Error::machine(format!("a guest does not start: {}", first_line(&said)))),
        None => Err(Error::machine(format!("a guest did not run within {} s", LONGEST.as_secs()))),
    }
}

/// Boots the kernel under KVM, as a run in real time does.
///
/// # Errors
/// When it does not boot. The message has the reason of QEMU and of the kernel.
pub fn boots(qemu: &Qemu, image: &Image) -> Result<()> {
    let guest = Guest {
        image: image.clone(),
        qemu: qemu.clone(),
        mode: Mode::RealTime,
        accelerator: Accelerator::Kvm,
        memory_mb: MEMORY_MB,
        boot_options: Vec::new(),
    };
    run::boots(&guest, BOOTS_WITHIN)
}

/// The exit code; if the child does not end in time, it is killed.
fn ended(child: &mut Guard) -> Option<Option<i32>> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        match child.0.try_wait() {
            Ok(Some(status)) => return Some(status.code()),
            Ok(None) => std::thread::sleep(POLL),
            Err(_) => break,
        }
    }
    child.end();
    None
}

/// The first line of QEMU's output, without the program's name; later lines are consequences of the first error.
fn first_line(said: &Path) -> String {
    // An unreadable file counts as empty.
    let text = fs::read(said).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let line = text.lines().find(|l| !l.contains("warning:")).unwrap_or("QEMU ended without a word");
    let line = line.split_once(": ").map_or(line, |(_, rest)| rest);
    line.trim_start_matches("error: ").to_owned()
}

fn firmware() -> Vec<u8> {
    let mut bytes = vec![0xf4; ROM_BYTES];
    bytes[RESET_VECTOR..RESET_VECTOR + CODE.len()].copy_from_slice(&CODE);
    bytes
}

pub fn opens() -> std::io::Result<()> {
    fs::OpenOptions::new().read(true).write(true).open(Path::new(DEVICE)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;
    use std::os::unix::fs::PermissionsExt;

    fn with(script: &str) -> Result<()> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("qemu");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let version = Version::new(9, 0);
        starts(&Qemu { program, version, libraries: Vec::new(), modules: None, data: Vec::new() })
    }

    #[test]
    fn only_the_guests_own_code_proves_that_it_ran() {
        assert!(with("exit 33").is_ok());
        let refused =
            with("echo 'qemu: warning: x' >&2; echo 'qemu: error: failed to set MSR 0x10a' >&2; exit 1");
        assert!(refused.unwrap_err().to_string().ends_with("start: failed to set MSR 0x10a"));
        assert!(with("exit 0").unwrap_err().to_string().contains("without a word"));
        assert!(with("exec sleep 60").unwrap_err().to_string().contains("within 2 s"));
    }

    #[test]
    fn children_of_a_wrapper_end_with_it_and_delay_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("left");
        let begun = Instant::now();
        // The first script's child keeps standard error open; the second script saves its child's process id.
        let refused = with("sleep 30 & echo 'qemu: error: no' >&2; exit 1").unwrap_err().to_string();
        assert!(refused.ends_with("start: no") && begun.elapsed() < LONGEST, "{refused}");
        with(&format!("sleep 30 & echo $! > {}; wait", left.display())).unwrap_err();
        let number = fs::read_to_string(&left).unwrap();
        // It may be a zombie until its new parent reaps it; on a busy machine that takes a moment.
        let state = || fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
        let is_over = |state: &str| state.is_empty() || state.contains(") Z ") || state.contains(") X ");
        let killed = Instant::now();
        while !is_over(&state()) {
            assert!(killed.elapsed() < Duration::from_secs(10), "{}", state());
            std::thread::sleep(POLL);
        }
    }
}
