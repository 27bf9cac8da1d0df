import os
import shutil

import matplotlib
import pytest

matplotlib.use("Agg")

EXPERIMENT = """
name = "small"
machine = "smp-4"
runs = 6
metrics = ["schbench.latency.p50", "schbench.latency.p99", "migrations", "guest.halts"]
baseline = "v4.5"
[workload]
name = "schbench"
runtime = "5s"
threads = 8
[[variant]]
name = "v4.5"
kernel = "v4.5"
[[variant]]
name = "first-idle"
kernel = "v4.5"
features = ["SIS_FIRST_IDLE"]
"""


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A folder with an experiment."""
    if not (os.environ.get("SCHEDLAB") or shutil.which("schedlab")):
        pytest.skip("needs schedlab in PATH, or its path in SCHEDLAB")
    folder = tmp_path_factory.mktemp("lab")
    (folder / "small.toml").write_text(EXPERIMENT)
    return folder
