//! What a CPU limit does: one workload under the limit as it is, without it, with half of it, with a burst and with a
//! weight in its place, beside neighbours that want the CPUs.
//!
//! The result is an ordinary experiment: the service's tasks are in the group [`SERVICE`] and the neighbours in
//! [`NEIGHBOURS`], each variant has a `[[variant.group]]` of its own, and each kernel is a load with a baseline of its
//! own.

use super::knee::FIRST_OF_RTAPP;
use crate::ask::experiment::Experiment;
use crate::ask::experiment::template::Template;
use crate::ask::experiment::write::quoted;
use crate::search::limits_recorded;
pub use crate::search::limits_recorded::{other_groups, recorded_groups};
use schedlab_base::{Error, Ns, Result, Version};
use schedlab_kernel::cpu_limit::{Formula, Request, cpus_in_words};
use schedlab_kernel::policy::{EVERY_TASK, group_of};
use schedlab_kernel::{GroupSpec, Limit, Variant};
use schedlab_workload::{Params, Spec, spec};
use std::fmt::Write;

/// The group of the tasks whose limit is in question.
pub const SERVICE: &str = "/service";
/// The group beside it.
pub const NEIGHBOURS: &str = "/neighbours";
/// The name of the neighbours' tasks.
pub const NEIGHBOUR: &str = "neighbour";
/// The machine of a question that names none: four CPUs with one cache.
pub const DEFAULT_MACHINE: &str = "smp-4";
/// The variant with the limit as it is.
const AS_IS: &str = "as-is";

/// A limit to try, and what the service asks for under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The variant's name.
    pub name: String,
    pub limit: Limit,
    /// Instead of the service's own request.
    pub request: Option<Request>,
}

/// The neighbours: a benchmark with its parameters.
#[derive(Clone, Debug)]
pub struct Neighbours {
    pub name: String,
    pub params: Vec<(String, String)>,
    pub request: Request,
}

/// The parts of the question.
#[derive(Clone, Debug)]
pub struct LimitsRequest<'a> {
    /// The loads: a name and a workload each; loads without a name are one.
    pub workloads: &'a [(Option<String>, Spec)],
    /// The group of the service: [`SERVICE`], or a recorded one.
    pub group: &'a str,
    pub limit: Limit,
    pub request: Request,
    pub formula: &'static Formula,
    /// The further limits.
    pub tried: &'a [Tried],
    pub neighbours: Option<&'a Neighbours>,
    /// Other groups, whose limits stay as they are under every variant.
    pub fixed: &'a [GroupSpec],
    /// How often the recorded group was busy, if the workload is a recording of which that is known.
    pub periods: Option<u64>,
    /// Kernels, each a block of its own.
    pub kernels: &'a [Variant],
    /// Machines by name or file, from the current folder; empty: [`DEFAULT_MACHINE`].
    pub machines: &'a [String],
    /// CPUs of this host, for its own loads.
    pub host_cpus: u64,
}

/// The limits that are compared with the one as it is, by default: none, half of it, the same with a burst of one
/// quota, and none with a request of its size in its place.
pub fn usual(limit: &Limit, request: Request) -> Vec<Tried> {
    let Some(quota) = limit.quota else { return Vec::new() };
    let none = Tried { name: "none".to_owned(), limit: Limit::default(), request: None };
    let named = |word: &str, limit: Limit| Tried {
        name: format!("{word} {}", cpus_in_words(&limit)),
        limit,
        request: None,
    };
    let mut all = vec![none];
    let half = Limit { quota: Some(Ns(quota.0 / 2)), burst: Ns(limit.burst.0 / 2), ..*limit };
    if quota >= Ns::ms(2) {
        all.push(named("half", half));
    }
    if limit.burst == Ns::ZERO {
        all.push(named("burst", Limit { burst: quota, ..*limit }));
    }
    let whole = Request::of_cpus(quota, limit.period);
    if whole != request {
        let name = format!("request {}", cpus_in_words(&Limit { burst: Ns::ZERO, ..*limit }));
        all.push(Tried { name, limit: Limit::default(), request: Some(whole) });
    }
    all
}

