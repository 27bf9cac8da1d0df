//! QEMU's monitor: the machine protocol (QMP) over QEMU's standard input and output, as far as guests at rest need it.
//!
//! Commands are lines of JSON, sent without waiting for answers. Answers and events arrive as lines of JSON in a
//! growing file. The monitor is used only while the machine is stopped: a command to a running guest would end a CPU's
//! turn at a moment of the host's time.
//!
//! Mirrors qapi/migration.json of QEMU 8.2 to 10.0. With `x-ignore-shared` the state does not include memory in shared
//! files; it has only devices and CPUs.

use crate::watch::Tail;
use schedlab_base::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ChildStdin;

#[derive(Debug)]
pub struct Monitor {
    input: ChildStdin,
    output: Tail,
    /// Lines read so far.
    lines: Vec<Value>,
    /// Number of bytes of the output that are in `lines`.
    read: usize,
}

impl Monitor {
    /// A monitor with QEMU's `input`, and the file of its `output`.
    pub fn new(input: ChildStdin, output: Tail) -> Monitor {
        Monitor { input, output, lines: Vec::new(), read: 0 }
    }
    /// Begins the dialogue, and subscribes to events about saving and loading.
    pub fn begin(&mut self) {
        self.ask("qmp_capabilities", &json!({}));
        let on = |name: &str| json!({ "capability": name, "state": true });
        self.ask(
            "migrate-set-capabilities",
            &json!({ "capabilities": [on("events"), on("x-ignore-shared")] }),
        );
    }
    /// Lets the machine continue.
    pub fn go_on(&mut self) {
        self.ask("cont", &json!({}));
    }
    /// Starts saving a stopped machine's state to a path; [`Monitor::is_carried`] reports the end.
    pub fn save(&mut self, path: &str) {
        // Removes the default limit, which is for a network.
        self.ask("migrate-set-parameters", &json!({ "max-bandwidth": 1_u64 << 40 }));
        self.ask("migrate", &json!({ "uri": format!("file:{path}") }));
    }
    /// Starts loading a state from a path; [`Monitor::is_carried`] reports the end.
    pub fn load(&mut self, path: &str) {
        // A loaded machine announces its network cards by timers in the host's time, even without cards. Such a timer
        // makes CPU turns end by the host's time (QEMU's icount_get_limit).
        self.ask("migrate-set-parameters", &json!({ "announce-rounds": 0 }));
        self.ask("migrate-incoming", &json!({ "uri": format!("file:{path}") }));
    }
    /// Whether the guest's watchdog has stopped the machine.
    ///
    /// # Errors
    /// When QEMU refused a command.
    pub fn is_stopped(&mut self) -> Result<bool> {
        self.listen()?;
        Ok(self.events().any(|line| line["event"] == "STOP"))
    }
    /// Whether saving or loading has ended.
    ///
    /// # Errors
    /// When QEMU refused a command, or failed.
    pub fn is_carried(&mut self) -> Result<bool> {
        self.listen()?;
        let states = || self.events().filter(|l| l["event"] == "MIGRATION").map(|l| &l["data"]["status"]);
        if states().any(|status| status == "failed") {
            return Err(refused("it failed to carry the guest's state"));
        }
        Ok(states().any(|status| status == "completed"))
    }

    fn events(&self) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(|line| line.get("event").is_some())
    }

    fn ask(&mut self, command: &str, arguments: &Value) {
        let line = format!(
            "{}
",
            json!({ "execute": command, "arguments": arguments })
        );
        // If QEMU does not read, it has ended; the watcher reports why.
        let _ = self.input.write_all(line.as_bytes());
    }

    /// Reads new output.
    fn listen(&mut self) -> Result<()> {
        self.output.grow();
        while let Some(length) = self.output.bytes[self.read..].iter().position(|b| *b == b'\n') {
            let line = &self.output.bytes[self.read..self.read + length];
            // Lines that are not JSON are not from the monitor.
            if let Ok(value) = serde_json::from_slice::<Value>(line) {
                if let Some(error) = value.get("error") {
                    let words = error["desc"].as_str().unwrap_or("an error without words");
                    return Err(refused(words));
                }
                self.lines.push(value);
            }
            self.read += length + 1;
        }
        Ok(())
    }
}

fn refused(words: &str) -> Error {
    Error::new(ErrorKind::Machine, format!("QEMU can't keep a guest at rest: {words}"))
        .help("deterministic guests need QEMU 8.2 or later: 'schedlab kernel fetch qemu' fetches one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A monitor that ignores input and has written `text`.
    fn said(text: &str) -> Monitor {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let monitor = Monitor::new(child.stdin.take().unwrap(), Tail::open(file.path()).unwrap());
        // The child ends when the monitor is dropped.
        std::thread::spawn(move || child.wait());
        monitor
    }

    #[test]
    fn events_are_separated_from_answers() {
        let greeting = "{\"QMP\": {}}\n{\"return\": {}}\n";
        assert!(!said(greeting).is_stopped().unwrap());
        let stop = format!("{greeting}{{\"event\": \"STOP\"}}\n");
        let mut stopped = said(&stop);
        assert!(stopped.is_stopped().unwrap() && !stopped.is_carried().unwrap());
        let active = "{\"event\": \"MIGRATION\", \"data\": {\"status\": \"active\"}}\n";
        assert!(!said(active).is_carried().unwrap());
        assert!(said(&active.replace("active", "completed")).is_carried().unwrap());
        assert!(!said("{\"event\": \"ST").is_stopped().unwrap(), "a part of a line is none");
    }

    #[test]
    fn a_refusal_is_quoted() {
        let mut old =
            said("{\"error\": {\"class\": \"GenericError\", \"desc\": \"unknown migration protocol\"}}\n");
        let told = old.is_carried().unwrap_err().to_string();
        assert!(told.contains("unknown migration protocol") && told.contains("8.2"), "{told}");
        let failed = "{\"event\": \"MIGRATION\", \"data\": {\"status\": \"failed\"}}\n";
        assert!(said(failed).is_carried().is_err());
    }
}
