//! Writes variants as text of an experiment: [`super::parse`] reads the same variants from it.

use schedlab_base::{CpuSet, Ns};
use schedlab_kernel::policy::EVERY_TASK;
use schedlab_kernel::{AttrChange, Change, GroupChange, GroupSpec, Limit, TaskChange, Variant, tunable};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A `[[variant]]`, with its changes in the middle of a run.
pub fn variant(v: &Variant) -> String {
    let mut out = format!("[[variant]]\nname = {}\nkernel = {}\n", quoted(&v.name), quoted(&v.kernel));
    if !v.patch.is_empty() {
        let names: Vec<String> = v.patch.iter().map(|p| quoted(p)).collect();
        let _ = writeln!(out, "patch = [{}]", names.join(", "));
    }
    if !v.level.is_free() {
        let _ = writeln!(out, "level = {}", quoted(v.level.word()));
    }
    if let Some(config) = &v.config {
        let _ = writeln!(out, "config = {}", quoted(config));
    }
    if let Some(scx) = &v.scx {
        let _ = writeln!(out, "scx = {}", quoted(&scx.command));
    }
    out += &lists(&v.features, &v.tunables);
    for (key, value) in v.tasks.get(EVERY_TASK).map(attributes).unwrap_or_default() {
        let _ = writeln!(out, "{key} = {value}");
    }
    if let Some(cost) = &v.migration_cost {
        let _ = writeln!(out, "migration_cost = {}", quoted(&cost.to_string()));
    }
    if let Some(pct) = v.migration_factor {
        let _ = writeln!(out, "migration_factor = {pct}");
    }
    let inline = |pairs: Vec<(String, String)>| {
        let pairs: Vec<String> = pairs.into_iter().map(|(k, v)| format!("{k} = {v}")).collect();
        format!("{{ {} }}", pairs.join(", "))
    };
    let groups: Vec<(String, String)> = v
        .tasks
        .iter()
        .filter(|(group, _)| *group != EVERY_TASK)
        .map(|(group, change)| {
            let all = attributes(change).into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
            (quoted(group), inline(all))
        })
        .collect();
    if !groups.is_empty() {
        let _ = writeln!(out, "tasks = {}", inline(groups));
    }
    if !v.settings.is_empty() {
        let _ = writeln!(
            out,
            "settings = {}",
            inline(v.settings.iter().map(|(k, v)| (k.clone(), quoted(v))).collect())
        );
    }
    v.groups.iter().for_each(|group| out += &own_group(group));
    for Change { time, features, tunables, group, task, scx } in &v.at {
        let _ = write!(out, "[[variant.at]]\ntime = {}\n{}", time_text(*time), lists(features, tunables));
        out += &group.as_ref().map(group_change).unwrap_or_default();
        out += &task.as_ref().map(task_change).unwrap_or_default();
        out += &scx.as_ref().map(|scx| format!("scx = {}\n", quoted(&scx.command))).unwrap_or_default();
    }
    out
}

/// A `[[variant.group]]`.
fn own_group(group: &GroupSpec) -> String {
    let mut out = format!("[[variant.group]]\npath = {}\n", quoted(&group.path));
    if group.idle {
        out += "idle = true\n";
    } else {
        let _ = writeln!(out, "shares = {}", group.shares);
    }
    out += &limit(&Limit { quota: group.quota, period: group.period, burst: group.burst });
    out += &cpus(group.cpus.as_ref());
    if !group.tasks.is_empty() {
        let names: Vec<String> = group.tasks.iter().map(|t| quoted(t)).collect();
        let _ = writeln!(out, "tasks = [{}]", names.join(", "));
    }
    out
}

fn limit(limit: &Limit) -> String {
    let quota = limit.quota.map_or_else(|| quoted("max"), time_text);
    let burst =
        if limit.burst == Ns::ZERO { String::new() } else { format!("burst = {}\n", time_text(limit.burst)) };
    format!("quota = {quota}\nperiod = {}\n{burst}", time_text(limit.period))
}

fn cpus(cpus: Option<&CpuSet>) -> String {
    cpus.map_or_else(String::new, |cpus| format!("cpus = {}\n", quoted(&cpus.to_string())))
}

fn group_change(change: &GroupChange) -> String {
    let mut out = format!("group = {}\n", quoted(&change.path));
    if let Some(shares) = change.shares {
        let _ = writeln!(out, "shares = {shares}");
    }
    out + &change.limit.as_ref().map(limit).unwrap_or_default() + &cpus(change.cpus.as_ref())
}

fn task_change(change: &TaskChange) -> String {
    let group = change.group.as_ref().map_or_else(String::new, |path| format!("group = {}\n", quoted(path)));
    format!("task = {}\n{group}{}", quoted(&change.name), cpus(change.cpus.as_ref()))
}

