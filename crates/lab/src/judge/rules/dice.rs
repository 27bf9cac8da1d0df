//! Draws in sequence.

use schedlab_base::random::Stream;

pub struct Dice {
    stream: Stream,
    next: u64,
}

impl Dice {
    pub fn new(stream: Stream) -> Dice {
        Dice { stream, next: 0 }
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next += 1;
        self.stream.below(self.next, n)
    }
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1) as u64) as i64
    }
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
