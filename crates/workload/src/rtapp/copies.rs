//! Copies of all tasks in an rt-app description: each task's `instance` is multiplied. In rt-app a task's instances
//! share mutexes, conditions and barriers, so copies contend like additional instances.

use super::json::{self, Kind, Member, Source};
use schedlab_base::{Error, Result};

/// The text with `copies` times as many instances of each task. Everything else stays, including comments.
///
/// # Errors
/// When the JSON is malformed, or an `instance` is not a number or becomes too large, with line and column.
pub fn copies(file: &str, text: &str, copies: u64) -> Result<String> {
    let source = Source::new(file, text);
    let mut changes: Vec<(usize, usize, String)> = Vec::new();
    for task in tasks(&json::parse(source)?.kind) {
        let Kind::Object(members) = &task.value.kind else { continue };
        match members.iter().find(|m| m.key == "instance") {
            Some(own) => {
                let Kind::Number(digits) = &own.value.kind else { continue };
                let all = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(copies));
                let all = all.ok_or_else(|| {
                    source.error(own.value.at, format!("instance = {digits} times {copies} is too many"))
                })?;
                changes.push((own.value.at, own.value.at + digits.len(), all.to_string()));
            }
            None => {
                // After the brace that opens the task.
                let comma = if members.is_empty() { "" } else { ", " };
                let at = task.value.at + 1;
                changes.push((at, at, format!(" \"instance\": {copies}{comma}")));
            }
        }
    }
    if changes.is_empty() {
        return Err(Error::input(format!("{file}: the file has no task to copy")));
    }
    changes.sort_by_key(|(from, ..)| *from);
    let (mut out, mut at) = (String::new(), 0);
    for (from, to, new) in changes {
        out.push_str(&text[at..from]);
        out.push_str(&new);
        at = to;
    }
    Ok(out + &text[at..])
}

fn tasks(top: &Kind) -> &[Member] {
    let Kind::Object(members) = top else { return &[] };
    match members.iter().find(|m| m.key == "tasks").map(|m| &m.value.kind) {
        Some(Kind::Object(tasks)) => tasks,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    const TWO: &str = r#"{ // kept
  "tasks": { "a": { "run": 10, "sleep": 100 }, "b": { "instance": 3 , "run": 5, "sleep": 7 } },
  "global": { "duration": 1 } }"#;

    #[test]
    fn every_task_has_as_many_times_its_instances() {
        let text = copies("t.json", TWO, 2).unwrap();
        assert!(text.contains("// kept") && text.contains(r#"{ "instance": 2,  "run": 10"#), "{text}");
        assert!(text.contains(r#""instance": 6 , "run": 5"#), "{text}");
        let tasks = |text: &str| {
            Spec::RtApp { file: "t.json".into(), text: text.into(), runtime: None }
                .build(1)
                .unwrap()
                .tasks
                .len()
        };
        assert_eq!((tasks(TWO), tasks(&text)), (4, 8));
        assert_eq!(tasks(&copies("t.json", TWO, 1).unwrap()), 4);
    }

    #[test]
    fn missing_and_too_many_tasks_are_errors() {
        assert!(copies("t.json", "{}", 2).unwrap_err().to_string().contains("no task"));
        let e = copies("t.json", TWO, u64::MAX).unwrap_err().to_string();
        assert!(e.contains("t.json:2:") && e.contains("too many"), "{e}");
        assert!(copies("t.json", "{", 2).is_err());
    }
}