fn lists(features: &[String], tunables: &BTreeMap<String, u64>) -> String {
    let mut out = String::new();
    if !features.is_empty() {
        let names: Vec<String> = features.iter().map(|f| quoted(f)).collect();
        let _ = writeln!(out, "features = [{}]", names.join(", "));
    }
    if !tunables.is_empty() {
        let written = |name: &str, value: u64| {
            let text = tunable::text(name, value);
            if text.parse::<u64>().is_ok() { text } else { quoted(&text) }
        };
        let pairs: Vec<String> = tunables.iter().map(|(k, v)| format!("{k} = {}", written(k, *v))).collect();
        let _ = writeln!(out, "tunables = {{ {} }}", pairs.join(", "));
    }
    out
}

fn attributes(change: &AttrChange) -> Vec<(&'static str, String)> {
    let policy = change.policy.map(|p| ("policy", quoted(&p.to_string())));
    let nice = change.nice.map(|n| ("nice", n.to_string()));
    let slice = change.slice.map(|s| ("slice", time_text(s)));
    [policy, nice, slice].into_iter().flatten().collect()
}

fn time_text(time: Ns) -> String {
    format!("\"{}ns\"", time.0)
}

/// A string of TOML. JSON's escapes are among TOML's.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::experiment::parse;
    use schedlab_kernel::{MigrationCost, Policy, Scx};
    use std::path::Path;

    fn read_again(v: &Variant) -> Variant {
        let text = format!(
            "name = \"x\"\nmachine = \"smp-2\"\n[workload]\nname = \"batch\"\nruntime = \"30s\"\n{}",
            variant(v)
        );
        let read = parse(Path::new("x.toml"), &text, 2).unwrap_or_else(|e| panic!("{e}\n{text}"));
        read.variants.into_iter().next().unwrap()
    }

    #[test]
    fn a_written_variant_is_read_back_as_the_same() {
        let mut v = Variant::plain("v6.12");
        assert_eq!(read_again(&v), v);
        v.name = "a \"b\"\\c".to_owned();
        v.features = vec!["SIS_FIRST_IDLE".into(), "NO_WA_IDLE".into()];
        v.tunables = [("hz".to_owned(), 250), ("nr_migrate".to_owned(), 4)].into();
        let all = AttrChange { policy: Some(Policy::Batch), nice: Some(-5), slice: Some(Ns::ms(3)) };
        let some = AttrChange { policy: None, nice: Some(3), slice: None };
        v.tasks = [(EVERY_TASK.to_owned(), all), ("job".to_owned(), some)].into();
        let change = |ns| Change {
            time: Ns(ns),
            features: vec!["WA_IDLE".into()],
            tunables: [("nr_migrate".to_owned(), 8)].into(),
            ..Change::default()
        };
        v.at = vec![change(1_500_000_000), change(2_000_000_001)];
        let limit = Limit { quota: Some(Ns::ms(20)), burst: Ns::ms(5), ..Limit::default() };
        v.groups = vec![
            GroupSpec { quota: Some(Ns::ms(7)), tasks: vec!["job".into()], ..GroupSpec::at("/a") },
            GroupSpec { idle: true, cpus: Some(CpuSet::parse("0").unwrap()), ..GroupSpec::at("/b") },
        ];
        let group = GroupChange { path: "/a".into(), shares: Some(7), limit: Some(limit), cpus: None };
        let none = GroupChange { limit: Some(Limit::default()), shares: None, ..group.clone() };
        let task = TaskChange { name: "job".into(), group: Some("/b".into()), cpus: CpuSet::parse("1").ok() };
        let at = |group, task| Change { time: Ns::secs(3), group, task, ..Change::default() };
        v.at.extend([at(Some(group), None), at(Some(none), None), at(None, Some(task))]);
        assert_eq!(read_again(&v), v);
        let mut old = Variant::plain("v2.6.12");
        old.migration_cost = Some(MigrationCost::Given(vec![0, 2500]));
        old.migration_factor = Some(120);
        assert_eq!(read_again(&old), old);
        let patched = Variant {
            patch: vec!["first-idle".into(), "a/b.patch".into()],
            config: Some("f.config".into()),
            scx: Some(Scx { command: "./scx_mine --slice 5".into(), hash: None }),
            features: vec!["MINE".into()],
            ..Variant::plain("6.1")
        };
        assert_eq!(read_again(&patched), patched);
        let mut live = Variant::plain("running");
        live.settings = [("numa_balancing".to_owned(), "0".to_owned())].into();
        assert_eq!(read_again(&live), live);
    }
}
