//! Times that each task draws from its own stream, between half and one and a half times their mean.

use schedlab_base::{Ns, Stream};

/// Times with a uniform distribution around their mean.
pub struct Draws {
    mean: Ns,
    stream: Stream,
    drawn: u64,
}

impl Draws {
    pub fn new(mean: Ns, stream: Stream) -> Draws {
        Draws { mean, stream, drawn: 0 }
    }
    pub fn next(&mut self) -> Ns {
        self.drawn += 1;
        Ns(self.mean.0 / 2 + self.stream.below(self.drawn, self.mean.0))
    }
}
