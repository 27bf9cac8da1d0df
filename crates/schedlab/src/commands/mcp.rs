//! `schedlab mcp`: commands as tools for an agent, by the Model Context Protocol over standard input and output.
//!
//! A message is a line of JSON (JSON-RPC 2.0). Each call of a tool is a process of this executable, so that a fault or
//! an interruption ends that call alone. Calls run side by side, and an answer comes when its call has ended. The
//! answer holds the command line, so that what an agent reports can be repeated. The protocol's versions are those of
//! [`VERSIONS`]; a client that asks for another gets the newest.

use super::mcp_tools::{self, Asked};
use crate::cli::Entry;
use crate::fault::shell;
use clap::{ArgMatches, Command};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use schedlab_base::hash::content_hash;
use schedlab_base::{Error, Result, temp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub const ENTRY: Entry = Entry { command, run };

/// Versions of the protocol whose messages are those below, newest first.
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2024-11-05"];
/// Between two looks at calls that are to end.
const LOOK: Duration = Duration::from_millis(20);
/// The exit code that shells report for a process that a signal ended.
const ENDED: i32 = 130;
const NOT_JSON: i64 = -32700;
const NOT_A_REQUEST: i64 = -32600;
const NO_SUCH_METHOD: i64 = -32601;
const WRONG_PARAMETERS: i64 = -32602;

fn command() -> Command {
    Command::new("mcp").about(
        "Serve commands as tools to a client of the Model Context Protocol on standard input and output: run, \
         compare, explain, try and others give JSON with verdicts, and the command line that repeats it. They run as \
         you, in this folder; try builds code of a patch",
    )
}

/// A call between its request and its answer.
#[derive(Default)]
struct Call {
    child: Option<OwnedFd>,
    is_cancelled: bool,
}

impl Call {
    /// As Ctrl-C: the command keeps what is finished, and puts settings back. One that has not begun is ended at its
    /// beginning.
    fn cancel(&mut self) {
        self.is_cancelled = true;
        // It may have ended meanwhile; the descriptor then means no other process.
        let _ = self.child.as_ref().map(|child| pidfd_send_signal(child, Signal::INT));
    }
}

/// The calls by the request's id as text.
type Running = Arc<Mutex<BTreeMap<String, Call>>>;

fn run(_: &ArgMatches) -> Result<()> {
    let running = Running::default();
    ends_with_its_client(&running)?;
    let outcome = std::thread::scope(|scope| {
        let served = serve(&running, |message| {
            let running = Arc::clone(&running);
            scope.spawn(move || send(&called(&message, &running)));
        });
        // The client has gone: nobody waits for what still runs.
        locked(&running).values_mut().for_each(Call::cancel);
        served
    });
    outcome.map_err(|e| Error::machine(format!("standard input can't be read: {e}")))
}

/// Answers messages until the input ends; `begin` makes a call of a tool beside.
fn serve(running: &Running, begin: impl Fn(Value)) -> std::io::Result<()> {
    let (mut input, mut line) = (std::io::stdin().lock(), Vec::new());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            send(&failure(&Value::Null, NOT_JSON, "a message is one line of JSON"));
            continue;
        };
        if !is_call(&message) {
            answered(&message, running).iter().for_each(send);
            continue;
        }
        let id = message["id"].to_string();
        if locked(running).contains_key(&id) {
            send(&failure(&message["id"], NOT_A_REQUEST, "a request with this id is running"));
            continue;
        }
        locked(running).insert(id, Call::default());
        begin(message);
    }
}

/// At SIGTERM, SIGHUP and Ctrl-C calls end as at a cancellation, and then the server does.
fn ends_with_its_client(running: &Running) -> Result<()> {
    let running = Arc::clone(running);
    let end = move || {
        locked(&running).values_mut().for_each(Call::cancel);
        while !locked(&running).is_empty() {
            std::thread::sleep(LOOK);
        }
        std::process::exit(ENDED);
    };
    ctrlc::set_handler(end).map_err(|e| Error::machine(format!("can't catch SIGTERM: {e}")))
}

fn locked(running: &Running) -> MutexGuard<'_, BTreeMap<String, Call>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    // A client that has gone ends the loop at its next read.
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

