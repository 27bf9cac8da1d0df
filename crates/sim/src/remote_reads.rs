//! The cost of reading remote state: a hit if the line is unchanged since this CPU last read it, else a miss by
//! distance. Each CPU's runqueue counts as one line, which every change invalidates for all readers.

use schedlab_base::CpuId;
use schedlab_machine::{Costs, Distance, Topology};
use std::hint::select_unpredictable;

/// For each CPU's line, the CPUs that have read it since it last changed, as in a cache's directory. The lines of 224
/// CPUs take 7 KB this way; a version number for each pair would take 200 KB.
pub struct RemoteReads {
    /// Bit sets of readers; each line has a power of two of words.
    holders: Vec<u64>,
    /// log2 of the words of a line.
    shift: u32,
    /// The cache of each CPU.
    cache: Vec<u32>,
    distance: Vec<Distance>,
    n: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineRead {
    /// The line was unchanged, or the reader's own.
    Hit,
    /// The line was dirtied by a CPU of the same cache.
    MissNear,
    /// The line came from another cache or package.
    MissFar,
}

impl RemoteReads {
    /// All lines are clean.
    pub fn new(topology: &Topology) -> RemoteReads {
        let n = topology.nr_cpus();
        let mut distance = Vec::with_capacity(n * n);
        for a in 0..n {
            distance.extend((0..n).map(|b| topology.distance(CpuId::from(a), CpuId::from(b))));
        }
        let cache = topology.cpus.iter().map(|c| c.llc).collect();
        let words = n.div_ceil(64).next_power_of_two();
        RemoteReads { holders: vec![0; n * words], shift: words.ilog2(), cache, distance, n }
    }
    /// `cpu` changed its line.
    #[inline]
    pub fn dirty(&mut self, cpu: CpuId) {
        let line = &mut self.holders[cpu.index() << self.shift..][..1 << self.shift];
        // Few words are cleared here and not by a call: this happens several times a wakeup.
        match line {
            [a] => *a = 0,
            [a, b] => (*a, *b) = (0, 0),
            [a, b, c, d] => (*a, *b, *c, *d) = (0, 0, 0, 0),
            _ => line.fill(0),
        }
    }
    #[inline]
    pub fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        if a == b { Distance::Own } else { self.distance[a.index() * self.n + b.index()] }
    }
    /// `reader` reads `cpu`'s line.
    #[inline]
    pub fn read(&mut self, reader: CpuId, cpu: CpuId) -> LineRead {
        self.by(reader).read(cpu)
    }
    /// The lines as seen by `reader`, for many reads.
    #[inline]
    pub fn by(&mut self, reader: CpuId) -> LineReader<'_> {
        LineReader {
            holders: &mut self.holders,
            word: reader.index() / 64,
            shift: self.shift,
            bit: 1 << (reader.index() % 64),
            cache: &self.cache[..self.n],
            own_cache: self.cache[reader.index()],
            reader,
        }
    }
}

pub struct LineReader<'l> {
    holders: &'l mut [u64],
    word: usize,
    shift: u32,
    bit: u64,
    cache: &'l [u32],
    own_cache: u32,
    reader: CpuId,
}

impl LineReader<'_> {
    #[inline]
    pub fn read(&mut self, cpu: CpuId) -> LineRead {
        if self.reader == cpu {
            return LineRead::Hit;
        }
        let holders = &mut self.holders[cpu.index() << self.shift | self.word];
        if *holders & self.bit != 0 {
            return LineRead::Hit;
        }
        *holders |= self.bit;
        if self.cache[cpu.index()] == self.own_cache { LineRead::MissNear } else { LineRead::MissFar }
    }
    /// The reader visits `cpu` in a balance pass; returns the cost, ns. Selects instead of branching: whether a line
    /// has changed can't be predicted.
    #[inline]
    pub fn visit_ns(&mut self, costs: &Costs, cpu: CpuId) -> u64 {
        let holders = &mut self.holders[cpu.index() << self.shift | self.word];
        // The bit of one's own line has no meaning: it is always a hit.
        let hit = (self.reader == cpu) | (*holders & self.bit != 0);
        *holders |= self.bit;
        let near = self.cache[cpu.index()] == self.own_cache;
        let miss_ns = select_unpredictable(near, costs.visit_miss_near_ns, costs.visit_miss_far_ns);
        select_unpredictable(hit, costs.visit_hit_ns, miss_ns)
    }
}

