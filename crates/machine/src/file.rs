//! Machine files: the TOML form of a machine (docs/machines.md has the schema for people).
//!
//! A file states the plausible range and the source of every cost that it sets. Values outside their range, unknown
//! keys and impossible sizes are errors with a place.

use crate::background;
use crate::caches;
use crate::costs::LONGEST;
use crate::migration::Overrides;
use crate::reader::{Source, Table};
use crate::turns::{TurnRule, Turns};
use crate::units;
use crate::{CostNote, Costs, IdleGovernor, IdleState, KernelCosts, Machine, Unfit};
use schedlab_base::{Error, Ns, Result, Version};
use std::path::Path;

const TOP: &[&str] = &[
    "name",
    "about",
    "source",
    "like",
    "topology",
    "costs",
    "kernel",
    "idle_state",
    "idle_governor",
    "background",
    "turns",
    "unfit",
    "cache",
    "migration",
];
const MIGRATION: &[&str] = &["cost_us", "factor_pct"];
const TOPOLOGY: &[&str] = &[
    "arch",
    "packages",
    "nodes",
    "llcs",
    "clusters",
    "cores",
    "threads_per_core",
    "units",
    "capacity",
    "memoryless",
    "numbering",
    "distance",
    "distances",
    "reclaim_distance",
];
const COST: &[&str] = &["value", "range", "source"];
const KERNEL: &[&str] = &["since", "costs", "newidle"];
const TURNS: &[&str] = &["rule", "spin", "cpu_clock", "alarm", "newidle", "source"];
const IDLE: &[&str] = &["name", "exit", "typical", "range", "residency", "source"];

/// Reads a machine from `text`; errors name `file`.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Machine> {
    let source = Source { file, text };
    let document = source.parse()?;
    let top = Table::new(source, "a machine file", document.span(), document.get_ref(), TOP)?;
    let like = like(&top)?;
    let topology = match (top.table("topology", TOPOLOGY)?, &like) {
        (Some(table), _) => units::topology(source, &table)?,
        (None, Some(like)) => like.topology.clone(),
        (None, None) => return top.required("[topology]", None),
    };
    let mut provenance = Vec::new();
    if let Some(note) = top.string("source")? {
        provenance.push(CostNote { name: "topology".into(), range: None, source: note.into() });
    }
    let (mut costs_before, mut states_before, mut all) = (Costs::default(), Vec::new(), Vec::new());
    let (mut inherited, mut turns_before, mut governor_before) = (Vec::new(), None, IdleGovernor::Menu);
    let (mut caches_before, mut migration_before) = (Vec::new(), None);
    let mut kernels = Vec::new();
    let mut unfit = Unfit::read(&top)?;
    if let Some(like) = like {
        unfit = unfit.or(like.unfit);
        kernels = like.kernels;
        (turns_before, governor_before) = (like.turns, like.idle_governor);
        (caches_before, migration_before) = (like.caches, like.migration);
        (costs_before, states_before, all) = (like.costs, like.idle_states, like.background);
        inherited = like.provenance;
    }
    let own = costs(&top, &mut provenance)?;
    let mut costs = costs_before;
    for (name, value) in &own {
        costs.set(name, *value);
        // A cost that the file sets for all kernels overrides the preset's costs of single kernels.
        kernels.iter_mut().for_each(|k: &mut KernelCosts| k.costs.retain(|(n, _)| n != name));
    }
    let turns = turns(&top, &mut provenance)?.or(turns_before);
    kernels.extend(self::kernels(&top, turns.is_some())?);
    kernels.sort_by_key(|k| k.since);
    let mut caches = caches::read(&top, &mut provenance)?;
    if caches.is_empty() {
        caches = caches_before;
    }
    let mut idle_states = idle_states(&top, &mut provenance)?;
    if idle_states.is_empty() {
        idle_states = states_before;
    }
    let idle_governor = governor(&top, &idle_states)?.unwrap_or(governor_before);
    if top.get("background").is_some_and(|v| v.get_ref().as_array().is_some_and(|a| a.is_empty())) {
        // `background = []` means: nothing else runs.
        all.clear();
    }
    let named = background::Named::read(&top, "background")?;
    if named.is_none() {
        all.extend(background::rows(&top)?);
    }
    // The file's own notes go first, so that look-ups find them first.
    provenance.append(&mut inherited);
    let mut machine = Machine {
        name: top.required("name", top.label("name")?)?.into(),
        about: top.required("about", top.string("about")?)?.into(),
        topology,
        costs,
        kernels,
        idle_states,
        idle_governor,
        background: all,
        background_from: None,
        caches,
        migration: migration(&top)?.or(migration_before),
        turns,
        unfit,
        provenance,
        os_cpu: Vec::new(),
    };
    own.iter().for_each(|(name, _)| machine.states(name));
    if let Some(named) = named {
        let folder = file.parent().unwrap_or(Path::new(""));
        named.apply(&mut machine, folder).map_err(|e| top.place("background", e))?;
    }
    Ok(machine)
}

