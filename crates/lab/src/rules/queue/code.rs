//! A question to an image: a state in the terms of `shim/abi.h`, and the answer in ours.

use super::draw::Facts;
use schedlab_base::Result;
use schedlab_kernel::Policy;
use schedlab_sim::fair::oracle::{Answer, Question, State};
use schedlab_transplant::Kernel;
use schedlab_transplant::oracle::{self, Asked, AskedEntity, entity};

/// The answer of the kernel's own code.
///
/// # Errors
/// When the tree can't be asked.
pub fn answer(kernel: &mut Kernel, facts: &Facts, s: &State, question: Question) -> Result<Answer> {
    let entities: Vec<AskedEntity> = (0..s.entities.len()).map(|i| raw(facts, s, i)).collect();
    let function = match question {
        Question::Pick => Asked::Pick,
        Question::Place => Asked::Place,
        Question::Preempt => Asked::Preempt,
    };
    let said = kernel.ask(&oracle::Question {
        function,
        entities: &entities,
        min_vruntime: s.min_vruntime,
        ran_ns: s.ran_ns,
        about: s.about,
        is_new: s.is_new,
        sync: s.sync,
    })?;
    let named = |at: i32| usize::try_from(at).ok();
    Ok(match question {
        Question::Pick => Answer::Picked(named(said.entity)),
        Question::Place => Answer::Placed { vruntime: said.vruntime, deadline: said.deadline },
        Question::Preempt => Answer::Judged { preempts: said.resched != 0, next: named(said.next) },
    })
}

fn raw(facts: &Facts, s: &State, i: usize) -> AskedEntity {
    let e = &s.entities[i];
    let flags = [
        (s.current == Some(i), entity::CURRENT),
        (s.absent == Some(i), entity::ABSENT),
        (s.next == Some(i), entity::NEXT),
        (s.last == Some(i), entity::LAST),
        (s.skip == Some(i), entity::SKIP),
        (e.slice_ns > 0, entity::OWN_SLICE),
        (e.relative, entity::RELATIVE),
    ];
    AskedEntity {
        vruntime: e.vruntime,
        deadline: e.deadline,
        lag: e.lag,
        protected_until: e.protected_until,
        slice_ns: facts.slice_ns(e),
        policy: match e.policy {
            Policy::Batch => 3,
            Policy::Idle => 5,
            _ => 0,
        },
        nice: e.nice.into(),
        flags: flags.iter().filter(|(has, _)| *has).map(|(_, flag)| flag).sum(),
    }
}