/// The question as an experiment.
///
/// # Errors
/// When there is nothing to compare the limit with, two limits are the same, or a machine or a name is unknown.
pub fn experiment(wanted: &LimitsRequest<'_>) -> Result<Experiment> {
    let variants = variants(wanted)?;
    let loads = text(wanted, &variants)?;
    let default = [DEFAULT_MACHINE.to_owned()];
    let name = wanted.workloads.first().map_or("", |(_, spec)| spec.name());
    let template = Template {
        loads: &loads,
        runs: None,
        name: &format!("limits-{}", name.trim_end_matches(".json").trim_end_matches(".sched")),
        about: "what a CPU limit does to a service and its neighbours",
        machines: if wanted.machines.is_empty() { &default } else { wanted.machines },
        variants: &variants.iter().flatten().collect::<Vec<_>>(),
    };
    template.experiment(wanted.host_cpus)
}

/// The group of the service limited as it is, under a kernel.
pub fn as_it_is(wanted: &LimitsRequest<'_>, kernel: &Variant) -> Variant {
    let as_is = Tried { name: AS_IS.to_owned(), limit: wanted.limit, request: None };
    let groups = [variant(wanted, kernel, &as_is).groups, wanted.fixed.to_vec()].concat();
    Variant { groups, ..kernel.clone() }
}

/// The variants of each kernel, the limit as it is first.
///
/// # Errors
/// When there is nothing to compare the limit with, or two limits are the same.
pub fn variants(wanted: &LimitsRequest<'_>) -> Result<Vec<Vec<Variant>>> {
    let as_is = Tried {
        name: format!("{AS_IS} {}", cpus_in_words(&wanted.limit)),
        limit: wanted.limit,
        request: None,
    };
    if wanted.tried.is_empty() {
        return Err(Error::input("there is no limit to compare with: the service has none")
            .help("--limit states the one it has, --try others"));
    }
    let all: Vec<&Tried> = std::iter::once(&as_is).chain(wanted.tried).collect();
    let same = |a: &Tried, b: &Tried| (a.limit, a.request) == (b.limit, b.request);
    for (n, one) in all.iter().enumerate() {
        if let Some(other) = all[..n].iter().find(|other| same(other, one)) {
            return Err(Error::input(format!("'{}' and '{}' are the same limit", other.name, one.name))
                .help("leave out one --try"));
        }
    }
    let fits = |kernel: &Variant, tried: &Tried| tried.limit.burst == Ns::ZERO || has_bursts(&kernel.kernel);
    let of_kernel = |kernel: &Variant| {
        let fitting = all.iter().filter(|tried| fits(kernel, tried));
        fitting.map(|tried| variant(wanted, kernel, tried)).collect()
    };
    Ok(wanted.kernels.iter().map(of_kernel).collect())
}

/// Whether a kernel has `cpu.max.burst` (5.14), as far as its name says.
fn has_bursts(kernel: &str) -> bool {
    Version::parse(kernel).map_or(true, |version| version >= Version::new(5, 14))
}

fn variant(wanted: &LimitsRequest<'_>, kernel: &Variant, tried: &Tried) -> Variant {
    let Limit { quota, period, burst } = tried.limit;
    let shares = tried.request.unwrap_or(wanted.request).shares(wanted.formula);
    let group = GroupSpec { shares, quota, period, burst, ..GroupSpec::at(wanted.group) };
    let name = match wanted.kernels.len() {
        0 | 1 => tried.name.clone(),
        _ => format!("{} {}", kernel.name, tried.name),
    };
    Variant { name, groups: vec![group], ..kernel.clone() }
}

/// The workload, its neighbours, the groups and the loads.
fn text(wanted: &LimitsRequest<'_>, variants: &[Vec<Variant>]) -> Result<String> {
    let Some((_, first)) = wanted.workloads.first() else { return Err(Error::internal("no workload")) };
    let (service, metrics) = (service(first)?, metrics(first, wanted)?);
    let mut out = format!("metrics = {}\n\n[workload]\n", list(&metrics));
    if let [(None, spec)] = wanted.workloads {
        out += &workload(spec, true)?;
    } else {
        out += &workload(first, false)?;
    }
    if let Some(neighbours) = wanted.neighbours {
        let _ = write!(
            out,
            "\n[[beside]]\nname = {}\ncalled = {}\n",
            quoted(&neighbours.name),
            quoted(NEIGHBOUR)
        );
        neighbours.params.iter().for_each(|(name, value)| {
            let is_number = value.bytes().all(|b| b.is_ascii_digit());
            let _ = writeln!(out, "{name} = {}", if is_number { value.clone() } else { quoted(value) });
        });
        let shares = neighbours.request.shares(wanted.formula);
        let names = list(&[NEIGHBOUR.to_owned()]);
        let _ =
            write!(out, "\n[[group]]\npath = {}\nshares = {shares}\ntasks = {names}\n", quoted(NEIGHBOURS));
    }
    if !service.is_empty() {
        let _ = write!(out, "\n[[group]]\npath = {}\ntasks = {}\n", quoted(wanted.group), list(&service));
    }
    wanted.fixed.iter().for_each(|group| out += &fixed(group));
    out += &loads(wanted, variants)?;
    Ok(out)
}

