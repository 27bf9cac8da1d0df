//! Counts of call chains for flame graphs: a line per chain, outermost frame first.
//!
//! Chains are kept as addresses and named at the end, when every mapping and name is known: the rings of different CPUs
//! are emptied in turn, so a process's first samples may be read before its exec. Frames in user mode have only the
//! mapped file's name; neighbours in one file are one frame. Code without frame pointers ends a chain early.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampledTask {
    pub process: u32,
    pub thread: u32,
}

/// Chains with their numbers of samples.
#[derive(Default)]
pub struct Stacks {
    /// By task: addresses in the kernel and in user mode, innermost first.
    counts: BTreeMap<(SampledTask, Vec<u64>, Vec<u64>), u64>,
    names: BTreeMap<u32, String>,
    /// The thread that made each thread.
    parents: BTreeMap<u32, u32>,
}

/// The most ancestors that are searched for a name.
const GENERATIONS: usize = 64;

impl Stacks {
    pub fn add(&mut self, of: SampledTask, kernel: Vec<u64>, user: Vec<u64>) {
        *self.counts.entry((of, kernel, user)).or_default() += 1;
    }
    /// Sets a thread's name from now on.
    pub fn named(&mut self, thread: u32, name: &str) {
        self.names.insert(thread, name.to_owned());
    }
    /// Notes a new thread. It has its parent's name until it gets its own.
    pub fn forked(&mut self, thread: u32, parent: u32) {
        if thread != parent {
            self.parents.insert(thread, parent);
        }
    }
    /// `comm;frame;frame` with the number of samples; `kernel` and `user` name the address of a process.
    pub fn fold(
        &self,
        kernel: impl Fn(u64) -> String,
        user: impl Fn(u32, u64) -> String,
    ) -> BTreeMap<String, u64> {
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for ((of, in_kernel, in_user), count) in &self.counts {
            let mut frames =
                vec![clean(self.name(of.thread).or_else(|| self.name(of.process)).unwrap_or("[unknown]"))];
            let mut last = None;
            for object in in_user.iter().rev().map(|at| user(of.process, *at)) {
                if last.as_ref() != Some(&object) {
                    frames.push(clean(&object));
                }
                last = Some(object);
            }
            frames.extend(in_kernel.iter().rev().map(|at| clean(&kernel(*at))));
            *lines.entry(frames.join(";")).or_default() += count;
        }
        lines
    }
    fn name(&self, thread: u32) -> Option<&str> {
        if thread == 0 {
            return Some("swapper");
        }
        let up = std::iter::successors(Some(thread), |t| self.parents.get(t).copied());
        up.take(GENERATIONS).find_map(|t| self.names.get(&t)).map(String::as_str)
    }
}

/// A frame's name for readers of folded lines, where a semicolon ends a frame and a blank precedes the count.
fn clean(name: &str) -> String {
    let odd = |c: char| c == ';' || c.is_whitespace() || c.is_control();
    if name.is_empty() { "[unknown]".to_owned() } else { name.replace(odd, "_") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_named_outermost_first_and_equal_lines_are_one() {
        let mut stacks = Stacks::default();
        let of = |process, thread| SampledTask { process, thread };
        stacks.forked(8, 7);
        stacks.add(of(7, 8), vec![0x30, 0x20], vec![0x3, 0x2, 0x1]);
        stacks.add(of(7, 8), vec![0x31, 0x20], vec![0x1]);
        stacks.add(of(9, 9), vec![], vec![0x1]);
        stacks.named(7, "my; prog");
        let kernel = |at: u64| format!("k{}", at >> 4);
        let user =
            |process: u32, at: u64| if at > 1 { "libc.so".to_owned() } else { format!("exe{process}") };
        let want = [("[unknown];exe9", 1), ("my__prog;exe7;k2;k3", 1), ("my__prog;exe7;libc.so;k2;k3", 1)];
        assert_eq!(stacks.fold(kernel, user), want.map(|(l, n)| (l.to_owned(), n)).into());
    }
}