fn success(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn failure(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn is_call(message: &Value) -> bool {
    message["method"] == "tools/call" && message.get("id").is_some()
}

/// The answer to anything but a call of a tool; `None` for a notification.
fn answered(message: &Value, running: &Running) -> Option<Value> {
    let Some(method) = message["method"].as_str() else {
        return Some(failure(&message["id"], NOT_A_REQUEST, "a request has a method"));
    };
    if method == "notifications/cancelled" {
        let id = message["params"]["requestId"].to_string();
        locked(running).get_mut(&id).into_iter().for_each(Call::cancel);
    }
    let id = message.get("id")?;
    Some(match method {
        "initialize" => success(id, &greeting(&message["params"]["protocolVersion"])),
        "ping" => success(id, &json!({})),
        "tools/list" => {
            let tools: Vec<Value> = mcp_tools::all().iter().map(mcp_tools::Tool::listed).collect();
            success(id, &json!({"tools": tools}))
        }
        other => failure(id, NO_SUCH_METHOD, &format!("'{other}' is not a method of this server")),
    })
}

fn greeting(asked: &Value) -> Value {
    let version = VERSIONS.iter().find(|version| *asked == **version).unwrap_or(&VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "schedlab", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Verdicts are better, worse, changed, same and unclear; unclear means that the data cannot \
            tell. Report a change only with its verdict, its interval and the command of the answer.",
    })
}

/// Makes a call of a tool.
fn called(message: &Value, running: &Running) -> Value {
    let (id, params) = (&message["id"], &message["params"]);
    let wanted = params["name"].as_str().unwrap_or_default();
    let tools = mcp_tools::all();
    let Some(tool) = tools.iter().find(|tool| tool.name == wanted) else {
        let unknown = Error::unknown("tool", wanted, tools.iter().map(|tool| tool.name));
        locked(running).remove(&id.to_string());
        return failure(id, WRONG_PARAMETERS, &unknown.to_string());
    };
    let given = match &params["arguments"] {
        Value::Null => serde_json::Map::new(),
        Value::Object(given) => given.clone(),
        other => {
            locked(running).remove(&id.to_string());
            return failure(id, WRONG_PARAMETERS, &format!("arguments are an object, not {other}"));
        }
    };
    let made = tool.asked(&given).and_then(kept).and_then(|words| {
        let done = ran(&words, id, running)?;
        Ok(result(&words, &done))
    });
    locked(running).remove(&id.to_string());
    success(id, &made.unwrap_or_else(|e| json!({"content": [text(&e.to_string())], "isError": true})))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The words of the call, with a file for the experiment's text.
fn kept(asked: Asked) -> Result<Vec<String>> {
    let mut words = asked.words;
    if let Some(text) = asked.text {
        let file = format!("experiment-{}.toml", &content_hash(text.as_bytes())[..8]);
        temp::write_whole(&PathBuf::from(&file), text.as_bytes())?;
        words.push(file);
    }
    Ok(words)
}

/// Runs a command line of this executable to its end.
fn ran(words: &[String], id: &Value, running: &Running) -> Result<Output> {
    let failed = |e: std::io::Error| Error::machine(format!("schedlab can't be started again: {e}"));
    let own = std::env::current_exe().map_err(failed)?;
    let child: Child = std::process::Command::new(own)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(call) = locked(running).get_mut(&id.to_string()) {
        let pid = Pid::from_raw(child.id().cast_signed());
        call.child = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if call.is_cancelled {
            call.cancel();
        }
    }
    child.wait_with_output().map_err(failed)
}

/// What a command printed, as a tool's result: a check that failed has one, too.
fn result(words: &[String], done: &Output) -> Value {
    let notes = String::from_utf8_lossy(&done.stderr);
    let Ok(mut printed) = serde_json::from_slice::<Value>(&done.stdout) else {
        let said = if notes.trim().is_empty() { done.status.to_string() } else { notes.trim().to_owned() };
        return json!({"content": [text(&said)], "isError": true});
    };
    without_values(&mut printed);
    let whole = json!({
        "command": format!("schedlab {}", words.iter().map(|word| shell(word)).collect::<Vec<_>>().join(" ")),
        "exit_code": done.status.code(),
        "notes": notes.trim(),
        "result": printed,
    });
    json!({"content": [text(&whole.to_string())], "structuredContent": whole, "isError": false})
}

/// Leaves out the values of single runs, which lie in the cells' folders.
fn without_values(comparison: &mut Value) {
    let cells = comparison.get_mut("cells").and_then(Value::as_array_mut).into_iter().flatten();
    let metrics = cells.filter_map(|cell| cell.get_mut("metrics").and_then(Value::as_object_mut));
    for metric in metrics.flat_map(|all| all.values_mut()).filter_map(Value::as_object_mut) {
        metric.remove("values");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_client_s_or_the_newest() {
        assert_eq!(greeting(&json!("2024-11-05"))["protocolVersion"], "2024-11-05");
        assert_eq!(greeting(&json!("1999-01-01"))["protocolVersion"], VERSIONS[0]);
    }

    #[test]
    fn notifications_have_no_answer_and_requests_have_one() {
        let running = Running::default();
        let of = |message: Value| answered(&message, &running);
        assert_eq!(of(json!({"method": "notifications/initialized"})), None);
        assert_eq!(of(json!({"method": "notifications/cancelled", "params": {"requestId": 4}})), None);
        assert_eq!(of(json!({"id": 1, "method": "ping"})).unwrap()["result"], json!({}));
        assert_eq!(of(json!({"id": 1, "method": "sing"})).unwrap()["error"]["code"], NO_SUCH_METHOD);
        assert_eq!(of(json!({"id": 1})).unwrap()["error"]["code"], NOT_A_REQUEST);
    }

    #[test]
    fn values_of_runs_stay_in_the_store() {
        let mut comparison = json!({"cells": [{"metrics": {"m": {"mean": 1.5, "values": [1.0, 2.0]}}}]});
        without_values(&mut comparison);
        assert_eq!(comparison, json!({"cells": [{"metrics": {"m": {"mean": 1.5}}}]}));
        let mut other = json!({"cells": [{"folder": "a"}]});
        without_values(&mut other);
        assert_eq!(other, json!({"cells": [{"folder": "a"}]}));
    }
}
