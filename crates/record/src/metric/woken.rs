//! Classes of wakeups: where a woken task goes, and the state of that CPU. The analyser counts them in this order.

/// Names in metrics (`woken.<name>`) and their meanings, from the nearest.
pub const PLACES: [(&str, &str); 6] = [
    ("prev", "on the CPU it last ran on"),
    ("waker", "on its waker's CPU, which is not the one it last ran on; what interrupts wake is never here"),
    ("core", "else on another hardware thread of the core it last ran on"),
    ("llc", "else within the last-level cache of the CPU it last ran on"),
    ("node", "else within the NUMA node of the CPU it last ran on"),
    ("far", "on another NUMA node than the CPU it last ran on, which is not its waker's CPU"),
];

/// Names in metrics and their meanings: the state of the chosen CPU.
pub const STATES: [(&str, &str); 2] = [
    ("idle", "on a CPU that was idle, with nobody queued there"),
    ("busy", "on a CPU where another task ran or was queued"),
];
