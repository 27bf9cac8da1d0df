//! The load that a search raises: a benchmark's load parameter, the copies of an rt-app file's tasks, or the
//! load of a tool.

use schedlab_base::{Error, Ns, Result};
use schedlab_compare::tools::{self, Template};
use schedlab_workload::{Benchmark, Spec, rtapp, spec};

/// Most copies of an rt-app file's tasks that are tried; its reader has a limit of its own.
const MOST_COPIES: u64 = 10_000;
/// The largest load of a tool that is tried unless another cap is given: more than any machine can hold.
const MOST_LOAD: u64 = 10_000;

/// A workload whose load can be raised.
#[derive(Clone)]
pub struct Raised {
    pub workload: String,
    /// A parameter's name, "copies" or "load".
    pub parameter: &'static str,
    /// The smallest and the largest that can be tried.
    pub range: (u64, u64),
    how: RaisedBy,
}

#[derive(Clone)]
enum RaisedBy {
    Parameter(&'static Benchmark, Spec),
    Copies { file: String, text: String, runtime: Option<Ns> },
    Tool(Box<Template>, u64),
}

impl Raised {
    /// A benchmark or an rt-app file.
    ///
    /// # Errors
    /// When it is a command: only a template's command takes a load.
    pub fn of(workload: &Spec) -> Result<Raised> {
        match workload {
            Spec::Bench { name, .. } => {
                let bench = spec::find(name)?;
                let range = bench.param(bench.load_param)?.range;
                let how = RaisedBy::Parameter(bench, workload.clone());
                Ok(Raised { workload: name.clone(), parameter: bench.load_param, range, how })
            }
            Spec::RtApp { file, text, runtime } => Ok(Raised {
                workload: workload.name().to_owned(),
                parameter: "copies",
                range: (1, MOST_COPIES),
                how: RaisedBy::Copies { file: file.clone(), text: text.clone(), runtime: *runtime },
            }),
            Spec::Replay { .. } => {
                let text =
                    format!("{}: a recorded schedule has no load that could be raised", workload.name());
                Err(Error::input(text))
            }
            Spec::Together { .. } => {
                let text = format!("{}: its load is not raised beside others or in groups", workload.name());
                Err(Error::input(text))
            }
            Spec::Command(command) => {
                let text = format!("{}: a command's load is not raised by itself", command.name);
                Err(Error::input(text).help("sweep it: [[load]] load = { sweep = [1, 2, 4] }"))
            }
        }
    }
    /// A tool's load, on a machine with `cpus` CPUs.
    ///
    /// # Errors
    /// When the tool takes no load.
    pub fn tool(template: Template, cpus: u64) -> Result<Raised> {
        let workload = template.spec.name.clone();
        if !template.takes_load() {
            let with: Vec<&str> =
                tools::TOOLS.iter().filter(|t| !t.load.is_empty()).map(|t| t.name).collect();
            return Err(Error::input(format!("{workload} takes no load that could be raised"))
                .help(format!("these do: {}", with.join(", "))));
        }
        Ok(Raised {
            workload,
            parameter: "load",
            range: (1, MOST_LOAD),
            how: RaisedBy::Tool(Box::new(template), cpus),
        })
    }
    /// The workload with that load.
    ///
    /// # Errors
    /// When the workload can't have that load.
    pub fn with(&self, load: u64) -> Result<Spec> {
        match &self.how {
            RaisedBy::Parameter(bench, workload) => {
                let Spec::Bench { name, params } = workload else {
                    return Err(Error::internal("the raised workload is not a benchmark"));
                };
                let mut params = params.clone();
                params.0.insert(bench.load_param.to_owned(), load);
                Spec::bench(name, &params)
            }
            RaisedBy::Copies { file, text, runtime } => {
                let text = rtapp::copies(file, text, load)?;
                let spec = Spec::RtApp { file: file.clone(), text, runtime: *runtime };
                spec.build(0).map_err(|e| e.context(format!("{load} copies"))).map(|_| spec)
            }
            RaisedBy::Tool(template, cpus) => {
                Ok(Spec::Command(Box::new(template.resolve(Some(&load.to_string()), *cpus)?)))
            }
        }
    }
    /// The default limit.
    ///
    /// # Errors
    /// When it is a tool, whose figures have no usual limit.
    pub fn usual_limit(&self) -> Result<&'static str> {
        match &self.how {
            RaisedBy::Parameter(bench, _) => Ok(schedlab_compare::knees::Limit::usual(bench)),
            RaisedBy::Copies { .. } => Ok("p99 < 2ms"),
            RaisedBy::Tool(template, _) => {
                let figures = tools::headline(&template.spec).join(", ");
                Err(Error::input(format!("no limit is given for {}", self.workload))
                    .help(format!("--limit \"METRIC < VALUE\", of {figures} or another metric")))
            }
        }
    }
    /// A limit with the full name of its metric. A bare statistic is of the workload's own first series.
    ///
    /// # Errors
    /// When the metric does not exist.
    pub fn named(&self, limit: &schedlab_compare::knees::Limit) -> Result<schedlab_compare::knees::Limit> {
        match &self.how {
            RaisedBy::Parameter(bench, _) => limit.for_workload(bench),
            RaisedBy::Copies { .. } => self.of_rtapp(limit),
            RaisedBy::Tool(template, _) => {
                let figures = tools::declared(&template.spec)?;
                let series = tools::declared_series(&template.spec)?;
                schedlab_compare::metrics::check(&limit.metric, &series, &figures).map(|()| limit.clone())
            }
        }
    }
    /// The first series of an rt-app file with timers is the lateness of their wakeups.
    fn of_rtapp(&self, limit: &schedlab_compare::knees::Limit) -> Result<schedlab_compare::knees::Limit> {
        let built = self.with(1)?.build(1)?;
        let own: Vec<schedlab_compare::metrics::Declared> = built
            .series
            .iter()
            .map(|s| Ok((s.name.clone(), s.unit.clone(), schedlab_record::Better::parse(&s.better)?)))
            .collect::<Result<_>>()?;
        let first = own.iter().find(|s| s.0 == FIRST_OF_RTAPP).or(own.first());
        let metric = match first {
            Some((series, ..)) if limit.is_bare() => format!("{series}.{}", limit.metric),
            _ => limit.metric.clone(),
        };
        schedlab_compare::metrics::check(&metric, &own, &[])?;
        Ok(schedlab_compare::knees::Limit { metric, ..limit.clone() })
    }
}

