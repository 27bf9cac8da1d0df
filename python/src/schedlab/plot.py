"""Plots by matplotlib. Each function draws on `axes`, or makes some, and returns them."""

_COLOURS = {"better": "tab:green", "worse": "tab:red", "changed": "tab:blue", "same": "tab:gray", "unclear": "silver"}


def _axes(axes):
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots()[1]


def changes(rows, axes=None):
    """Changes in percent with their 95 % intervals, coloured by verdict; rows as of `Comparison.rows`."""
    axes = _axes(axes)
    names = []
    for at, row in enumerate(rows.dropna(subset=["change_pct"]).itertuples()):
        names.append(f"{row.workload} {row.load}, {row.metric}: {row.variant}")
        colour = _COLOURS[row.verdict]
        axes.plot(row.change_pct, at, "o", color=colour)
        if row.ci95_low_pct == row.ci95_low_pct:  # not NaN
            axes.hlines(at, row.ci95_low_pct, row.ci95_high_pct, color=colour)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("change, %")
    return axes


def tails(histograms, axes=None):
    """Shares of samples above each value, on logarithmic axes; `histograms` by name."""
    axes = _axes(axes)
    for name, histogram in histograms.items():
        frame = histogram.frame()
        above = 1 - (frame["count"].cumsum() - frame["count"]) / max(histogram.count, 1)
        axes.step(frame["lowest"], above, where="post", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("share of samples at or above")
    if histograms:
        axes.set_xlabel(next(iter(histograms.values())).unit)
        axes.legend()
    return axes
