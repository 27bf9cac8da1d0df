"""Runs and results of schedlab, a laboratory for the Linux CPU scheduler, as pandas data frames.

`run`, `compare` and `study` call the executable and return a `Comparison`; `load` reads one that was saved with
`--json`. `Store` lists stored runs, and a `Record` is one of them: its histograms and its events. Times are in
nanoseconds everywhere.
"""

from .command import Failed, ask, call
from .comparison import Comparison, bench, compare, load, run, study, suite
from .histogram import Histogram
from .record import Record, Store

__all__ = [
    "Comparison",
    "Failed",
    "Histogram",
    "Record",
    "Store",
    "ask",
    "bench",
    "call",
    "compare",
    "load",
    "run",
    "study",
    "suite",
]
