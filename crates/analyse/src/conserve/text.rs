//! Stretches and chances as text, at most 78 columns wide.

use super::chances::{BalanceTry, Chance, FreeCpu};
use super::report::{CauseShare, IdleWhileWaiting, Listed};
use crate::words::{STORY, count, longest, with_notes, wrap};
use schedlab_base::{CpuId, CpuSet, Ns};
use schedlab_trace::{BalanceTrigger, MoveReason};
use std::collections::BTreeMap;

pub fn idle_while_waiting_text(i: &IdleWhileWaiting) -> String {
    let mut out = Vec::new();
    wrap(&mut out, "", 2, &i.run);
    out.push(String::new());
    if i.stretches == 0 {
        wrap(&mut out, "", 0, "No task ever waited while a CPU that it may use was idle.");
    } else {
        let head = format!(
            "In {} of {} ({:.2}%) some task waited while a CPU that it may use was idle: {} {}, {} summed over \
             tasks. By what began {}:",
            Ns(i.time_ns),
            Ns(i.duration_ns),
            i.share_pct,
            i.stretches,
            if i.stretches == 1 { "stretch" } else { "stretches" },
            Ns(i.task_time_ns),
            if i.stretches == 1 { "it" } else { "them" },
        );
        wrap(&mut out, "", 0, &head);
        out.push(String::new());
        out.push("stretches     time   share  cause".to_owned());
        i.causes.iter().for_each(|c| cause(c, &mut out));
    }
    longest(&mut out, ["stretch", "stretches"], &i.longest, story);
    with_notes(out, &i.notes)
}

fn cause(c: &CauseShare, out: &mut Vec<String>) {
    let front = format!("{:>9} {:>8} {:>6.1}%  ", c.stretches, Ns(c.time_ns).to_string(), c.time_pct);
    let pad = front.len();
    wrap(out, &front, pad, &format!("{}: {}", named(c.cause, c.reason), c.about));
    if let Some(about) = c.reason_about {
        wrap(out, &" ".repeat(pad), pad + 2, &format!("({about})"));
    }
}

fn named(cause: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| cause.to_owned(), |reason| format!("{cause} {reason}"))
}

fn story(number: usize, s: &Listed, out: &mut Vec<String>) {
    let front = format!("{number:>3}. {:>8} ", Ns(s.length_ns).to_string());
    let at = s.from.0;
    let at = format!("{}.{:06} s", at / 1_000_000_000, at % 1_000_000_000 / 1_000);
    let head = format!("{}: {}, from {at} on {}", s.task, named(s.cause, s.reason), s.cpu);
    wrap(out, &front, STORY, &head);
    let mut line = |words: &str| wrap(out, &" ".repeat(STORY), STORY + 2, words);
    if let Some(chance) = &s.idle_meanwhile {
        chance_lines(chance).iter().for_each(|words| line(words));
    }
    let moved = s.moved.and_then(|name| MoveReason::ALL.iter().find(|r| r.name() == name));
    line(&match (s.ended, moved) {
        ("ran", _) => format!("ended: {} got to it", s.cpu),
        ("taken", _) => "ended: no CPU that it may use was idle any more".to_owned(),
        (_, Some(why)) => format!("ended: {}", why.about()),
        _ => "ended: the run was over".to_owned(),
    });
}

