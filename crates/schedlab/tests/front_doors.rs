//! What a newcomer meets first does what it says: README.md, docs/first-hour.md, examples/*.toml.
//!
//! In a page, a block of kind `console` holds commands behind `$ ` and their output, in which a line `...` stands for
//! any lines. A block of kind `toml` whose first line is `# FILE` is written to that file; `# FILE, at its end` is
//! added to it. Blocks of other kinds are for the reader's eye and are not run; their commands, and those of all other
//! pages, must have the subcommands and options that help lists.

use crate::common::{Lab, Words};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fenced block of a page.
struct Block {
    kind: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
        blocks.push(Block { kind: kind.to_owned(), text: body.join("\n") + "\n" });
    }
    blocks
}

/// Whether the output is what a page shows: the same lines, where `...` stands for any.
fn shows(shown: &[&str], output: &[&str]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((&"...", rest)) => (0..=output.len()).any(|n| shows(rest, &output[n..])),
        Some((line, rest)) => {
            output.split_first().is_some_and(|(first, left)| first == line && shows(rest, left))
        }
    }
}

/// Runs a block's commands in the lab and holds their output against the block. Says how many it ran.
fn run_block(lab: &Lab, name: &str, text: &str) -> usize {
    let mut runs = 0;
    for part in format!("\n{text}").split("\n$ ").skip(1) {
        let (command, shown) = part.split_once('\n').unwrap_or((part, ""));
        let line = command.strip_prefix("schedlab ");
        let output = lab.ok(line.unwrap_or_else(|| panic!("{name}: a page's commands are schedlab's")));
        let shown: Vec<&str> = shown.lines().collect();
        let lines: Vec<&str> = output.lines().collect();
        assert!(shows(&shown, &lines), "{name}: {command} prints\n{output}");
        runs += 1;
    }
    runs
}

/// Works through a page from top to bottom in an empty folder.
fn work_through(lab: &Lab, name: &str) -> usize {
    let page = std::fs::read_to_string(root().join(name)).unwrap();
    let mut runs = 0;
    for block in blocks(&page) {
        match block.kind.as_str() {
            "console" => runs += run_block(lab, name, &block.text),
            "toml" => {
                let (head, _) = block.text.split_once('\n').unwrap();
                let file = head.strip_prefix("# ").unwrap_or_else(|| panic!("{name}: a file without a name"));
                let (file, old) = match file.strip_suffix(", at its end") {
                    Some(file) => (file, lab.text(file) + "\n"),
                    None => (file, String::new()),
                };
                lab.write(file, &(old + &block.text));
            }
            _ => {}
        }
    }
    runs
}

#[test]
fn only_lines_left_out_of_a_page_stand_for_any() {
    assert!(shows(&["a", "...", "c"], &["a", "b", "b", "c"]) && shows(&["a", "...", "c"], &["a", "c"]));
    assert!(!shows(&["a", "c"], &["a", "b", "c"]) && !shows(&["a", "..."], &["b", "a"]));
    assert!(!shows(&["a"], &["a", "b"]) && !shows(&["a", "b"], &["a"]));
    assert_eq!("schedlab run 'a b'  \"c\" d''".words(), ["schedlab", "run", "a b", "c", "d"]);
}

#[test]
fn the_first_hour_goes_as_the_page_says() {
    let lab = Lab(tempfile::tempdir().unwrap());
    assert!(work_through(&lab, "docs/first-hour.md") >= 6);
    assert!(lab.path().join("slices.html").metadata().unwrap().len() > 100_000);
}

#[test]
fn the_tables_of_readme_equal_the_output() {
    let lab = Lab(tempfile::tempdir().unwrap());
    assert!(work_through(&lab, "README.md") >= 2);
}

/// The command in an example's comment, without `schedlab`.
fn command_of<'t>(text: &'t str, file: &str) -> &'t str {
    let line = text.lines().find_map(|l| l.strip_prefix("#   schedlab "));
    line.unwrap_or_else(|| panic!("{file}: no line '#   schedlab run {file}'"))
}

/// Whether a comparison has a row whose verdict is a change: an example shows something.
fn changes(comparison: &serde_json::Value) -> bool {
    let rows = comparison["comparisons"].as_array().unwrap();
    rows.iter().any(|r| ["better", "worse", "changed"].contains(&r["verdict"].as_str().unwrap()))
}

/// The metrics that no cell has measured.
fn unmeasured(comparison: &serde_json::Value) -> Vec<String> {
    let cells = comparison["cells"].as_array().unwrap();
    let measured = |name: &str| cells.iter().any(|c| c["metrics"][name]["mean"].is_number());
    let metrics = comparison["metrics"].as_array().unwrap().iter().map(|m| m.as_str().unwrap());
    metrics.filter(|m| !measured(m)).map(str::to_owned).collect()
}

