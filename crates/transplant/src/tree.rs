//! Single questions to the fair class of an image about a CPU whose tasks are in groups (`shim/image/tree.c`).

use crate::abi::{RawAfter, RawTree, RawTreeAnswer, RawTreeEntity, tree_entity};
use crate::kernel::{Kernel, policy_number};
use crate::oracle::{flags, refuses};
use schedlab_base::{CpuId, Error, Result};
use schedlab_board::decision::{
    After, AskedBranch, AskedEntity, AskedLeaf, AskedTree, Buddy, NOW, Presence, TreeAnswer, TreeQuestion,
};

impl Kernel {
    /// The answer of the kernel's own code. Entities that ask for no slice have `base_slice_ns`. The booted machine is
    /// at rest: no task was ever woken.
    ///
    /// # Errors
    /// When the image can't be asked.
    pub fn ask_tree(
        &mut self,
        s: &AskedTree,
        question: TreeQuestion,
        base_slice_ns: u64,
    ) -> Result<TreeAnswer> {
        self.enter(CpuId(0), NOW);
        let tasks: Vec<RawTreeEntity> =
            s.tasks.iter().enumerate().map(|(i, t)| task(s, i, t, base_slice_ns)).collect();
        let groups: Vec<RawTreeEntity> =
            s.groups.iter().enumerate().map(|(i, g)| group(s, i, g, base_slice_ns)).collect();
        let asked = RawTree {
            function: function(question),
            nr_tasks: tasks.len() as u32,
            tasks: tasks.as_ptr(),
            groups: groups.as_ptr(),
            min_vruntime: s.min_vruntime,
            ran_ns: s.ran_ns,
            about: s.about as u32,
            is_new: s.is_new.into(),
            sync: s.sync.into(),
        };
        let said = self.image().ask_tree(&asked).map_err(|errno| match errno {
            libc::ENOSYS => Error::internal("this image can't be asked about groups"),
            _ => refuses(errno),
        })?;
        Ok(answer(&said, s))
    }
}

fn answer(said: &RawTreeAnswer, s: &AskedTree) -> TreeAnswer {
    TreeAnswer {
        picked: usize::try_from(said.entity).ok(),
        gives_way: said.resched != 0,
        nr_running: said.nr_running,
        tasks: said.tasks[..s.tasks.len()].iter().map(after).collect(),
        groups: said.groups.iter().map(after).collect(),
    }
}

fn after(a: &RawAfter) -> After {
    After {
        on_rq: a.on_rq != 0,
        delayed: a.delayed != 0,
        next: a.next != 0,
        relative: a.relative != 0,
        vruntime: a.vruntime,
        deadline: a.deadline,
        keeps: a.keeps,
        weight: a.weight,
        line_weight: a.line_weight,
    }
}

/// `enum img_tree_function`.
fn function(question: TreeQuestion) -> u32 {
    match question {
        TreeQuestion::Pick => 0,
        TreeQuestion::Wake => 1,
        TreeQuestion::Sleep => 2,
        TreeQuestion::Preempt => 3,
        TreeQuestion::Tick => 4,
    }
}

fn entity(e: &AskedEntity, base_slice_ns: u64) -> RawTreeEntity {
    RawTreeEntity {
        vruntime: e.vruntime,
        deadline: e.deadline,
        protected_until: e.protected_until,
        keeps: e.lag,
        slice_ns: if e.slice_ns > 0 { e.slice_ns.into() } else { base_slice_ns },
        policy: policy_number(e.policy),
        nice: e.nice.into(),
        flags: flags(&[(e.slice_ns > 0, tree_entity::OWN_SLICE), (e.relative, tree_entity::RELATIVE)]),
        group: -1,
        ..RawTreeEntity::default()
    }
}

fn task(s: &AskedTree, i: usize, t: &AskedLeaf, base_slice_ns: u64) -> RawTreeEntity {
    let mut raw = entity(&t.entity, base_slice_ns);
    raw.group = t.group.map_or(-1, |g| g as i32);
    raw.weight = t.line_weight;
    raw.flags |= flags(&[
        (s.current == Some(i), tree_entity::CURRENT),
        (t.presence == Presence::Absent, tree_entity::ABSENT),
        (t.presence == Presence::Delayed, tree_entity::DELAYED),
        (s.next == Some(Buddy::Task(i)), tree_entity::NEXT),
    ]);
    raw
}

fn group(s: &AskedTree, i: usize, g: &AskedBranch, base_slice_ns: u64) -> RawTreeEntity {
    let mut raw = entity(&g.entity, base_slice_ns);
    let named = match s.next {
        Some(Buddy::Task(t)) => s.tasks[t].group,
        Some(Buddy::Group(g)) => Some(g),
        None => None,
    };
    (raw.weight, raw.shares, raw.idle) = (g.weight, g.shares, g.idle.into());
    (raw.load, raw.load_elsewhere, raw.runnable) = (g.load, g.load_elsewhere, g.runnable);
    raw.flags |= flags(&[
        (s.runs_below(i), tree_entity::CURRENT),
        (g.delayed, tree_entity::DELAYED),
        (AskedTree::above(named).any(|above| above == i), tree_entity::NEXT),
    ]);
    raw
}