/// Sentences on the free CPUs, the balancing done for them, and the chances missed.
pub fn chance_lines(chance: &Chance) -> Vec<String> {
    let Some(longest) = chance.cpus.first() else {
        return vec!["no CPU that it may use was idle meanwhile".to_owned()];
    };
    let set = |of: &mut dyn Iterator<Item = &FreeCpu>| of.map(|c| c.cpu).collect::<CpuSet>().to_string();
    let all = set(&mut chance.cpus.iter());
    let mut lines = vec![match chance.cpus.len() {
        1 => format!("cpu{all} was idle for {} of it", Ns(chance.free_ns)),
        n => format!(
            "in {} of it some CPU that it may use was idle: {n} of them, {} at a time ({all}; {} longest, for {})",
            Ns(chance.free_ns),
            at_a_time(chance),
            longest.cpu,
            Ns(longest.free_ns)
        ),
    }];
    let before = set(&mut chance.cpus.iter().filter(|c| c.from_start));
    if !before.is_empty() && before != all {
        lines.push(format!("of those idle from its beginning: {before}"));
    }
    if chance.reasons_missing {
        return lines;
    }
    let tries: Vec<&BalanceTry> = chance.cpus.iter().flat_map(|c| &c.tries).collect();
    passes(&tries, &mut lines);
    skips(&tries, &mut lines);
    let none = tries.iter().all(|t| t.pass.is_none());
    if none {
        lines.push("no balance pass was made for them".to_owned());
    }
    for tick in &chance.ticks {
        lines.push(format!("{}: {}, {}", count(tick.count, "tick"), tick.reason, tick.about));
    }
    if chance.ticks.is_empty() && none {
        lines.push("no tick fell into it".to_owned());
    }
    if chance.helpers_busy > 0 {
        let helpers = count(chance.helpers_busy, "time");
        lines.push(format!("{helpers} a CPU that balanced for idle ones stopped, having got work"));
    }
    lines
}