/// The preset that `like` names. The machine takes from it everything that the file does not state. The file's
/// background tasks are added to the preset's; `background = []` removes all, and a named background replaces them.
fn like(top: &Table<'_>) -> Result<Option<Machine>> {
    let Some(name) = top.string("like")? else { return Ok(None) };
    if name.contains('/') || name.ends_with(".toml") || name == "host" {
        let what = format!("like = \"{name}\": only a preset, smp-N or smt-N can be built upon");
        return Err(top.error_at("like", what));
    }
    Machine::load(name).map(Some).map_err(|e| top.place("like", e))
}

/// Costs that differ under later kernels.
fn kernels(top: &Table<'_>, in_turns: bool) -> Result<Vec<KernelCosts>> {
    let one = |table: Table<'_>| {
        let since = table.required("since", table.string("since")?)?;
        let since = Version::parse(since).map_err(|e| table.place("since", e))?;
        let mut provenance = Vec::new();
        let costs = costs(&table, &mut provenance)?;
        if costs.is_empty() {
            return Err(table.error("[[kernel]] has no [kernel.costs]"));
        }
        let newidle_ns = known_newidle(&table)?;
        if newidle_ns.is_some() && !in_turns {
            let what = "newidle is only used on machines whose CPUs take turns";
            return Err(table.error_at("newidle", what).help("say how in [turns], or leave it out"));
        }
        Ok(KernelCosts { since, costs, newidle_ns, provenance })
    };
    top.tables("kernel", KERNEL)?.into_iter().map(one).collect()
}

fn costs(top: &Table<'_>, provenance: &mut Vec<CostNote>) -> Result<Vec<(String, u64)>> {
    let names: Vec<&str> = Costs::TABLE.iter().map(|row| row.name).collect();
    let (mut all, mut checked) = (Vec::new(), Costs::default());
    let Some(table) = top.table("costs", &names)? else { return Ok(all) };
    for name in table.keys() {
        let Some(row) = table.table(name, COST)? else { continue };
        let value: u64 = row.required("value", row.number("value")?)?;
        let source = row.required("source", row.string("source")?)?;
        let range = match row.numbers::<u64>("range")?.as_deref() {
            Some([low, high]) if low <= high => (*low, *high),
            Some(_) => return Err(row.error_at("range", "range is [lowest, highest]")),
            None => {
                return Err(row
                    .error(format!("{name} has no range"))
                    .help("write range = [lowest, highest]"));
            }
        };
        if value < range.0 || value > range.1 {
            let what = format!("{name} = {value} lies outside its range {} to {}", range.0, range.1);
            return Err(row.error_at("value", what));
        }
        checked.change(name, value).map_err(|e| row.place("value", e))?;
        all.push((name.to_owned(), value));
        provenance.push(CostNote { name: name.into(), range: Some(range), source: source.into() });
    }
    Ok(all)
}

