"""What several folders of tests share."""

import shutil
from pathlib import Path

import pytest
import yaml

from emma.tasks import TaskID

#: Tasks of the release of few: a regression, a classification and an enrolment.
FEW = ("E-LOC-AOA", "E-LOC-LOS", "E-ID-FP")


@pytest.fixture(scope="session")
def few_release() -> str:
    """``config/releases/few.yaml``: tiny without most of its tasks, for runs of the workflow from nothing."""
    base = Path(__file__).resolve().parents[1] / "config/releases/base.yaml"
    stressed = yaml.safe_load(base.read_text())["stress_regimes"]
    without = {task.value: None for task in TaskID if task.value not in FEW}
    few = {"extends": "tiny", "release": "few", "tasks": without, "rfgen": {"tasks": without}}
    return yaml.safe_dump(few | {"stress_regimes": {task: None for task in without if task in stressed}})


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests of a process, which can hold no second driver."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright here: make setup installs it")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here: tests/install_tools.sh installs it")
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()
