//! A number that changes in steps, summed over time in bins. Its mean in a bin is the sum divided by the bin's width.

#[derive(Clone, Debug)]
pub struct Steps {
    width: u64,
    now: i64,
    since: u64,
    bins: Vec<u64>,
}

impl Steps {
    /// The number is 0 at first; bins have `width` ns.
    pub fn new(width: u64) -> Steps {
        Steps { width: width.max(1), now: 0, since: 0, bins: Vec::new() }
    }
    /// Adds `more` to the number from `at` on.
    pub fn add(&mut self, at: u64, more: i64) {
        self.spend(at);
        self.now += more;
    }
    /// The width, ns, and for each bin the number summed over ns.
    pub fn finish(mut self, end: u64) -> (u64, Vec<u64>) {
        self.spend(end);
        self.bins.resize(end.div_ceil(self.width) as usize, 0);
        (self.width, self.bins)
    }
    fn spend(&mut self, until: u64) {
        let times = self.now.max(0) as u64;
        while self.since < until {
            let bin = self.since / self.width;
            let next = ((bin + 1) * self.width).min(until);
            if self.bins.len() <= bin as usize {
                self.bins.resize(bin as usize + 1, 0);
            }
            self.bins[bin as usize] += times * (next - self.since);
            self.since = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_numbers_multiplied_by_time() {
        let mut s = Steps::new(10);
        s.add(5, 2);
        s.add(12, 1);
        s.add(12, -3);
        s.add(38, 1);
        assert_eq!(s.finish(42), (10, vec![10, 4, 0, 2, 2]));
        assert_eq!(Steps::new(10).finish(25), (10, vec![0, 0, 0]));
    }
}
