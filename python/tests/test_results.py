"""The package against the executable: what it reads is what schedlab prints."""

import json

import pytest
import schedlab
from schedlab import plot
from schedlab.command import options


@pytest.fixture(scope="session")
def result(lab):
    return schedlab.run("small.toml", cwd=lab)


def test_rows_are_those_of_the_json(lab, result):
    rows = result.rows()
    asked = json.loads(schedlab.call("run", "small.toml", cwd=lab, json=True))["comparisons"]
    assert list(rows["metric"]) == [row["metric"] for row in asked]
    assert list(rows["ci95_high_pct"]) == [row["ci95_pct"][1] for row in asked]
    assert set(rows["verdict"]) <= {"better", "worse", "changed", "same", "unclear"}


def test_means_are_of_the_values_of_runs(result):
    runs, means = result.runs(), result.means()
    p99 = runs[(runs["metric"] == "schbench.latency.p99") & (runs["variant"] == "v4.5")]
    assert list(p99["seed"]) == [1, 2, 3, 4, 5, 6]
    assert means["v4.5"].xs("schbench.latency.p99", level="metric").iloc[0] == pytest.approx(p99["value"].mean())
    stated = result.data["cells"][0]["metrics"]["schbench.latency.p99"]["mean"]
    assert p99["value"].mean() == pytest.approx(stated)


def test_what_was_not_measured_has_a_reason(result):
    missing = result.missing()
    assert list(missing["metric"].unique()) == ["guest.halts"]
    assert missing["why"].str.len().min() > 0
    assert "guest.halts" not in set(result.runs()["metric"])


def test_a_saved_comparison_finds_its_runs(lab, result):
    (lab / "mine.json").write_text(json.dumps(result.data))
    loaded = schedlab.load(lab / "mine.json")
    assert loaded.rows().equals(result.rows())
    records = loaded.records(variant="first-idle")
    assert [record.data["seed"] for record in records] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(TypeError, match="varaint"):
        loaded.records(varaint="first-idle")
    (lab / "other.json").write_text('{"schema": "schedlab/run/1"}')
    with pytest.raises(ValueError, match="schedlab/run/1"):
        schedlab.load(lab / "other.json")


def test_a_histogram_has_the_percentiles_of_schedlab(result):
    record = result.records(variant="v4.5")[0]
    histogram = record.histogram("schbench.latency")
    assert histogram.frame()["count"].sum() == histogram.count
    runs = result.runs()
    for name, share in [("p50", 0.5), ("p99", 0.99)]:
        of_first = runs[(runs["metric"] == f"schbench.latency.{name}") & (runs["variant"] == "v4.5")]
        # schedlab prints the highest value of the bucket; buckets are a thousandth wide.
        assert histogram.quantile(share) == pytest.approx(of_first["value"].iloc[0], rel=2e-3)
    with pytest.raises(KeyError, match="run_delay"):
        record.histogram("no such series")


def test_a_store_lists_what_was_run(lab, result):
    store = schedlab.Store(lab / "runs")
    cells = store.cells()
    assert sorted(cells["variant"]) == ["first-idle", "v4.5"]
    assert cells["made"].dt.year.min() >= 2024
    assert len(store.records(variant="v4.5")) == 6
    assert store.records(variant="none") == []


def test_events_are_in_the_order_of_time_and_agree_with_counters(result):
    record = result.records(variant="v4.5")[0]
    events = record.events()
    assert events["time_ns"].is_monotonic_increasing
    migrated = (events["event"] == "sched_migrate_task").sum()
    # A new task's first CPU is chosen by a migration that a counter of tasks does not have.
    assert migrated >= record.counters()["migrations"] > 0
    switches = events[events["event"] == "sched_switch"]
    assert switches["next_comm"].str.startswith("worker").any()


def test_errors_name_the_exit_code_and_the_remedy(lab):
    with pytest.raises(schedlab.Failed) as failed:
        schedlab.run("none.toml", cwd=lab)
    assert failed.value.status == 2 and "none.toml" in str(failed.value)


def test_a_failed_check_still_has_its_result(lab):
    judged = schedlab.run("small.toml", cwd=lab, fail_on="unclear,same,better,worse,changed")
    assert len(judged.rows()) > 0
    with pytest.raises(schedlab.Failed) as failed:
        schedlab.run("small.toml", cwd=lab, fail_on="unclear,same,better,worse,changed", checked=True)
    assert failed.value.status == 1


def test_keywords_are_options():
    named = {"runs": 3, "metric": ["a", "b"], "all_rows": True, "quiet": False, "plot": None}
    assert options(named) == ["--runs", "3", "--metric", "a", "--metric", "b", "--all-rows"]


def test_one_run_gives_its_metrics(lab):
    metrics = schedlab.bench("schbench", backend="sim", machine="smp-4", runtime="100ms", cwd=lab)
    assert metrics["schbench.latency.p50"] > 0


def test_plots_have_what_they_show(result):
    axes = result.plot(metric="schbench.latency.p99")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["schbench default, schbench.latency.p99: first-idle"]
    records = {"v4.5": result.records(variant="v4.5")[0].histogram("schbench.latency")}
    axes = plot.tails(records)
    assert axes.get_legend().get_texts()[0].get_text() == "v4.5"