/// A group whose limit stays.
fn fixed(group: &GroupSpec) -> String {
    let GroupSpec { path, shares, quota, period, burst, .. } = group;
    let limit = quota.map_or_else(String::new, |quota| {
        format!("quota = \"{}ns\"\nperiod = \"{}ns\"\nburst = \"{}ns\"\n", quota.0, period.0, burst.0)
    });
    format!("\n[[group]]\npath = {}\nshares = {shares}\n{limit}", quoted(path))
}

/// A `[[load]]` for each workload and kernel, if there are several of either.
fn loads(wanted: &LimitsRequest<'_>, variants: &[Vec<Variant>]) -> Result<String> {
    let mut out = String::new();
    if let ([(None, _)], [_]) = (wanted.workloads, variants) {
        return Ok(out);
    }
    for (name, spec) in wanted.workloads {
        for (kernel, own) in wanted.kernels.iter().zip(variants) {
            let kernel = (variants.len() > 1).then_some(kernel.name.as_str());
            let words: Vec<&str> = name.as_deref().into_iter().chain(kernel).collect();
            let names: Vec<String> = own.iter().map(|v| v.name.clone()).collect();
            let _ = write!(out, "\n[[load]]\nname = {}\n", quoted(&words.join(" ")));
            if variants.len() > 1 {
                let baseline = names.first().map_or("", String::as_str);
                let _ = write!(out, "variants = {}\nbaseline = {}\n", list(&names), quoted(baseline));
            }
            if name.is_some() {
                out += &params(spec)?;
            }
        }
    }
    Ok(out)
}

/// The lines of `[workload]`; parameters too, unless loads have them.
fn workload(spec: &Spec, whole: bool) -> Result<String> {
    match spec {
        Spec::Bench { name, .. } => {
            Ok(format!("name = {}\n{}", quoted(name), if whole { params(spec)? } else { String::new() }))
        }
        Spec::RtApp { text, runtime, .. } => {
            let runtime = runtime.map_or_else(String::new, |ns| format!("runtime = \"{}ns\"\n", ns.0));
            Ok(format!("name = {}\nrtapp_text = {}\n{runtime}", quoted(spec.name()), quoted(text)))
        }
        Spec::Replay { file, .. } => Ok(format!("schedule = {}\n", quoted(file))),
        _ => Err(Error::input(format!("the tasks of {} can't be put into groups one by one", spec.name()))
            .help("name a benchmark or an rt-app file")),
    }
}

/// The parameters of a benchmark as an experiment writes them.
fn params(spec: &Spec) -> Result<String> {
    let Spec::Bench { name, params: Params(params) } = spec else { return Ok(String::new()) };
    let bench = spec::find(name)?;
    let line = |(name, value): (&String, &u64)| {
        let text = bench.param(name)?.kind.show_exactly(*value);
        Ok(format!("{name} = {text}\n"))
    };
    params.iter().map(line).collect()
}