/// Cost of probing a CPU's idle state, ns.
#[inline]
pub fn probe_ns(costs: &Costs, read: LineRead) -> u64 {
    match read {
        LineRead::Hit => costs.probe_hit_ns,
        LineRead::MissNear => costs.probe_miss_near_ns,
        LineRead::MissFar => costs.probe_miss_far_ns,
    }
}
/// Cost of visiting a CPU in a balance pass, ns.
#[inline]
pub fn visit_ns(costs: &Costs, read: LineRead) -> u64 {
    match read {
        LineRead::Hit => costs.visit_hit_ns,
        LineRead::MissNear => costs.visit_miss_near_ns,
        LineRead::MissFar => costs.visit_miss_far_ns,
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_machine::{Cpu, Machine};

    fn two_sockets() -> Topology {
        let cpu = |c: u32| Cpu { package: c / 2, node: c / 2, llc: c / 2, cluster: c, core: c, thread: 0 };
        let node_distance = vec![vec![10, 21], vec![21, 10]];
        let cpus = (0..4).map(cpu).collect();
        Topology::plain(cpus, node_distance)
    }

    #[test]
    fn a_line_is_missed_once_per_change_and_reader() {
        let mut lines = RemoteReads::new(&two_sockets());
        let (a, b, far) = (CpuId(0), CpuId(1), CpuId(2));
        assert_eq!(lines.read(a, b), LineRead::MissNear);
        assert_eq!(lines.read(a, b), LineRead::Hit);
        assert_eq!(lines.read(far, b), LineRead::MissFar, "another reader has its own copy to lose");
        lines.dirty(b);
        assert_eq!(lines.read(a, b), LineRead::MissNear);
        lines.dirty(a);
        assert_eq!(lines.read(a, a), LineRead::Hit, "one's own line is at hand");
    }

    #[test]
    fn a_visit_costs_as_much_as_its_read() {
        let costs = Machine::load("nodes-2x4").expect("a machine").costs;
        let distinct = [costs.visit_hit_ns, costs.visit_miss_near_ns, costs.visit_miss_far_ns];
        assert!(distinct.is_sorted() && distinct[0] < distinct[1] && distinct[1] < distinct[2]);
        let (mut by_read, mut by_visit) =
            (RemoteReads::new(&two_sockets()), RemoteReads::new(&two_sockets()));
        for step in 0..200u32 {
            let (reader, cpu) = (CpuId(step * 7 % 4), CpuId(step * 5 % 11 % 4));
            if step % 3 == 0 {
                by_read.dirty(cpu);
                by_visit.dirty(cpu);
            }
            let cost = visit_ns(&costs, by_read.read(reader, cpu));
            assert_eq!(by_visit.by(reader).visit_ns(&costs, cpu), cost, "step {step}: {reader} visits {cpu}");
        }
    }

    #[test]
    fn each_of_more_readers_than_a_word_has_bits_has_a_copy_of_its_own() {
        let one = two_sockets().cpus[0];
        let cpus = (0..130).map(|c| Cpu { core: c, cluster: c, ..one }).collect();
        let mut lines = RemoteReads::new(&Topology { cpus, ..two_sockets() });
        for _ in 0..2 {
            // 1, 65 and 129 have the same bit in three words.
            for reader in [1, 65, 129].map(CpuId) {
                assert_eq!(
                    [0, 1].map(|_| lines.read(reader, CpuId(7))),
                    [LineRead::MissNear, LineRead::Hit],
                    "{reader}"
                );
            }
            lines.dirty(CpuId(7));
        }
    }
}
