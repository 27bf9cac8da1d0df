//! A command with placeholders: `{load}`, `{cpus}`, `{cpus*2}`. Filled in, it is a [`CommandSpec`].
//!
//! Other braces are the command's own and stay as they are.

use super::tool::Tool;

use schedlab_base::{Error, Result};
use schedlab_workload::CommandSpec;
use schedlab_workload::command::{one_line, split};
use schedlab_workload::expression::expand;

const LOAD: &str = "{load}";

/// A command whose load is not filled in.
#[derive(Clone)]
pub struct Template {
    /// The command. Words of `argv` are as written by the user: a command, or arguments for the tool.
    pub spec: CommandSpec,
    tool: Option<&'static Tool>,
}

/// The words of a command given as one line.
///
/// # Errors
/// When its quotes are wrong, or it has no words.
pub fn one_word_or_line(line: &str) -> Result<Vec<String>> {
    let words = split(line).map_err(|why| Error::input(format!("'{line}' is not a command: {why}")))?;
    match words.first() {
        Some(first) if !first.is_empty() => Ok(words),
        _ => Err(Error::input("the command is empty")),
    }
}

impl Template {
    /// Any command. Its default name is the program's.
    pub fn run(words: Vec<String>) -> Template {
        let program = words.first().map_or("", String::as_str);
        let name = program.rsplit('/').next().unwrap_or(program).replace(char::is_whitespace, "_");
        Template { spec: CommandSpec::new(&name, words), tool: None }
    }
    /// A known tool with further arguments.
    pub fn tool(tool: &'static Tool, arguments: Vec<String>) -> Template {
        let mut spec = CommandSpec::new(tool.name, arguments);
        spec.tool = Some(tool.name.to_owned());
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        spec.server = words(tool.server);
        if let Some(stage) = &tool.stage {
            spec.setup = words(stage.setup);
            let files = stage.files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            spec.stage = Some(files.collect());
        }
        Template { spec, tool: Some(tool) }
    }
    /// Whether the command depends on a load.
    pub fn takes_load(&self) -> bool {
        self.mentions_load() || self.tool.is_some_and(|t| !t.load.is_empty())
    }
    fn mentions_load(&self) -> bool {
        let s = &self.spec;
        let words = [&s.argv, &s.setup, &s.server, &s.cleanup].into_iter().flatten();
        words.chain(s.env.values()).any(|w| w.contains(LOAD))
    }
    /// The command under a load, on a machine with `cpus` CPUs.
    ///
    /// # Errors
    /// When a load is needed and not given, given and not used, or a tool's load is not a number.
    pub fn resolve(&self, load: Option<&str>, cpus: u64) -> Result<CommandSpec> {
        let (mut spec, name) = (self.spec.clone(), &self.spec.name);
        if load.is_some() && !self.takes_load() {
            return Err(
                Error::input(format!("{name} takes no load")).help("{load} in the command is where it goes")
            );
        }
        let load = load
            .map(str::to_owned)
            .or_else(|| self.tool.map(|t| t.default_load.to_owned()).filter(|l| !l.is_empty()));
        if let (Some(tool), Some(load)) = (self.tool, &load)
            && !self.mentions_load()
        {
            check_number(tool, load)?;
        }
        spec.argv = self.line(load.is_some());
        if load.is_none() && self.mentions_load() {
            return Err(Error::input(format!("{name} has {LOAD}, and no load is given"))
                .help("[[load]] with load = 4, or --load 4"));
        }
        let load = load.unwrap_or_default();
        let fill = |word: &mut String| *word = fill(word, &load, cpus);
        [&mut spec.argv, &mut spec.setup, &mut spec.server, &mut spec.cleanup]
            .into_iter()
            .flatten()
            .for_each(fill);
        spec.env.values_mut().for_each(fill);
        spec.params.insert("run".to_owned(), one_line(&spec.argv));
        Ok(spec)
    }

    /// The whole line; a tool's own words are put around the user's arguments.
    fn line(&self, loaded: bool) -> Vec<String> {
        let own = self.spec.argv.clone();
        let Some(tool) = self.tool else { return own };
        let words = |w: &'static [&'static str]| w.iter().map(|w| (*w).to_owned());
        let mut line = vec![tool.program.to_owned()];
        line.extend(words(tool.before));
        line.extend(own);
        if loaded && !self.mentions_load() {
            line.extend(words(tool.load));
        }
        line.extend(words(tool.after));
        line
    }
}

fn check_number(tool: &Tool, load: &str) -> Result<()> {
    match load.parse::<u64>() {
        Ok(1..) => Ok(()),
        _ => Err(Error::input(format!(
            "the load of {} is a number of {}, not '{load}'",
            tool.name, tool.load_about
        ))),
    }
}

fn fill(word: &str, load: &str, cpus: u64) -> String {
    let (mut out, mut rest) = (String::new(), word);
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else { break };
        let place = &rest[open..=open + close];
        out.push_str(&rest[..open]);
        match place {
            LOAD => out.push_str(load),
            place => out.push_str(&expand(place, cpus).unwrap_or_else(|_| place.to_owned())),
        }
        rest = &rest[open + close + 1..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::find;

    fn words(line: &str) -> Vec<String> {
        one_word_or_line(line).unwrap()
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_kept() {
        let t = Template::run(words("x -g {load} -t {cpus*2} 'awk {print $1}' {load}{load} {"));
        assert!(t.takes_load());
        assert_eq!(t.resolve(Some("3"), 4).unwrap().params["run"], "x -g 3 -t 8 'awk {print $1}' 33 {");
        let e = t.resolve(None, 4).unwrap_err().to_string();
        assert!(e.contains("no load is given") && e.contains("--load 4"), "{e}");
        let e = Template::run(words("/bin/true")).resolve(Some("3"), 4).unwrap_err().to_string();
        assert!(e.starts_with("true takes no load"), "{e}");
    }

    #[test]
    fn a_tools_words_are_put_around_the_users() {
        let line = |name: &str, args: &str, load: Option<&str>| {
            let args = if args.is_empty() { Vec::new() } else { words(args) };
            let t = Template::tool(find(name).unwrap(), args);
            t.resolve(load, 2).map(|s| one_line(&s.argv))
        };
        assert_eq!(line("hackbench", "-l 10", Some("2")).unwrap(), "hackbench -l 10 -g 2");
        assert_eq!(line("hackbench", "", None).unwrap(), "hackbench");
        assert_eq!(
            line("sysbench-cpu", "--time=1", Some("2")).unwrap(),
            "sysbench cpu --time=1 --threads=2 run"
        );
        assert_eq!(line("tbench", "-t 1", None).unwrap(), "tbench -t 10 -t 1 1 127.0.0.1");
        let own = line("stress-ng", "--nanosleep {load}", Some("4")).unwrap();
        assert_eq!(own, "stress-ng --metrics-brief -t 10 --nanosleep 4");
        assert!(line("hackbench", "", Some("many")).unwrap_err().to_string().contains("number of groups"));
        assert!(line("perf-pipe", "", Some("4")).unwrap_err().to_string().contains("takes no load"));
    }
}
