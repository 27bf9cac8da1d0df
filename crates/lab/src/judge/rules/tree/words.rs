//! States and answers, in words.

use schedlab_base::Ns;
use schedlab_board::decision::{After, AskedEntity, AskedTree, Buddy, Presence, TREE_GROUPS, TreeAnswer};
use schedlab_kernel::Policy;

/// A state: a line for each task, one for each group in use, and one for the CPU.
pub fn state(s: &AskedTree, deadlines: bool, flat: bool) -> Vec<String> {
    let mut lines: Vec<String> = (0..s.tasks.len()).map(|i| task(s, i, deadlines, flat)).collect();
    let named = |g: usize| s.tasks.iter().any(|t| AskedTree::above(t.group).any(|above| above == g));
    let groups = (0..s.groups.len()).filter(|g| named(*g) || s.groups[*g].delayed);
    lines.extend(groups.map(|g| group(s, g, deadlines && !flat)));
    let mut cpu = vec![format!("queues at {}", time(s.min_vruntime))];
    if s.ran_ns > 0 && s.current.is_some() {
        cpu.push(format!("the running one is to be charged {}", Ns(s.ran_ns)));
    }
    lines.push(cpu.join(", "));
    lines
}

fn task(s: &AskedTree, i: usize, deadlines: bool, flat: bool) -> String {
    let t = &s.tasks[i];
    let mut words = vec![times(&t.entity, deadlines, t.presence != Presence::Queued)];
    if t.entity.policy != Policy::Other {
        words.push(format!("{:?}", t.entity.policy).to_uppercase());
    }
    if t.entity.nice != 0 {
        words.push(format!("nice {}", t.entity.nice));
    }
    if flat && t.group.is_some() {
        words.push(format!("weight {} of 1024", t.line_weight as f64 / 1024.0));
    }
    if s.next == Some(Buddy::Task(i)) {
        words.push("next buddy".to_owned());
    }
    let role = match t.presence {
        Presence::Absent => "sleeps",
        Presence::Delayed if s.current == Some(i) => "falls asleep, delayed",
        Presence::Delayed => "is delayed",
        Presence::Queued if s.current == Some(i) => "runs",
        Presence::Queued => "waits",
    };
    let about = if s.about == i { " (asked about)" } else { "" };
    let place = t.group.map_or("the root".to_owned(), |g| format!("group {g}"));
    format!("{i}{about} in {place} {role}: {}", words.join(", "))
}

fn group(s: &AskedTree, g: usize, competes: bool) -> String {
    let b = &s.groups[g];
    let mut words = vec![format!("weight {} of {}", b.weight as f64 / 1024.0, b.shares)];
    if competes {
        words.push(times(&b.entity, true, b.delayed || !s.is_queued(g)));
    }
    words.push(format!("load {} here, {} elsewhere", b.load, b.load_elsewhere));
    if s.next == Some(Buddy::Group(g)) {
        words.push("next buddy".to_owned());
    }
    let mut kind = String::new();
    kind += if b.idle { "idle " } else { "" };
    kind += if b.delayed { "delayed " } else { "" };
    let place = TREE_GROUPS[g].map_or(String::new(), |above| format!(" in {above}"));
    format!("{kind}group {g}{place}: {}", words.join(", "))
}

fn times(e: &AskedEntity, deadlines: bool, sleeps: bool) -> String {
    let mut words = vec![format!("vruntime {}", time(e.vruntime))];
    if deadlines {
        let what = if e.relative { "deadline in" } else { "deadline" };
        words.push(format!("{what} {}", time(e.deadline)));
    }
    if sleeps && e.lag != 0 {
        words.push(format!("lag {}", time(e.lag)));
    }
    if deadlines && e.protected_until > e.vruntime {
        words.push(format!("protected until {}", time(e.protected_until)));
    }
    words.join(", ")
}

/// Virtual time, signed.
fn time(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "" }, Ns(ns.unsigned_abs()))
}

/// The necessary parts of a smallest state: its cause, as far as parts of a state show it.
pub fn needs(s: &AskedTree) -> Vec<String> {
    let mut all = vec![format!("{} tasks", s.tasks.len())];
    let mut part = |has: bool, what: &str| {
        if has {
            all.push(what.to_owned());
        }
    };
    let depth = s.tasks.iter().map(|t| AskedTree::above(t.group).count()).max().unwrap_or(0);
    part(depth == 1, "groups");
    part(depth > 1, "nested groups");
    part(s.current.is_some(), "one runs");
    part(s.current.is_some() && s.ran_ns > 0, "a charge");
    part(s.next.is_some(), "a next buddy");
    part(s.tasks[s.about].presence == Presence::Delayed, "it is delayed");
    let others = |(i, t): (usize, &schedlab_board::decision::AskedLeaf)| {
        i != s.about && t.presence == Presence::Delayed
    };
    part(s.tasks.iter().enumerate().any(others), "a delayed task");
    part(s.groups.iter().any(|g| g.delayed), "a delayed group");
    part(s.groups.iter().any(|g| g.idle), "an idle group");
    part(s.groups.iter().any(|g| g.load + g.load_elsewhere > 0), "loads");
    part(s.tasks.iter().any(|t| t.entity.policy == Policy::Idle), "SCHED_IDLE");
    part(s.tasks.iter().any(|t| t.entity.policy == Policy::Batch), "SCHED_BATCH");
    part(s.tasks.iter().any(|t| t.entity.nice != 0), "weights");
    part(s.tasks.iter().any(|t| t.entity.relative), "a relative deadline");
    part(s.is_new, "a new task");
    part(s.sync, "a synchronous wakeup");
    all
}

pub fn answer(a: &TreeAnswer) -> String {
    let mut words = vec![format!("{} tasks count", a.nr_running)];
    words.extend(a.picked.map(|i| format!("runs {i}")));
    if a.gives_way {
        words.push("the running one gives way".to_owned());
    }
    words.extend(a.tasks.iter().enumerate().map(|(i, t)| format!("{i}: {}", after(t))));
    let groups = a.groups.iter().enumerate().filter(|(_, g)| g.on_rq);
    words.extend(groups.map(|(g, b)| format!("group {g}: {}", after(b))));
    words.join("; ")
}

fn after(a: &After) -> String {
    let mut words = vec![
        match (a.on_rq, a.delayed) {
            (false, _) => "off".to_owned(),
            (true, true) => "delayed".to_owned(),
            (true, false) => "on".to_owned(),
        },
        format!("vruntime {}", a.vruntime),
        format!("deadline {}", a.deadline),
        format!("keeps {}", a.keeps),
        format!("weight {} {}", a.weight, a.line_weight),
    ];
    if a.next {
        words.push("next buddy".to_owned());
    }
    words.join(" ")
}