/// The mean number of free CPUs over the free time, in tenths.
fn at_a_time(chance: &Chance) -> String {
    let all: u64 = chance.cpus.iter().map(|c| c.free_ns).sum();
    let tenths = (10 * all + chance.free_ns / 2) / chance.free_ns.max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Sums up passes over all CPUs. Passes that did not reach the task are only counted.
fn passes(tries: &[&BalanceTry], lines: &mut Vec<String>) {
    let mut near: BTreeMap<_, (u64, &str)> = BTreeMap::new();
    let mut far: BTreeMap<_, (u64, CpuSet)> = BTreeMap::new();
    for (t, pass) in tries.iter().filter_map(|t| Some((t, t.pass?))) {
        let order = BalanceTrigger::ALL.iter().position(|trigger| trigger.name() == pass);
        if t.reaches {
            near.entry((order, pass, t.level, t.reason)).or_insert((0, t.about)).0 += t.count;
        } else {
            let (n, levels) = far.entry((order, pass)).or_default();
            *n += t.count;
            levels.insert(CpuId(t.level.into()));
        }
    }
    let of = |count: u64, pass: &str| schedlab_base::counted(count, &format!("{pass} pass"));
    for ((_, pass, level, reason), (count, about)) in near {
        lines.push(format!("{} over domain{level}: {reason}, {about}", of(count, pass)));
    }
    for ((_, pass), (count, levels)) in far {
        lines.push(format!("{} over domain{levels}, out of reach of its CPU", of(count, pass)));
    }
}

/// Sums up over all CPUs the passes that were not begun.
fn skips(tries: &[&BalanceTry], lines: &mut Vec<String>) {
    let mut all: BTreeMap<&str, (u64, CpuSet, &BalanceTry)> = BTreeMap::new();
    for t in tries.iter().filter(|t| t.pass.is_none()) {
        let (n, levels, last) = all.entry(t.reason).or_insert((0, CpuSet::new(), t));
        *n += t.count;
        levels.insert(CpuId(t.level.into()));
        *last = t;
    }
    for (reason, (n, levels, t)) in all {
        let compared = match (t.have_ns, t.need_ns) {
            (Some(have), Some(need)) => format!(" ({} against {})", Ns(have.into()), Ns(need.into())),
            _ => String::new(),
        };
        let skipped = count(n, "time");
        lines.push(format!("{skipped} no pass over domain{levels}: {reason}, {}{compared}", t.about));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conserve::{CauseKind, DecisionCount};
    use schedlab_trace::{BalanceReason, KickReason, MoveReason, PlaceReason, SkipReason};

    fn pass(level: u8, reaches: bool, why: BalanceReason, count: u64) -> BalanceTry {
        let (reason, about) = (why.name(), why.about());
        BalanceTry { pass: Some("nohz"), level, reaches, reason, about, count, have_ns: None, need_ns: None }
    }
    fn skip(level: u8, why: SkipReason, ns: Option<(u32, u32)>) -> BalanceTry {
        let (reason, about, reaches) = (why.name(), why.about(), true);
        let (have_ns, need_ns) = ns.unzip();
        BalanceTry { pass: None, level, reaches, reason, about, count: 1, have_ns, need_ns }
    }
    fn free(cpu: u32, free_ns: u64, from_start: bool, tries: Vec<BalanceTry>) -> FreeCpu {
        FreeCpu { cpu: CpuId(cpu), free_ns, from_start, tries }
    }
    fn tick(why: KickReason, count: u64) -> DecisionCount {
        DecisionCount { reason: why.name(), about: why.about(), count }
    }

    fn chance() -> Chance {
        let low = pass(0, false, BalanceReason::NoBusiest, 3);
        let tries =
            vec![low.clone(), pass(1, true, BalanceReason::Hot, 2), pass(1, true, BalanceReason::NoQueue, 1)];
        let others = vec![
            low,
            pass(1, true, BalanceReason::Hot, 1),
            skip(0, SkipReason::TooDear, Some((21_000, 45_000))),
        ];
        Chance {
            free_ns: 4_100_000,
            cpus: vec![free(3, 4_100_000, true, tries), free(7, 900_000, false, others)],
            ticks: vec![tick(KickReason::TwoTasks, 1), tick(KickReason::TooEarly, 12)],
            helpers_busy: 1,
            reasons_missing: false,
        }
    }

    #[test]
    fn decisions_of_all_cpus_are_summed_and_those_out_of_reach_take_one_line() {
        let lines = chance_lines(&chance());
        assert!(
            lines.contains(&"6 nohz passes over domain0, out of reach of its CPU".to_owned()),
            "{lines:#?}"
        );
        assert!(lines.iter().any(|l| l.starts_with("3 nohz passes over domain1: hot, ")), "{lines:#?}");
        assert!(lines.iter().any(|l| l.ends_with("(21us against 45us)")), "{lines:#?}");
        let alone = Chance { free_ns: 5, cpus: vec![free(3, 5, true, Vec::new())], ..Chance::default() };
        let expected =
            ["cpu3 was idle for 5ns of it", "no balance pass was made for them", "no tick fell into it"];
        assert_eq!(chance_lines(&alone), expected);
        let unsaid = Chance { reasons_missing: true, ..alone };
        assert_eq!(chance_lines(&unsaid), expected[..1], "what is not known is not denied");
        assert_eq!(chance_lines(&Chance::default()), ["no CPU that it may use was idle meanwhile"]);
    }

    #[test]
    fn the_text_has_at_most_78_columns() {
        let cause = |kind: CauseKind, reason: Option<(&'static str, &'static str)>, time_ns| CauseShare {
            cause: kind.name(),
            about: kind.about(),
            reason: reason.map(|r| r.0),
            reason_about: reason.map(|r| r.1),
            stretches: 3,
            time_ns,
            time_pct: time_ns as f64 / 60_000.0,
        };
        let (busy, pulled) = (PlaceReason::TargetBusy, MoveReason::Newidle);
        let listed = |ended, moved: Option<MoveReason>, idle_meanwhile| Listed {
            task: "worker-3".into(),
            cpu: CpuId(5),
            from: Ns(1_234_000_000),
            length_ns: 4_100_000,
            cause: CauseKind::Placed.name(),
            reason: Some(busy.name()),
            ended,
            moved: moved.map(MoveReason::name),
            idle_meanwhile,
        };
        let mut found = IdleWhileWaiting {
            run: "schbench 2x24 on tiny, v4.5, sim, seed 1".into(),
            duration_ns: 1_000_000_000,
            time_ns: 5_500_000,
            share_pct: 0.55,
            stretches: 6,
            task_time_ns: 6_000_000,
            causes: vec![
                cause(CauseKind::Placed, Some((busy.name(), busy.about())), 4_500_000),
                cause(CauseKind::OutOfReach, None, 1_500_000),
            ],
            longest: vec![listed("ran", None, Some(chance())), listed("moved", Some(pulled), None)],
            notes: vec!["a note".into()],
        };
        let text = idle_while_waiting_text(&found);
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        let golden = include_str!("golden.txt");
        assert!(text == golden, "{text}");
        found.stretches = 1;
        let one = idle_while_waiting_text(&found).replace('\n', " ");
        assert!(one.contains("1 stretch, 6ms summed over tasks. By what began it:"), "{one}");
        (found.stretches, found.causes, found.longest) = (0, Vec::new(), Vec::new());
        assert!(idle_while_waiting_text(&found).contains("No task ever waited"));
    }
}