fn idle_states(top: &Table<'_>, provenance: &mut Vec<CostNote>) -> Result<Vec<IdleState>> {
    let mut states: Vec<IdleState> = Vec::new();
    for table in top.tables("idle_state", IDLE)? {
        let name = table.required("name", table.label("name")?)?;
        let exit = table.required("exit", short_time(&table, "exit")?)?;
        let typical = table.time("typical")?.unwrap_or(exit);
        let residency = table.required("residency", short_time(&table, "residency")?)?;
        let source = table.required("source", table.string("source")?)?;
        if states.last().is_some_and(|s| s.exit > exit || s.residency > residency) {
            return Err(table
                .error(format!("idle state {name} is no deeper than the one before"))
                .help("list idle states shallowest first, exit and residency rising"));
        }
        if typical > exit {
            return Err(table.error(format!("idle state {name} typically takes longer than its worst case")));
        }
        let range = match table.times("range")? {
            Some((low, high)) if low > typical || typical > high || high > exit => {
                let what = format!(
                    "{name} typically takes {typical}, its range is {low} to {high}, at worst it takes {exit}"
                );
                return Err(table
                    .error_at("range", what)
                    .help("a range holds typical and ends at exit or before"));
            }
            range => range.map(|(low, high)| (low.0, high.0)),
        };
        provenance.push(CostNote { name: format!("idle.{name}"), range, source: source.into() });
        states.push(IdleState { name: name.into(), exit, typical, residency });
    }
    Ok(states)
}

/// The cpuidle governor; `None` when the file names none.
fn governor(top: &Table<'_>, states: &[IdleState]) -> Result<Option<IdleGovernor>> {
    let Some(name) = top.string("idle_governor")? else { return Ok(None) };
    let known = || IdleGovernor::NAMES.iter().map(|(n, _)| *n);
    let found = IdleGovernor::NAMES.iter().find(|(n, _)| *n == name).map(|(_, g)| *g);
    let governor =
        found.ok_or_else(|| top.place("idle_governor", Error::unknown("idle governor", name, known())))?;
    let needs = if governor == IdleGovernor::Haltpoll { 2 } else { 1 };
    if governor.is_menu() || states.len() >= needs {
        return Ok(Some(governor));
    }
    let what = format!("{name} needs {needs} idle states, and there are {}", states.len());
    Err(top
        .error_at("idle_governor", what)
        .help("the last one is the halt; before it haltpoll has the polling state"))
}

/// Migration cutoffs that replace measured ones.
fn migration(top: &Table<'_>) -> Result<Option<Overrides>> {
    let Some(table) = top.table("migration", MIGRATION)? else { return Ok(None) };
    let overrides = Overrides {
        cost_us: table.numbers("cost_us")?.unwrap_or_default(),
        factor_pct: table.number("factor_pct")?.unwrap_or(100),
    };
    overrides.check().map_err(|e| top.place("migration", e))?;
    Ok(Some(overrides))
}

/// The rule for CPUs that take turns; `None` when each has its own time.
fn turns(top: &Table<'_>, provenance: &mut Vec<CostNote>) -> Result<Option<Turns>> {
    let Some(table) = top.table("turns", TURNS)? else { return Ok(None) };
    let name = table.required("rule", table.string("rule")?)?;
    let rule = TurnRule::NAMES.iter().find(|(n, _)| *n == name).map(|(_, r)| *r).ok_or_else(|| {
        table.place("rule", Error::unknown("rule", name, TurnRule::NAMES.iter().map(|(n, _)| *n)))
    })?;
    let spin = table.required("spin", short_time(&table, "spin")?)?;
    if spin == Ns::ZERO {
        return Err(table.error_at("spin", "a round of waiting must take some time"));
    }
    let cpu_clock_ns = short_time(&table, "cpu_clock")?.unwrap_or(Ns::ZERO).0;
    let alarm_ns = short_time(&table, "alarm")?.unwrap_or(Ns::ZERO).0;
    let newidle_ns = known_newidle(&table)?.unwrap_or_default();
    let source = table.required("source", table.string("source")?)?;
    provenance.push(CostNote { name: "turns".into(), range: None, source: source.into() });
    Ok(Some(Turns { rule, spin_ns: spin.0, cpu_clock_ns, alarm_ns, newidle_ns }))
}

