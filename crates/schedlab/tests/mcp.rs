//! `schedlab mcp` as a client sees it.

use crate::common::Lab;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn new(lab: &Lab) -> Server {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("schedlab"))
            .arg("mcp")
            .current_dir(lab.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Server { input: child.stdin.take(), child, output }
    }
    fn send(&mut self, message: &str) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }
    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
    fn call(&mut self, id: u64, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string());
        self.answer()["result"].clone()
    }
    /// Ends the input, and waits for the end.
    fn end(mut self) -> bool {
        self.input.take();
        self.child.wait().unwrap().success()
    }
}

#[test]
fn an_agent_s_answer_names_the_command_that_repeats_it() {
    let lab = Lab::new();
    let mut server = Server::new(&lab);
    server
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#);
    assert_eq!(server.answer()["result"]["protocolVersion"], "2025-06-18");
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    let tools = server.answer()["result"]["tools"].as_array().unwrap().clone();
    let named = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(["run", "compare", "explain", "try", "history"].into_iter().all(named), "{tools:?}");

    let ran = server.call(3, "run", &json!({"file": "small.toml"}))["structuredContent"].clone();
    assert_eq!(ran["result"]["schema"], "schedlab/comparison/1", "{ran}");
    let verdict = ran["result"]["comparisons"][0]["verdict"].clone();
    let command: Vec<&str> = ran["command"].as_str().unwrap().split(' ').skip(1).collect();
    let again: Value = serde_json::from_str(&lab.ok(&command)).unwrap();
    assert_eq!(again["comparisons"][0]["verdict"], verdict);
    assert!(server.end());
}

#[test]
fn faults_are_answers_and_the_server_stays() {
    let lab = Lab::new();
    let mut server = Server::new(&lab);
    server.send("not json");
    assert_eq!(server.answer()["error"]["code"], -32700);
    let unknown = server.call(1, "run", &json!({"file": "none.toml"}));
    assert_eq!(unknown["isError"], true);
    assert!(unknown["content"][0]["text"].as_str().unwrap().contains("none.toml"), "{unknown}");
    let wrong = server.call(2, "run", &json!({"toml": "speed = 3"}));
    assert!(wrong["content"][0]["text"].as_str().unwrap().contains("speed"), "{wrong}");
    let option = server.call(3, "explain", &json!({"source": "--out=elsewhere"}));
    assert_eq!(option["isError"], true, "{option}");
    assert!(!lab.path().join("elsewhere").exists());
    server.send(
        r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"runs","arguments":"junk"}}"#,
    );
    assert_eq!(server.answer()["error"]["code"], -32602);
    server.input.as_mut().unwrap().write_all(b"\xff\n").unwrap();
    assert_eq!(server.answer()["error"]["code"], -32700);
    let history = server.call(4, "history", &json!({"what": "v6.5"}));
    assert_eq!(history["isError"], false, "{history}");
    assert!(server.end());
}

#[test]
fn a_cancelled_call_ends_and_keeps_what_is_finished() {
    let lab = Lab::new();
    let mut server = Server::new(&lab);
    let params = json!({"name": "run", "arguments": {"file": "small.toml", "runs": 100_000}});
    server
        .send(&json!({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": params}).to_string());
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"long"}}"#);
    let said = server.answer()["result"]["content"][0]["text"].to_string();
    assert!(said.contains("interrupted") || said.contains("signal"), "{said}");
    assert!(server.end());
}
