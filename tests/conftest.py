"""What several folders of tests share."""

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