/// The costs of earlier newidle passes at the beginning of a run.
fn known_newidle(table: &Table<'_>) -> Result<Option<[u32; 10]>> {
    let Some(listed) = table.numbers::<u32>("newidle")? else { return Ok(None) };
    let ten = listed.try_into().map_err(|_| table.error_at("newidle", "newidle is ten times in ns"))?;
    Ok(Some(ten))
}

/// A time of at most [`LONGEST`].
fn short_time(table: &Table<'_>, key: &str) -> Result<Option<Ns>> {
    match table.time(key)? {
        Some(time) if time > LONGEST => {
            Err(table.error_at(key, format!("{key} = {time} is out of range: at most {LONGEST}")))
        }
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(Path::new("m.toml"), text).unwrap_err().to_string()
    }
    fn with(topology: &str, rest: &str) -> String {
        format!("name = 'm'\nabout = 'a'\n[topology]\n{topology}\n{rest}")
    }

    #[test]
    fn errors_have_their_place_and_the_nearest_name() {
        insta::assert_snapshot!(error("name = 'm'\nabot = 'x'"), @r"
        m.toml:2:1: unknown key in a machine file 'abot'
          help: did you mean 'about'?
        ");
        insta::assert_snapshot!(error(&with("cores = 4\nthreads_per_cor = 2", "")), @r"
        m.toml:5:1: unknown key in [topology] 'threads_per_cor'
          help: did you mean 'threads_per_core'?
        ");
        insta::assert_snapshot!(error(&with("cores = 4\nnumbering = 'intell'", "")), @r"
        m.toml:5:13: unknown numbering 'intell'
          help: did you mean 'intel'?
        ");
        insta::assert_snapshot!(error("name = 'm'\nabout = = 2"), @r#"
        m.toml:2:9: extra `=`, expected nothing
          help: text stands in quotes ("30us", "{cpus}", ["a", "b"]), numbers do not
        "#);
        insta::assert_snapshot!(error(&with("cores = 'four'", "")), @"m.toml:4:9: cores in [topology] must be a whole number; this is of type string");
        insta::assert_snapshot!(error(&with("cores = -4", "")), @"m.toml:4:9: cores in [topology] is out of range");
    }

    #[test]
    fn absurd_times_and_invisible_names_are_refused() {
        let huge = "[costs]\ntick_ns = { value = 9223372036854775807, range = [0, 9223372036854775807], source = 's' }";
        assert!(error(&with("cores = 4", huge)).contains("tick_ns = 9223372036854775807 is out of range"));
        let deep =
            "[[idle_state]]\nname = 'C1'\nexit = '9223372036s'\nresidency = '9223372036s'\nsource = 's'";
        let deep = error(&with("cores = 4", deep));
        assert!(deep.starts_with("m.toml:7:8:") && deep.contains("out of range"), "{deep}");
        let named = |name: &str| error(&format!("name = {name}\nabout = 'a'\nlike = 'smp-2'"));
        assert!(named("\"a\\u001b[31m\"").contains("m.toml:1:8: name has control characters"));
        assert!(named("''").contains("m.toml:1:8: name is empty"));
    }

    #[test]
    fn an_empty_background_removes_even_a_presets() {
        let of = |text: &str| parse(Path::new("m.toml"), text).unwrap().background.len();
        assert!(of("name = 'm'\nabout = 'a'\nlike = 'spr-2x56'") > 0);
        assert_eq!(of("name = 'm'\nabout = 'a'\nlike = 'spr-2x56'\nbackground = []"), 0);
    }

    #[test]
    fn a_machine_may_be_like_a_preset_except_for_stated_values() {
        let text = "name = 'm'\nabout = 'a'\nlike = 'fb-2x12-smt'\n[costs]\n\
                    tick_ns = { value = 1234, range = [1000, 3000], source = 'mine' }\n\
                    [[background]]\nname = 'd'\nper_cpu = true\nevery = '1ms'\nrun = '1us'\nsource = 's'";
        let (mine, base) = (parse(Path::new("m.toml"), text).unwrap(), Machine::load("fb-2x12-smt").unwrap());
        assert_eq!((&mine.topology, &mine.idle_states), (&base.topology, &base.idle_states));
        assert_eq!((mine.costs.tick_ns, mine.costs.syscall_ns), (1234, base.costs.syscall_ns));
        assert_eq!(mine.background.len(), base.background.len() + 1);
        assert_eq!(mine.note("tick_ns").source, "mine");
        insta::assert_snapshot!(error("name = 'm'\nabout = 'a'\nlike = 'fb-2x12-smy'"), @r"
        m.toml:3:8: unknown machine 'fb-2x12-smy'
          help: did you mean 'fb-2x12-smt'?
        ");
        insta::assert_snapshot!(error("name = 'm'\nabout = 'a'\nlike = './m.toml'"), @r#"m.toml:3:8: like = "./m.toml": only a preset, smp-N or smt-N can be built upon"#);
    }

    #[test]
    fn costs_may_be_others_under_later_kernels() {
        let one = |since: &str, ns: u64| {
            format!(
                "[[kernel]]\nsince = '{since}'\n[kernel.costs]\n\
                 tick_ns = {{ value = {ns}, range = [1000, 9000], source = 'counted in {since}' }}\n"
            )
        };
        let cost = "[costs]\ntick_ns = { value = 1234, range = [1000, 3000], source = 'mine' }\n";
        let text = with("cores = 4", &(cost.to_owned() + &one("v7.0", 7000) + &one("v6.6", 6000)));
        let machine = parse(Path::new("m.toml"), &text).unwrap();
        let under = |v: &str| {
            let machine = machine.under(Version::parse(v).unwrap());
            assert!(machine.kernels.is_empty());
            (machine.costs.tick_ns, machine.note("tick_ns").source)
        };
        assert_eq!(under("v6.5"), (1234, "mine".to_owned()));
        assert_eq!(under("v6.6"), (6000, "counted in v6.6".to_owned()));
        assert_eq!(under("v7.3"), (7000, "counted in v7.0".to_owned()));
        let mut set = machine.clone();
        set.set_cost("tick_ns", 2000).unwrap();
        assert_eq!(
            set.under(Version::new(7, 3)).costs.tick_ns,
            2000,
            "a cost without a kernel is set for all kernels"
        );
        let none = error(&with("cores = 4", "[[kernel]]\nsince = 'v6.6'"));
        assert!(none.contains("[[kernel]] has no [kernel.costs]"), "{none}");
    }

    #[test]
    fn a_governor_has_the_states_it_needs() {
        let state = |name: &str| {
            format!("[[idle_state]]\nname = '{name}'\nexit = '1us'\nresidency = '1us'\nsource = 's'\n")
        };
        let of = |governor: &str, states: &str| {
            let text = format!(
                "name = 'm'\nabout = 'a'\nidle_governor = '{governor}'\n[topology]\ncores = 2\n{states}"
            );
            parse(Path::new("m.toml"), &text)
        };
        let both = state("POLL") + &state("haltpoll");
        assert_eq!(of("haltpoll", &both).unwrap().idle_governor, IdleGovernor::Haltpoll);
        assert_eq!(of("halt", &state("haltpoll")).unwrap().idle_governor, IdleGovernor::Halt);
        assert_eq!(of("menu", "").unwrap().idle_governor, IdleGovernor::Menu);
        let one = of("haltpoll", &state("haltpoll")).unwrap_err().to_string();
        assert!(
            one.starts_with("m.toml:3:17") && one.contains("needs 2 idle states, and there are 1"),
            "{one}"
        );
        assert!(of("teo", &both).unwrap_err().to_string().contains("unknown idle governor 'teo'"));
    }

    #[test]
    fn turns_have_a_rule_and_take_time() {
        let of =
            |t: &str| parse(Path::new("m.toml"), &with("cores = 2", &format!("[turns]\nsource = 's'\n{t}")));
        let turns = of("rule = 'deadline-share'\nspin = '90ns'\nalarm = '4ms'").unwrap().turns;
        let rule = TurnRule::DeadlineShare;
        let plain = Turns { rule, spin_ns: 90, cpu_clock_ns: 0, alarm_ns: 4_000_000, newidle_ns: [0; 10] };
        assert_eq!(turns, Some(plain));
        let booted = of("rule = 'deadline-share'\nspin = '90ns'\nnewidle = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]");
        assert_eq!(booted.unwrap().turns.unwrap().newidle_ns, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let error = |t: &str| of(t).unwrap_err().to_string();
        assert!(
            error("rule = 'deadline-share'\nspin = '1ns'\nnewidle = [1, 2]").contains("newidle is ten times")
        );
        assert!(error("rule = 'deadline-shares'\nspin = '1ns'").contains("did you mean 'deadline-share'?"));
        let later = "rule = 'deadline-share'\nspin = '1ns'\n[[kernel]]\nsince = 'v6.6'\nnewidle = [1, 1, 1, 1, 1, 1, 1, 1, 1, 9]\n\
                     [kernel.costs]\nsyscall_ns = { value = 200, range = [1, 999], source = 's' }\n";
        let newest = |v| of(later).unwrap().under(Version::parse(v).unwrap()).turns.unwrap().newidle_ns[9];
        assert_eq!([newest("v6.5"), newest("v6.6")], [0, 9], "later kernels have others");
        let (_, alone) = later.split_once("[[kernel]]").unwrap();
        let dropped = parse(Path::new("m.toml"), &with("cores = 2", &format!("[[kernel]]{alone}")));
        assert!(dropped.unwrap_err().to_string().contains("only used on machines whose CPUs take turns"));
        assert!(error("rule = 'deadline-share'").contains("[turns] has no spin"));
        assert!(error("rule = 'deadline-share'\nspin = '0s'").contains("must take some time"));
        let none = parse(Path::new("m.toml"), &with("cores = 2", "")).unwrap();
        assert!(!format!("{none:?}").contains("Some(Turns"), "each has its own processor");
    }

    #[test]
    fn absurd_machines_are_refused() {
        insta::assert_snapshot!(error(&with("cores = 1_000_000_000", "")), @r"
        m.toml:4:9: 1000000000 CPUs are too many
          help: cores times threads_per_core may be 4096 at most
        ");
        insta::assert_snapshot!(error(&with("cores = 0", "")), @"m.toml:4:9: cores = 0: a machine has at least one");
        insta::assert_snapshot!(error(&with("cores = 6\npackages = 4", "")), @r"
        m.toml:4:9: cores = 6 is not a multiple of llcs = 4
          help: counts are of the whole machine; every unit holds equally many of the next
        ");
        insta::assert_snapshot!(error("name = 'm'\nabout = 'a'"), @"m.toml:1:1: a machine file has no [topology]");
    }

    #[test]
    fn distances_are_checked_number_by_number() {
        let of = |d: &str| error(&with(&format!("cores = 2\npackages = 2\ndistances = {d}"), ""));
        insta::assert_snapshot!(of("[[10, 20], [21, 10]]"), @"m.toml:6:19: distances are not symmetric: node 0 to 1 is 20, but back it is not");
        insta::assert_snapshot!(of("[[10, 20], [20, 11]]"), @"m.toml:6:29: node 1 is 11 from itself, not 10");
        insta::assert_snapshot!(of("[[10, 20]]"), @"m.toml:6:13: distances has 1 row for 2 nodes");
        insta::assert_snapshot!(of("[[10, 20], [20]]"), @"m.toml:6:13: row 1 of the distances has 1 entries, not 2");
        insta::assert_snapshot!(of("[[10, 9], [9, 10]]"), @"m.toml:6:19: node 0 to 1 is 9; distances of two nodes are 11 to 254");
        insta::assert_snapshot!(of("[[10, 'far'], [20, 10]]"), @"m.toml:6:19: distances holds whole numbers");
    }

    #[test]
    fn costs_say_range_and_source() {
        let of = |c: &str| error(&with("cores = 2", &format!("[costs]\n{c}")));
        insta::assert_snapshot!(of("tick_n = { value = 2000, range = [1, 2], source = 's' }"), @r"
        m.toml:6:1: unknown key in [costs] 'tick_n'
          help: did you mean 'tick_ns'?
        ");
        insta::assert_snapshot!(of("tick_ns = 2000"), @"m.toml:6:11: tick_ns in [costs] must be a table; this is of type integer");
        insta::assert_snapshot!(of("tick_ns = { value = 2000, source = 's' }"), @r"
        m.toml:6:11: tick_ns has no range
          help: write range = [lowest, highest]
        ");
        insta::assert_snapshot!(of("tick_ns = { value = 2000, range = [1, 2], source = 's' }"), @"m.toml:6:21: tick_ns = 2000 lies outside its range 1 to 2");
        insta::assert_snapshot!(of("smt_speed_pct = { value = 0, range = [0, 2], source = 's' }"), @"m.toml:6:27: smt_speed_pct = 0 is not 1 to 100 per cent");
    }

    #[test]
    fn idle_states_and_background_are_plausible() {
        let of = |rest: &str| error(&with("cores = 2", rest));
        let c6 = "[[idle_state]]\nname='C6'\nexit='100us'\nresidency='200us'\nsource='s'\n";
        let c1 = c6.replace("C6", "C1").replace("100us", "1us");
        insta::assert_snapshot!(of(&format!("{c6}{c1}")), @r"
        m.toml:10:1: idle state C1 is no deeper than the one before
          help: list idle states shallowest first, exit and residency rising
        ");
        insta::assert_snapshot!(of("[[idle_state]]\nname='C1'\nexit='1 fortnight'"), @r"
        m.toml:7:6: unknown time unit 'fortnight' in '1 fortnight'
          help: units are ns, us, ms, s, m; as in 30us or 1.5ms
        ");
        let odd = c6.replace("source", "typical='50us'\nrange=['60us', '70us']\nsource");
        insta::assert_snapshot!(of(&odd), @r"
        m.toml:10:7: C6 typically takes 50us, its range is 60us to 70us, at worst it takes 100us
          help: a range holds typical and ends at exit or before
        ");
        insta::assert_snapshot!(of(&odd.replace("'60us', ", "")), @r#"m.toml:10:7: range in [[idle_state]] must be two times such as ["20us", "40us"]; this is of type array"#);
        insta::assert_snapshot!(of("[[background]]\nname='k'\nper_cpu=true\nevery='1ms'\nrun='2ms'"), @"m.toml:9:5: a background task must run shorter than the gap between its arrivals");
    }

    #[test]
    fn a_full_file_is_read_in_full() {
        let text = with(
            "cores = 4\npackages = 2\nthreads_per_core = 2\ndistance = 20\nreclaim_distance = 15",
            "[costs]\ntick_ns = { value = 2, range = [1, 3], source = 'mine' }\n",
        );
        let m = parse(Path::new("m.toml"), &text).unwrap();
        assert_eq!((m.topology.nr_cpus(), m.topology.reclaim_distance, m.costs.tick_ns), (8, 15, 2));
        assert_eq!(m.topology.node_distance, [[10, 20], [20, 10]]);
        assert_eq!((m.note("tick_ns").range, m.note("tick_ns").source), (Some((1, 3)), "mine".into()));
        assert_eq!(m.note("ipi_near_ns").range, Some((500, 1000)));
    }
}
