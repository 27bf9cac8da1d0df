//! Single questions to the fair class of an image (`shim/image/oracle.c`): a runqueue in a given state, one function.

use crate::abi::{RawEntity, RawQuestion, entity};
use crate::kernel::{Kernel, policy_number};
use schedlab_base::{CpuId, Error, Result};
use schedlab_board::decision::{AskedQueue, NOW, QueueAnswer, QueueQuestion};

impl Kernel {
    /// The answer of the kernel's own code. Entities that ask for no slice have `base_slice_ns`. The booted machine is
    /// at rest: no task was ever woken.
    ///
    /// # Errors
    /// When the tree is too old to be asked.
    pub fn ask(
        &mut self,
        s: &AskedQueue,
        question: QueueQuestion,
        base_slice_ns: u64,
    ) -> Result<QueueAnswer> {
        self.enter(CpuId(0), NOW);
        let entities: Vec<RawEntity> = (0..s.entities.len()).map(|i| raw(s, i, base_slice_ns)).collect();
        let asked = RawQuestion {
            function: function(question),
            nr: entities.len() as u32,
            entities: entities.as_ptr(),
            min_vruntime: s.min_vruntime,
            ran_ns: s.ran_ns,
            about: s.about as u32,
            is_new: s.is_new.into(),
            sync: s.sync.into(),
        };
        let said = self.image().ask(&asked).map_err(|errno| match errno {
            libc::ENOSYS => Error::input("this tree can't be asked for single decisions")
                .help("its fair class has neither pick_task() nor pick_next_task_fair()"),
            _ => refuses(errno),
        })?;
        let named = |at: i32| usize::try_from(at).ok();
        Ok(match question {
            QueueQuestion::Pick => QueueAnswer::Picked(named(said.entity)),
            QueueQuestion::Place => QueueAnswer::Placed { vruntime: said.vruntime, deadline: said.deadline },
            QueueQuestion::Preempt => {
                QueueAnswer::Judged { preempts: said.resched != 0, next: named(said.next) }
            }
        })
    }
    /// All features of the tree, with their present values.
    pub fn features(&mut self) -> Vec<(String, bool)> {
        self.image().features()
    }
}

/// The error of an image that refuses a state.
pub(crate) fn refuses(errno: i32) -> Error {
    Error::internal(format!("the image refuses a state (error {errno})"))
}

/// `enum img_function`.
fn function(question: QueueQuestion) -> u32 {
    match question {
        QueueQuestion::Pick => 0,
        QueueQuestion::Place => 1,
        QueueQuestion::Preempt => 2,
    }
}

fn raw(s: &AskedQueue, i: usize, base_slice_ns: u64) -> RawEntity {
    let e = &s.entities[i];
    RawEntity {
        vruntime: e.vruntime,
        deadline: e.deadline,
        lag: e.lag,
        protected_until: e.protected_until,
        slice_ns: if e.slice_ns > 0 { e.slice_ns.into() } else { base_slice_ns },
        policy: policy_number(e.policy),
        nice: e.nice.into(),
        flags: flags(&[
            (s.current == Some(i), entity::CURRENT),
            (s.absent == Some(i), entity::ABSENT),
            (s.next == Some(i), entity::NEXT),
            (s.last == Some(i), entity::LAST),
            (s.skip == Some(i), entity::SKIP),
            (e.slice_ns > 0, entity::OWN_SLICE),
            (e.relative, entity::RELATIVE),
        ]),
    }
}

/// The flags that are set.
pub(crate) fn flags(all: &[(bool, u32)]) -> u32 {
    all.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum()
}