/// The names of the service's tasks: all but those on the client side; all, if no side is a client's. Those of a
/// recorded schedule are in their groups already.
fn service(spec: &Spec) -> Result<Vec<String>> {
    if matches!(spec, Spec::Replay { .. }) {
        return Ok(Vec::new());
    }
    let clients = spec.clients()?;
    if clients.is_empty() {
        return Ok(vec![EVERY_TASK.to_owned()]);
    }
    let mut names: Vec<String> = Vec::new();
    for task in spec.build(0)?.tasks {
        let name = group_of(&task.name).to_owned();
        if !clients.contains(&name.as_str()) && !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The workload's p50 and p99, how its group was throttled, what it used, and what the neighbours got.
fn metrics(spec: &Spec, wanted: &LimitsRequest<'_>) -> Result<Vec<String>> {
    let latency = match spec {
        Spec::Bench { name, .. } => spec::find(name)?.headline.iter().find_map(|m| m.strip_suffix(".p99")),
        Spec::RtApp { .. } => Some(FIRST_OF_RTAPP),
        _ => None,
    };
    let mut all: Vec<String> = match spec {
        Spec::Replay { .. } => limits_recorded::metrics(wanted.group, wanted.periods),
        _ => {
            let latency = latency.unwrap_or("run_delay");
            ["p50", "p99"].map(|stat| format!("{latency}.{stat}")).into()
        }
    };
    if let Spec::Bench { name, .. } = spec {
        let others = spec::find(name)?
            .headline
            .iter()
            .filter(|m| latency.is_none_or(|own| !m.starts_with(own)) && !m.ends_with(".rate"));
        all.extend(others.map(|m| (*m).to_owned()));
    }
    all.extend(["nr_throttled", "nr_periods"].map(|count| format!("group.{}.{count}", wanted.group)));
    // The work of a replay is fixed and its length is not: CPUs would tell nothing.
    let by_time = !matches!(spec, Spec::Replay { .. });
    all.extend(by_time.then(|| format!("group.{}.cpus", wanted.group)));
    all.extend(limits_recorded::other_groups(spec, wanted.group)?);
    if let Some(neighbours) = wanted.neighbours {
        let bench = spec::find(&neighbours.name)?;
        all.extend(bench.own.first().map(|metric| (*metric).to_owned()));
        all.extend(by_time.then(|| format!("group.{NEIGHBOURS}.cpus")));
    }
    Ok(all)
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    format!("[{}]", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::experiment::parse;
    use schedlab_kernel::cpu_limit::{FORMULAS, limit, request};
    use std::path::Path;

    fn asked<'a>(
        workloads: &'a [(Option<String>, Spec)],
        tried: &'a [Tried],
        kernels: &'a [Variant],
    ) -> LimitsRequest<'a> {
        LimitsRequest {
            workloads,
            group: SERVICE,
            limit: limit("2").unwrap(),
            request: request("1").unwrap(),
            formula: &FORMULAS[0],
            tried,
            neighbours: None,
            fixed: &[],
            periods: None,
            kernels,
            machines: &[],
            host_cpus: 2,
        }
    }

    #[test]
    fn the_text_is_the_whole_experiment_with_a_load_and_a_baseline_for_each_kernel() {
        let http = [(None, Spec::bench("http", &Params::default()).unwrap())];
        let kernels = [Variant::plain("v4.14"), Variant::plain("v6.12")];
        let tried = usual(&limit("2").unwrap(), request("1").unwrap());
        let made = experiment(&asked(&http, &tried, &kernels)).unwrap();
        let names: Vec<&str> = made.variants.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names[..4], ["v4.14 as-is 2", "v4.14 none", "v4.14 half 1", "v4.14 request 2"]);
        assert_eq!(names[4..].len(), 5, "and a burst: {names:?}");
        let baselines: Vec<_> = made.loads.iter().map(|l| l.baseline.as_deref()).collect();
        assert_eq!(baselines, [Some("v4.14 as-is 2"), Some("v6.12 as-is 2")]);
        let again = parse(Path::new("limits-http.toml"), &made.text, 2).unwrap();
        assert_eq!(format!("{again:?}"), format!("{made:?}"));
    }

    #[test]
    fn a_limit_is_tried_once_and_against_another() {
        let http = [(None, Spec::bench("http", &Params::default()).unwrap())];
        let kernels = [Variant::plain("v6.12")];
        let refused = |tried: &[Tried]| experiment(&asked(&http, tried, &kernels)).unwrap_err().to_string();
        assert!(refused(&[]).contains("nothing to compare") || refused(&[]).contains("no limit to compare"));
        let same = Tried { name: "2".into(), limit: limit("200000 100000").unwrap(), request: None };
        assert!(refused(&[same]).contains("'as-is 2' and '2' are the same limit"));
    }

    #[test]
    fn what_asks_as_much_as_its_limit_has_no_row_for_that() {
        let names = |limit_text: &str, asks: &str| -> Vec<String> {
            usual(&limit(limit_text).unwrap(), request(asks).unwrap()).into_iter().map(|t| t.name).collect()
        };
        assert_eq!(names("2", "2"), ["none", "half 1", "burst 2+2"]);
        assert_eq!(names("2+1", "500m"), ["none", "half 1+0.5", "request 2"]);
        assert!(names("none", "1").is_empty());
    }
}
