//! Strips show CPUs over time: which task each CPU ran and how many tasks waited there, over a whole run, small enough
//! for a page.
//!
//! A simulated run is made again; for a kernel's run the events stored next to its record are read. A sink packs each
//! CPU's stays and the length of its queue ([`track`]). A run with more pieces than fit into `room` bytes is shown in
//! bins ([`coarse`]): [`Strips::bin`] is their width, and [`Strips::exact`] has the windows around the longest waits,
//! which keep every piece. There are also counts over time: tasks running, tasks waiting and, for simulated runs, the
//! time in which some task waited while a CPU that it may use was idle, as `explain --idle-while-waiting` defines it.
//! Times are nanoseconds since the run began, warm-up included.

mod coarse;
pub mod gather;
mod steps;
pub mod track;
pub mod who;

pub use coarse::Window;
use coarse::{coarse, whole_bins};
use schedlab_analyse::TaskName;
use schedlab_base::Ns;
use schedlab_record::Wait;
use track::Track;

/// Number of bins of the counts over time.
pub const COUNTS: u64 = 1500;
/// The narrowest bin of tracks, ns. Wider bins are powers of two times this.
const NARROWEST: u64 = 1024;
/// The most of the longest waits around which every piece is kept, if these pieces fit into their share of the room.
pub const EXACT_WAITS: usize = 20;
/// Their share of the room is 1/N.
const EXACT_SHARE: usize = 3;
/// Time that is kept before and after such a wait, and the most that is kept of the wait itself, ns.
const AROUND: u64 = 1_000_000;
const MOST_OF_WAIT: u64 = 20_000_000;

#[derive(Clone, PartialEq, Debug)]
pub struct Strips {
    pub end: Ns,
    /// End of its warm-up.
    pub measured_from: Ns,
    /// By task id.
    pub names: Vec<TaskName>,
    /// By CPU: which task ran ([`who`]).
    pub who: Vec<Track>,
    /// By CPU: tasks queued there that did not run.
    pub depth: Vec<Track>,
    /// Width of the bins of the counts.
    pub width: Ns,
    /// By bin: number of CPUs that ran a task of the workload, summed over ns.
    pub running: Vec<u64>,
    /// By bin: number of tasks that were queued and did not run, summed over ns.
    pub waiting: Vec<u64>,
    /// Time in which some task waited while a CPU that it may use was idle; `None` for real kernels, which do not
    /// report it.
    pub beside_idle: Option<BesideIdle>,
    /// Events that were lost by a recording.
    pub lost: u64,
    /// Width of the tracks' bins; `None` if every piece is there.
    pub bin: Option<Ns>,
    /// If there are bins: the windows in which every piece is there.
    pub exact: Vec<Window>,
    /// Number of pieces of all tracks before binning.
    pub pieces: u64,
}

/// Time in which some task waited while a CPU that it may use was idle, without the warm-up.
#[derive(Clone, PartialEq, Debug)]
pub struct BesideIdle {
    /// By bin of the counts, ns.
    pub by_bin: Vec<u64>,
    /// The sum over all bins.
    pub covered: Ns,
}

/// The windows around the longest waits, longest first.
pub fn windows(waits: &[Wait]) -> Vec<Window> {
    let around = |w: &Wait| {
        let until = w.woken_at.0 + w.length_ns.min(MOST_OF_WAIT) + AROUND;
        (w.woken_at.0.saturating_sub(AROUND), until)
    };
    waits.iter().take(EXACT_WAITS).map(around).collect()
}

impl Strips {
    /// Bytes of all tracks.
    pub fn size(&self) -> usize {
        self.who.iter().chain(&self.depth).map(Track::size).sum()
    }
    fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.who.iter().chain(&self.depth)
    }

    /// The strips within `room` bytes, in bins if needed. As many of the first windows stay exact as fit into their
    /// share, once widened to whole bins. At least one bin per track remains.
    #[must_use]
    pub fn fitted(mut self, room: usize, windows: &[Window]) -> Strips {
        self.pieces = self.tracks().map(Track::count).sum();
        if self.size() <= room {
            return self;
        }
        let mut kept = windows;
        let mut bin = NARROWEST;
        loop {
            kept = self.within_share(kept, bin, room / EXACT_SHARE);
            let fitted = self.in_bins(bin, &whole_bins(kept, bin));
            if fitted.size() <= room {
                return fitted;
            }
            if bin >= self.end.0 {
                return self.in_bins(bin, &[]);
            }
            bin *= if fitted.size() / 8 > room { 4 } else { 2 };
        }
    }

    /// The first windows that together take at most `share` bytes, widened to whole bins.
    fn within_share<'w>(&self, windows: &'w [Window], bin: u64, share: usize) -> &'w [Window] {
        if windows.is_empty() {
            return windows;
        }
        let whole = self.end.0.max(bin);
        let counts = [windows.len(), windows.len() / 2, windows.len() / 4, windows.len().min(1)];
        let fits = |n: &usize| {
            // A single bin between windows, so that only the windows take space.
            self.in_bins(whole, &whole_bins(&windows[..*n], bin)).size() <= share
        };
        &windows[..counts.into_iter().find(fits).unwrap_or(0)]
    }

    fn in_bins(&self, bin: u64, exact: &[Window]) -> Strips {
        let end = self.end.0;
        let tracks = |all: &[Track], key: fn(u32) -> u32| -> Vec<Track> {
            all.iter().map(|t| coarse(t, end, bin, exact, key)).collect()
        };
        Strips {
            who: tracks(&self.who, who::task_alone),
            depth: tracks(&self.depth, |value| value),
            bin: Some(Ns(bin)),
            exact: exact.to_vec(),
            names: self.names.clone(),
            running: self.running.clone(),
            waiting: self.waiting.clone(),
            beside_idle: self.beside_idle.clone(),
            ..*self
        }
    }

    /// The tracks of all CPUs as bytes, one after the other: the number of a track's pieces, then the pieces.
    pub fn packed(tracks: &[Track]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for track in tracks {
            track::put(&mut bytes, track.count());
            bytes.extend_from_slice(track.bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests;
