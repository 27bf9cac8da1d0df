"""Stored runs: what a store has, and one run's record with its histograms and events."""

import json
import os
import re

from .command import ask, call
from .histogram import Histogram

_EVENT = re.compile(
    r"^\s*(?P<comm>.+)-(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+\S*\s*(?P<time>[\d.]+): (?P<event>\w+): (?P<rest>.*)$"
)
_FIELD = re.compile(r"(\w+)=(.*?)(?=\s+(?:==> )?\w+=|\s*$)")


class Store:
    """A folder of stored runs (`runs/`)."""

    def __init__(self, folder="runs"):
        self.folder = os.fspath(folder)

    def cells(self):
        """A row for each cell: its place, `folder`, `seeds`, `made` (a date), `size_bytes`."""
        import pandas

        frame = pandas.DataFrame(ask("runs", out=self.folder)["cells"])
        if "made" in frame:
            frame["made"] = pandas.to_datetime(frame["made"])
        return frame

    def records(self, **place):
        """The runs of the cells with this place, as in `records(workload="schbench")`."""
        return [
            Record(os.path.join(cell["folder"], str(seed)))
            for cell in ask("runs", out=self.folder)["cells"]
            if all(cell.get(name) == value for name, value in place.items())
            for seed in cell["seeds"]
        ]


class Record:
    """One run, by its folder. `data` is its record (`schedlab/record/1`)."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        with open(os.path.join(self.folder, "record.json"), encoding="utf-8") as file:
            self.data = json.load(file)

    def __repr__(self):
        names = (self.data.get(name) for name in ("workload", "load", "kernel", "seed"))
        return f"<Record {self.folder}: {' '.join(str(name) for name in names)}>"

    def series(self):
        """Names of the series that have a histogram."""
        return sorted(self.data["series"])

    def histogram(self, name):
        """The histogram of a series, such as "schbench.latency"."""
        if name not in self.data["series"]:
            raise KeyError(f"{name}: this run has {', '.join(self.series())}")
        return Histogram(self.data["series"][name])

    def counters(self):
        """All counters by name; times in ns."""
        import pandas

        return pandas.Series(self.data["counters"], dtype=float)

    def tasks(self):
        """A row for each task: `name`, `cpu_time` (ns), switches, migrations."""
        import pandas

        return pandas.DataFrame(self.data["tasks"])

    def waits(self):
        """The longest waits for a CPU, with what is known of each."""
        import pandas

        return pandas.DataFrame(self.data["waits"])

    def events(self):
        """Each event of the run in the order of time: `time_ns`, `cpu`, `comm` and `tid` of the task that was current,
        `event`, and its fields (`next_comm`, `prev_state` and so on; `NaN` where an event lacks one). The field `comm`
        of an event is `of_comm`, and a reason is the `text` of a `tracing_mark_write`.

        A simulated run is made again for it. For Parquet: `record.events().to_parquet(FILE)`, with pyarrow.
        """
        import pandas

        text = call("trace", self.folder, format="text", output="-")
        return pandas.DataFrame(row for row in map(_event, text.splitlines()) if row)


def _event(line):
    """An event of ftrace's text as a row; `None` for a comment."""
    found = None if line.startswith("#") else _EVENT.match(line)
    if not found:
        return None
    seconds, _, fraction = found["time"].partition(".")
    time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
    row = {"time_ns": time_ns, "cpu": int(found["cpu"]), "comm": found["comm"], "tid": int(found["tid"])}
    row["event"] = found["event"]
    fields = _FIELD.findall(found["rest"]) if found["event"] != "tracing_mark_write" else [("text", found["rest"])]
    for name, value in fields:
        is_number = not name.endswith("comm") and re.fullmatch(r"-?\d+", value)
        row["of_comm" if name == "comm" else name] = int(value) if is_number else value
    return row
