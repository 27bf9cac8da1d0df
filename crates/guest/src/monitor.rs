//! QEMU's monitor: the machine protocol (QMP) over QEMU's standard input and output, as far as a guest at rest needs
//! it.
//!
//! Commands are lines of JSON, written ahead of their answers; answers and events come as lines of JSON, in a file that
//! grows. The machine stands still while the monitor is used: a command that reached QEMU while the guest runs would
//! end the turn of a CPU at a moment of the host's time.
//!
//! Mirrors qapi/migration.json of QEMU 8.2 to 10.0. With `x-ignore-shared` memory in shared files is left out of the
//! state, which then has only the devices and CPUs.

use crate::watch::Tail;
use schedlab_base::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ChildStdin;

/// A connection to a monitor.
#[derive(Debug)]
pub struct Monitor {
    input: ChildStdin,
    output: Tail,
    /// Lines read so far.
    lines: Vec<Value>,
    /// Bytes of the output that are in `lines`.
    read: usize,
}

impl Monitor {
    /// The monitor that reads `input` and writes to the file of `output`.
    pub fn new(input: ChildStdin, output: Tail) -> Monitor {
        Monitor { input, output, lines: Vec::new(), read: 0 }
    }
    /// Begins the dialogue, and asks to be sent the events of saving and loading.
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
    /// Has the state of a machine that stands still saved to that path; [`Monitor::is_carried`] reports the end.
    pub fn save(&mut self, path: &str) {
        // Without a limit; the default is that of a network.
        self.ask("migrate-set-parameters", &json!({ "max-bandwidth": 1_u64 << 40 }));
        self.ask("migrate", &json!({ "uri": format!("file:{path}") }));
    }
    /// Has a state loaded from that path; [`Monitor::is_carried`] reports the end.
    pub fn load(&mut self, path: &str) {
        // A loaded machine announces its network cards by timers of the host's time, also if it has none. While such a
        // timer is set, the turns of the CPUs end by the host's time (QEMU's icount_get_limit).
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
    /// Whether a state is saved or loaded.
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
        // A QEMU that does not read has ended, and whoever watches it sees why.
        let _ = self.input.write_all(line.as_bytes());
    }

    /// Reads what is new.
    fn listen(&mut self) -> Result<()> {
        self.output.grow();
        while let Some(length) = self.output.bytes[self.read..].iter().position(|b| *b == b'\n') {
            let line = &self.output.bytes[self.read..self.read + length];
            // A line that is not JSON is not the monitor's.
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

    /// A monitor that reads nothing and has said this.
    fn said(text: &str) -> Monitor {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let monitor = Monitor::new(child.stdin.take().unwrap(), Tail::open(file.path()).unwrap());
        // It ends when the monitor does.
        std::thread::spawn(move || child.wait());
        monitor
    }

    #[test]
    fn events_are_told_apart_from_answers() {
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