/// How late a thread ran after its timer: the series that judges an rt-app file.
pub(in crate::search) const FIRST_OF_RTAPP: &str = "rtapp.wakeup_latency";

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::knees::Limit;
    use schedlab_workload::Params;

    #[test]
    fn each_kind_of_workload_is_raised_in_its_own_way() {
        let schbench = Raised::of(&Spec::bench("schbench", &Params::default()).unwrap()).unwrap();
        let Spec::Bench { params, .. } = schbench.with(7).unwrap() else { panic!() };
        assert_eq!((schbench.parameter, params.0["threads"]), ("threads", 7));

        let text = r#"{"global": {"duration": 1}, "tasks": {"t": {"run": 1000, "timer": {"ref": "u", "period": 5000}}}}"#;
        let rtapp =
            Raised::of(&Spec::RtApp { file: "t.json".into(), text: text.into(), runtime: None }).unwrap();
        assert_eq!(rtapp.with(5).unwrap().build(1).unwrap().tasks.len(), 5);
        let named = |limit: &str| rtapp.named(&Limit::parse(limit).unwrap()).map(|l| l.metric);
        assert_eq!(named("p99 < 2ms").unwrap(), "rtapp.wakeup_latency.p99");
        assert_eq!(named("rtapp.slack.p50 > 1ms").unwrap(), "rtapp.slack.p50");
        assert!(named("rtapp.slak.p50 > 1ms").is_err());

        let tool = |name: &str| Raised::tool(Template::tool(tools::find(name).unwrap(), Vec::new()), 2);
        let hackbench = tool("hackbench").unwrap();
        let Spec::Command(command) = hackbench.with(3).unwrap() else { panic!() };
        assert!(command.argv.ends_with(&["-g".to_owned(), "3".to_owned()]), "{:?}", command.argv);
        assert!(hackbench.usual_limit().unwrap_err().to_string().contains("hackbench.time"));
        assert!(hackbench.named(&Limit::parse("hackbench.tiem < 1s").unwrap()).is_err());
        assert!(
            tool("perf-pipe").err().unwrap().to_string().contains("hackbench"),
            "those that do are named"
        );
    }
}
