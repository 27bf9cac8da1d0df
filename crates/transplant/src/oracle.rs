//! Single questions to the fair class of an image (`shim/image/oracle.c`): a runqueue in a given state, one function.

use crate::abi::RawQuestion;
pub use crate::abi::{Asked, AskedEntity, RawAnswer as Answer, entity};
use crate::kernel::Kernel;
use schedlab_base::{CpuId, Error, Result};

/// Entities for which an image has room.
pub const MAX_ENTITIES: usize = 16;
/// When all questions are asked, ns of the kernel's clock.
pub(crate) const NOW: u64 = 10_000_000_000;

/// A question; the values are those of `struct img_question`.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    pub function: Asked,
    /// In the order in which they were queued.
    pub entities: &'a [AskedEntity],
    pub min_vruntime: i64,
    pub ran_ns: u64,
    pub about: usize,
    pub is_new: bool,
    pub sync: bool,
}

impl Kernel {
    /// The answer of the kernel's own code. The machine of its boot is at rest: no task was ever woken.
    ///
    /// # Errors
    /// When the tree is too old to be asked.
    pub fn ask(&mut self, q: &Question<'_>) -> Result<Answer> {
        self.enter(CpuId(0), NOW);
        let raw = RawQuestion {
            function: q.function as u32,
            nr: q.entities.len() as u32,
            entities: q.entities.as_ptr(),
            min_vruntime: q.min_vruntime,
            ran_ns: q.ran_ns,
            about: q.about as u32,
            is_new: q.is_new.into(),
            sync: q.sync.into(),
        };
        self.image().ask(&raw).map_err(|errno| match errno {
            libc::ENOSYS => Error::input("this tree can't be asked for single decisions")
                .help("its fair class has neither pick_task() nor pick_next_task_fair()"),
            _ => Error::internal(format!("the image refuses a state (error {errno})")),
        })
    }
    /// All features of the tree, with what they are now.
    pub fn features(&mut self) -> Vec<(String, bool)> {
        self.image().features()
    }
}