#[test]
fn every_example_runs_as_its_comment_says() {
    let lab = Lab(tempfile::tempdir().unwrap());
    let mut simulated = 0;
    let mut skipped = Vec::new();
    let mut names: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.ends_with(".toml"))
        .collect();
    names.sort();
    let list = std::fs::read_to_string(root().join("examples/README.md")).unwrap();
    for file in &names {
        assert!(list.contains(&format!("[{file}]({file})")), "{file} is not in the list of examples");
        let text = std::fs::read_to_string(root().join("examples").join(file)).unwrap();
        let comment = text.lines().take_while(|l| l.starts_with('#')).count();
        assert!(
            (3..=5).contains(&comment),
            "{file}: a comment of two to four lines and a command, not {comment}"
        );
        lab.write(file, &text);
        let command = command_of(&text, file);
        assert!(format!("{command} ").starts_with(&format!("run {file} ")), "{file}: {command}");
        let backend = command.split_once("--backend ").map(|(_, rest)| rest.split(' ').next().unwrap());
        match backend {
            None => {
                let json = lab.json(&format!("{command} --json -q"));
                assert_eq!(unmeasured(&json), [""; 0], "{file}");
                assert!(changes(&json), "{file} shows no change:\n{json:#}");
                simulated += 1;
            }
            // Planned with all its runs; made only where a live run may disturb nobody.
            Some("host") if std::env::var_os("SCHEDLAB_TEST_LIVE").is_none() => {
                lab.ok(&["pack", file, "--backend", "host", "-o", "live.parcel"]);
                skipped.push(format!("a quiet machine (SCHEDLAB_TEST_LIVE=1): {file}"));
            }
            Some("host") => drop(lab.json(&format!("{command} --json -q"))),
            // Its experiment is made in the simulator, which has the patch's feature.
            Some("vm") => {
                let json = lab.json(&["run", file, "--json", "-q"]);
                assert_eq!(unmeasured(&json), [""; 0], "{file}");
                skipped.push(format!("a kernel that is built, and a guest: {file}"));
            }
            Some(other) => panic!("{file}: backend {other}"),
        }
    }
    assert!(simulated >= 8 && names.len() >= 10, "{names:?}");
    for what in skipped {
        schedlab_base::testing::skipped(what);
    }
}

/// The command lines of a page: indented lines and code within lines that begin with `schedlab`, without what a shell
/// or another program takes of them.
fn commands_of(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for line in page.lines() {
        let whole =
            line.strip_prefix("    ").or(line.strip_prefix("$ ")).filter(|l| l.starts_with("schedlab "));
        let parts = line.split('`').skip(1).step_by(2).filter(|c| c.starts_with("schedlab "));
        let parts: Vec<&str> = whole.map_or_else(|| parts.collect(), |line| vec![line]);
        commands.extend(parts.iter().map(|c| without_shell(c)));
    }
    commands
}

fn without_shell(command: &str) -> String {
    let ends = ["  ", " #", " -- ", " | ", " > ", " < ", " && ", " \\"];
    let end = ends.iter().filter_map(|e| command.find(e)).min().unwrap_or(command.len());
    command[..end].to_owned()
}

/// Help of schedlab's commands, asked for once each; `None` for words that are not a command.
struct Helps {
    lab: Lab,
    known: BTreeMap<Vec<String>, Option<String>>,
}

impl Helps {
    fn of(&mut self, command: &[String]) -> Option<String> {
        let lab = &self.lab;
        let ask = || {
            let output = lab.command(&format!("{} --help", command.join(" "))).output().unwrap();
            output.status.success().then(|| crate::common::texts(&output).0)
        };
        self.known.entry(command.to_owned()).or_insert_with(ask).clone()
    }
    /// The help for a command line: of the workload for `bench`, `knee` and `limits`, of the subcommand where there are
    /// some.
    fn for_line(&mut self, words: &[String]) -> Option<String> {
        let help = self.of(&words[..1])?;
        let next = words.get(1).filter(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
        let deeper = next.filter(|w| !w.starts_with('-')).filter(|w| {
            let listed =
                help.lines().any(|l| l.strip_prefix("  ").is_some_and(|l| l.split(' ').next() == Some(w)));
            ["bench", "knee", "limits"].contains(&words[0].as_str()) || help.contains("\nCommands:") && listed
        });
        deeper.and_then(|_| self.of(&words[..2])).or(Some(help))
    }
}

/// Whether help lists an option.
fn lists(help: &str, option: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    help.match_indices(option)
        .any(|(at, _)| ends(&help[at + option.len()..]) && help[..at].ends_with([' ', '[', '\n', '\'']))
}

/// What of a page's command line schedlab does not have.
fn unknown_in(helps: &mut Helps, command: &str) -> Option<String> {
    let words = command.words().split_off(1);
    let first = words.first().filter(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '-'))?;
    if first.starts_with('-') {
        return None;
    }
    let Some(help) = helps.for_line(&words) else { return Some(format!("no command '{first}'")) };
    let options = words.iter().filter(|w| w.starts_with('-') && w.len() > 1 && !w.contains(' '));
    let names = options.map(|w| w.split('=').next().unwrap().trim_end_matches([',', '.', ')', ']']));
    let mut unknown = names.filter(|name| !lists(&help, name));
    unknown.next().map(|name| format!("no option {name}"))
}

#[test]
fn help_lists_the_commands_of_all_pages() {
    let mut helps = Helps { lab: Lab(tempfile::tempdir().unwrap()), known: BTreeMap::new() };
    let folders = ["", "docs", "docs/studies", "examples", "patches"];
    let pages = folders.iter().flat_map(|f| std::fs::read_dir(root().join(f)).unwrap());
    let pages = pages.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "md"));
    let (mut read, mut faults) = (0, Vec::new());
    for page in pages.filter(|p| !p.ends_with("CHANGELOG.md")) {
        for command in commands_of(&std::fs::read_to_string(&page).unwrap()) {
            read += 1;
            let unknown = unknown_in(&mut helps, &command);
            faults.extend(unknown.map(|what| format!("{}: {command}: {what}", page.display())));
        }
    }
    assert!(read > 200, "{read}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
