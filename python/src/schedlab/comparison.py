"""Comparisons (`schedlab/comparison/1`): means, changes with intervals and verdicts, and the value of each run."""

import json
import os

from .command import ask
from .record import Record

_PLACE = ["backend", "machine", "kernel", "workload", "load", "variant"]
_SCHEMA = "schedlab/comparison/1"


class Comparison:
    """What `run --json` prints, in `data`, as data frames. Folders of runs are relative to `base`."""

    def __init__(self, data, base="."):
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != _SCHEMA:
            raise ValueError(f"this has the schema {schema}, not {_SCHEMA}")
        self.data, self.base = data, base

    def rows(self):
        """A row for each change: place, `metric`, `change_pct`, `ci95_low_pct`, `ci95_high_pct`, `p`, `verdict`."""
        import pandas

        rows = []
        for row in self.data["comparisons"]:
            row = dict(row)
            low, high = row.pop("ci95_pct", None) or (None, None)
            rows.append({**row, "ci95_low_pct": low, "ci95_high_pct": high})
        return pandas.DataFrame(rows)

    def runs(self):
        """A row for each value: place, `metric`, `unit`, `better`, `seed` and `value`.

        The values of a metric that some runs lack have no seed: the comparison does not say which.
        """
        import pandas

        rows = []
        for cell in self.data["cells"]:
            place = {name: cell.get(name) for name in _PLACE}
            for name, metric in cell["metrics"].items():
                values = metric.get("values", [])
                seeds = cell.get("seeds", [])
                if metric.get("missing_runs") or len(seeds) != len(values):
                    seeds = [None] * len(values)
                head = {**place, "metric": name, "unit": metric.get("unit"), "better": metric.get("better")}
                rows += [{**head, "seed": seed, "value": value} for seed, value in zip(seeds, values)]
        columns = [*_PLACE, "metric", "unit", "better", "seed", "value"]
        return pandas.DataFrame(rows, columns=columns)

    def missing(self):
        """A row for each metric of a cell that was not measured, with the reason."""
        import pandas

        rows = [
            {**{name: cell.get(name) for name in _PLACE}, "metric": name, "why": metric["missing"]}
            for cell in self.data["cells"]
            for name, metric in cell["metrics"].items()
            if "missing" in metric
        ]
        return pandas.DataFrame(rows, columns=[*_PLACE, "metric", "why"])

    def means(self):
        """Means over runs: a row for each load and metric, a column for each variant."""
        index = ["machine", "workload", "load", "metric"]
        return self.runs().pivot_table(index=index, columns="variant", values="value", sort=False)

    def records(self, **place):
        """The stored runs of the cells with this place, as in `records(variant="first-idle", load="2x24")`."""
        unknown = sorted(set(place) - set(_PLACE))
        if unknown:
            raise TypeError(f"a place has {', '.join(_PLACE)}, not {', '.join(unknown)}")
        return [
            Record(os.path.join(self.base, folder, str(seed)))
            for cell in self.data["cells"]
            if all(cell.get(name) == value for name, value in place.items())
            for folder in cell.get("folders", [])
            for seed in cell.get("seeds", [])
            if os.path.isdir(os.path.join(self.base, folder, str(seed)))
        ]

    def warnings(self):
        """Warnings of the comparison and its runs, as text."""
        return [warning["message"] for warning in self.data.get("warnings", [])]

    def plot(self, metric=None, axes=None):
        """Changes with their 95 % intervals, a line for each row (of one metric, if it is named). Needs matplotlib."""
        from .plot import changes

        rows = self.rows()
        return changes(rows[rows["metric"] == metric] if metric and len(rows) else rows, axes)


def load(path):
    """A comparison that was saved with `--json`. Folders of its runs count from the file's own folder."""
    with open(path, encoding="utf-8") as file:
        try:
            data = json.load(file)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)} is not what --json prints: {error}") from error
    return Comparison(data, os.path.dirname(os.path.abspath(path)))


def _asked(*words, cwd=None, **named):
    return Comparison(ask(*words, cwd=cwd, **named), cwd or os.getcwd())


def run(experiment, **named):
    """`schedlab run`: makes the runs that are missing, and compares the variants. `cwd` is the working folder."""
    return _asked("run", experiment, **named)


def study(name, **named):
    """`schedlab study NAME`."""
    return _asked("study", name, **named)


def suite(*variants, **named):
    """`schedlab suite VARIANT...`."""
    return _asked("suite", *variants, **named)


def compare(*runs, **named):
    """`schedlab compare RUNS...`: stored runs, or saved outputs of tools, each a variant: "old=o1.txt,o2.txt"."""
    return _asked("compare", *runs, **named)


def bench(workload, *words, **named):
    """`schedlab bench WORKLOAD`: one run; its metrics as a series of values by name."""
    import pandas

    metrics = ask("bench", workload, *words, **named)["metrics"]
    return pandas.Series({name: metric["value"] for name, metric in metrics.items() if _is_number(metric)}, dtype=float)


def _is_number(metric):
    return isinstance(metric.get("value"), (int, float))
