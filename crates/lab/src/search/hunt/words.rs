//! A specimen in words: a line for each kind of tasks, and for each part of the surroundings.

use super::specimen::{Cpus, Rest, Specimen, TaskKind, Then, name};

impl Specimen {
    /// A line for each kind of tasks.
    pub fn words(&self) -> Vec<String> {
        let kinds = self.kinds.iter().enumerate().map(|(i, kind)| format!("{}: {}", name(i), kind.words()));
        kinds.chain(self.around.words()).collect()
    }
}

impl TaskKind {
    fn words(&self) -> String {
        let us = |us: u32| schedlab_base::Ns::us(u64::from(us)).to_string();
        let mut all = vec![format!("{} {}", self.count, if self.count == 1 { "task" } else { "tasks" })];
        all.extend(self.woken_by.map(|by| format!("woken by {}", name(by))));
        all.extend((self.locked_us > 0).then(|| format!("run {} under the lock", us(self.locked_us))));
        all.push(format!("run {}", us(self.run_us)));
        all.extend(self.meets.then(|| "meet".to_owned()));
        match (self.woken_by, self.rest) {
            (Some(_), _) | (None, Rest::None) => {}
            (None, Rest::Sleep(time)) => all.push(format!("sleep {}", us(time))),
            (None, Rest::Timer(time)) => all.push(format!("every {}", us(time))),
        }
        all.extend((self.nice != 0).then(|| format!("nice {}", self.nice)));
        all.extend(self.policy.words());
        all.extend((self.cpus != Cpus::All).then(|| self.cpus.words().to_owned()));
        all.extend(self.group.map(|g| format!("in group {g}")));
        all.extend(self.forked_by.map(|by| format!("forked by each {}", name(by))));
        all.extend(self.then.as_ref().map(Then::words));
        all.join(", ")
    }
}

impl Then {
    fn words(&self) -> String {
        let policy = self.policy.words().unwrap_or_else(|| "SCHED_OTHER".to_owned());
        let nice = if self.policy.is_rt() { String::new() } else { format!(" of nice {}", self.nice) };
        format!("after {} runs {policy}{nice} {} for as many", self.runs, self.cpus.words())
    }
}
