"""Places of results that cannot be written are refused in the plan."""

import shutil
from pathlib import Path

import pytest

from common.errors import InputError
from workflow_support.outputs import check_outputs
from workflow_support.plan import Plan

ROOT = Path(__file__).parents[3]
CONFIG = {"release": "tiny", "seed": 0, "eval_split": "DEV", "models": ["dsp"]}
RESULTS = "results/releases/tiny"


@pytest.fixture
def plan(tmp_path):
    for folder in ("config", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return Plan(CONFIG, tmp_path)


def test_an_empty_project_is_fine_and_stays_empty(plan):
    check_outputs(plan, ["results/floor_events/summary.json"])
    assert not (plan.root / "results").exists()


PLACES = (
    "results results/floor_events .snakemake",
    f"{RESULTS}/release {RESULTS}/embeddings/dsp {RESULTS}/folds/dsp/E-LOC-AOA {RESULTS}/logs",
    f"{RESULTS}/splits/E-LOC-AOA {RESULTS}/captures",
)


@pytest.mark.parametrize("place", " ".join(PLACES).split())
def test_a_file_in_a_folders_place_is_named(plan, place):
    path = plan.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    with pytest.raises(InputError, match=f"^{place}: a file, expected a folder$"):
        check_outputs(plan, ["results/floor_events/summary.json"])


@pytest.mark.parametrize("name", ["leaderboard.json", "release/emma-tiny.zip", "runs/dsp.json"])
def test_a_folder_in_a_files_place_is_named(plan, name):
    (plan.root / RESULTS / name).mkdir(parents=True)
    with pytest.raises(InputError, match=f"^{RESULTS}/{name}: a folder, expected a file's name$"):
        check_outputs(plan)
