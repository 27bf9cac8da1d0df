//! Commands as workloads on the command line: `bench --command`, `bench --tool`, and the list of known tools.

use crate::output;
use clap::Args;
use schedlab_base::{Error, Ns, Result};
use schedlab_compare::tools::{self, TOOLS, Template, Tool, metric_option, one_word_or_line, startable};
use schedlab_report::text::wrap;
use schedlab_workload::command::{MAX_TIMEOUT, Place};
use schedlab_workload::{CommandSpec, Spec};

/// Options of `bench` that no benchmark has.
#[derive(Args)]
pub struct External {
    /// Any command as the workload: one line, split into words as a shell would
    #[arg(long, value_name = "LINE", conflicts_with_all = ["tool", "args"])]
    command: Option<String>,
    /// A known tool as the workload (--tools lists them)
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Further arguments of the tool: one line
    #[arg(long, value_name = "LINE", requires = "tool", allow_hyphen_values = true)]
    args: Option<String>,
    /// Value of {load} in the command; for a tool its groups, threads or clients
    #[arg(long, value_name = "N")]
    load: Option<String>,
    #[command(flatten)]
    figures: Figures,
    /// List the known tools and the packages that have them
    #[arg(long)]
    pub tools: bool,
}

/// What is taken from a command's output, and when it is ended.
#[derive(Args)]
pub struct Figures {
    /// A figure in the command's output: NAME[UNIT,lower|higher,first|last|all,stderr]=REGEX with one group
    #[arg(long, value_name = "METRIC")]
    metric_regex: Vec<String>,
    /// The same with a JSON pointer: NAME[UNIT,...]=/a/b
    #[arg(long, value_name = "METRIC")]
    metric_json: Vec<String>,
    /// The command is ended after this time [default: 10m]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

impl Figures {
    /// Adds them to a command.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn describe(&self, spec: &mut CommandSpec) -> Result<()> {
        let name = spec.name.clone();
        for text in &self.metric_regex {
            spec.metrics.push(metric_option(&name, text, Place::Regex)?);
        }
        for text in &self.metric_json {
            spec.metrics.push(metric_option(&name, text, Place::JsonPointer)?);
        }
        if let Some(text) = &self.timeout {
            let timeout = Ns::parse(text, "s").map_err(|e| e.context("--timeout"))?;
            if timeout.0 == 0 || timeout > MAX_TIMEOUT {
                return Err(Error::input(format!("--timeout {text}: more than 0 and at most a week")));
            }
            spec.timeout = timeout;
        }
        Ok(())
    }
    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--metric-regex", !self.metric_regex.is_empty()),
            ("--metric-json", !self.metric_json.is_empty()),
            ("--timeout", self.timeout.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }
}

/// A command as a workload, as the command line describes it.
pub struct CommandWorkload {
    pub spec: Spec,
    /// Its load's name in records.
    pub load: Option<String>,
}

impl External {
    /// The command, when one is asked for.
    ///
    /// # Errors
    /// When it can't be read, and for options of commands without a command.
    pub fn wanted(&self, cpus: u64) -> Result<Option<CommandWorkload>> {
        let mut template = match (&self.command, &self.tool) {
            (Some(line), _) => Template::run(one_word_or_line(line)?),
            (None, Some(name)) => {
                let args = self.args.as_deref().filter(|a| !a.trim().is_empty()).map(one_word_or_line);
                Template::tool(startable(name)?, args.transpose()?.unwrap_or_default())
            }
            (None, None) => return self.nothing_said().map(|()| None),
        };
        self.figures.describe(&mut template.spec)?;
        let spec = Spec::Command(Box::new(template.resolve(self.load.as_deref(), cpus)?));
        Ok(Some(CommandWorkload { spec, load: self.load.as_ref().map(|l| format!("load={l}")) }))
    }

    fn nothing_said(&self) -> Result<()> {
        match self.load.as_ref().map(|_| "--load").or(self.figures.given()) {
            Some(option) => Err(Error::input(format!("{option} is for --command and --tool"))),
            None => Ok(()),
        }
    }
}

#[derive(serde::Serialize)]
struct Tools {
    tools: Vec<ToolRow>,
}

#[derive(serde::Serialize)]
struct ToolRow {
    name: &'static str,
    about: &'static str,
    program: &'static str,
    package: Option<&'static str>,
    load: Option<&'static str>,
    installed: bool,
    figures: Vec<Figure>,
}

#[derive(serde::Serialize)]
struct Figure {
    name: String,
    unit: &'static str,
    better: &'static str,
    about: &'static str,
}

impl ToolRow {
    fn of(tool: &'static Tool) -> ToolRow {
        let some = |text: &'static str| Some(text).filter(|t| !t.is_empty());
        let figures = tool.figures.iter().map(|r| Figure {
            name: format!("{}.{}", tool.name, r.0),
            unit: r.1,
            better: r.2.name(),
            about: r.3,
        });
        ToolRow {
            name: tool.name,
            about: tool.about,
            program: tool.program,
            package: some(tool.package),
            load: some(tool.load_about),
            installed: installed(tool),
            figures: figures.collect(),
        }
    }
    /// Where the tool is.
    fn place(&self) -> String {
        match (self.installed, self.package) {
            _ if self.program.is_empty() => "saved files only".to_owned(),
            (true, _) => "installed".to_owned(),
            (false, Some(package)) => format!("in package {package}"),
            (false, None) => "not installed".to_owned(),
        }
    }
}

/// Prints the known tools.
pub fn list(json: bool) -> Result<()> {
    let tools: Vec<ToolRow> = TOOLS.iter().copied().map(ToolRow::of).collect();
    if json {
        return output::json_as("schedlab/tools/1", &Tools { tools });
    }
    output::result(|out| {
        for t in &tools {
            writeln!(out, "{:<16} {}", t.name, t.place())?;
            write!(out, "{}", wrap("    ", t.about))?;
            if let Some(load) = t.load {
                write!(out, "{}", wrap("    load: ", load))?;
            }
        }
        Ok(())
    })
}

fn installed(tool: &'static Tool) -> bool {
    let spec = Template::tool(tool, Vec::new()).resolve(None, 1);
    !tool.program.is_empty() && spec.is_ok_and(|spec| tools::check_installed(&spec).is_ok())
}
