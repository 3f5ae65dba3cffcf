"""An official run: committed, opened, told apart on the board, verified; and its seed is nowhere but in its file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent


def call(project, *command, **environment):
    environment = os.environ | {"PYTHONPATH": str(project / "src"), "PATH": f"{BIN}:{os.environ['PATH']}"} | environment
    command = [str(part) for part in command]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def official(few_release, tmp_path_factory):
    """A copy of the project with a release of few tasks after its HOLDOUT run; the seed and all that was said."""
    project = tmp_path_factory.mktemp("official") / "project"
    project.mkdir()
    for name in ("Snakefile", "config", "envs", "scripts", "src", "workflow"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, project / name)
    seed_file = project.parent / "seed"
    release = project / "config/releases/few.yaml"
    release.write_text(few_release)
    drawn = call(project, "python", "scripts/commit_holdout.py", "--release-config", release, "--seed-file", seed_file)
    assert drawn.returncode == 0, drawn.stderr
    options = ["--config", "release=few", "eval_split=HOLDOUT", "models=[prior]"]
    command = ["snakemake", "--cores", "2", "--verbose", "--printshellcmds", *options]
    target = "results/releases/few/holdout/leaderboard.json"
    run = call(project, *command, "--", target, EMMA_HOLDOUT_SEED_FILE=str(seed_file))
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    said = drawn.stdout + drawn.stderr + run.stdout + run.stderr
    return project, seed_file.read_text().strip(), said


def test_the_board_says_that_it_is_the_official_run(official):
    board = json.loads((official[0] / "results/releases/few/holdout/leaderboard.json").read_text())
    assert board["eval_split"] == "holdout"


def test_the_run_verifies(official):
    project, _, _ = official
    done = call(project, "python", "scripts/verify.py", "results/releases/few/holdout")
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_and_no_log_holds_the_seed(official):
    project, seed, said = official
    assert seed not in said
    looked = [path for path in project.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(".snakemake" in path.parts for path in looked) and any("logs" in path.parts for path in looked)
    spellings = {seed.encode(), bytes.fromhex(seed), seed.upper().encode()}
    assert [path for path in looked if any(spelling in path.read_bytes() for spelling in spellings)] == []


def test_the_seed_opens_the_commitment_and_another_does_not(official):
    project, seed, _ = official
    command = ["python", "scripts/open_holdout.py", "results/releases/few/holdout/release/manifest.json"]
    opened = call(project, *command, EMMA_HOLDOUT_SEED=seed)
    assert opened.returncode == 0 and opened.stdout.endswith("opened\n"), opened.stderr
    other = call(project, *command, EMMA_HOLDOUT_SEED="0" * 64)
    assert other.returncode == 2 and other.stderr.count("\n") == 1 and seed not in opened.stdout + opened.stderr


def test_opened_splits_go_on_record_and_bind_the_next_run(official):
    """What is recorded is what was made; the results still verify, and a record of other splits is a fault."""
    project, seed, _ = official
    manifest = "results/releases/few/holdout/release/manifest.json"
    command = ["python", "scripts/open_holdout.py", manifest, "--record", "config/releases/few.yaml"]
    assert call(project, *command, EMMA_HOLDOUT_SEED=seed).returncode == 0
    path = project / "config/releases/few.holdout.yaml"
    kept = path.read_text()
    assert yaml.safe_load(kept) == json.loads((project / manifest).read_text())["holdout"]
    verifying = ["python", "scripts/verify.py", "results/releases/few/holdout"]
    assert call(project, *verifying).returncode == 0
    path.write_text(kept.replace("scenes: ", "scenes: 1", 1))
    done = call(project, *verifying)
    path.write_text(kept)
    assert done.returncode == 1 and "few.holdout.yaml" in done.stdout


def test_splits_that_another_seed_made_do_not_open(official):
    """A manifest whose commitment names one seed and another seed's split is caught by making the splits again."""
    project, seed, _ = official
    from emma.data.release import DataReleaseManifest, manifest_record

    path = project / "results/releases/few/holdout/release/manifest.json"
    value = json.loads(path.read_text())
    value["holdout"]["splits"]["E-ID-FP"]["index_hash"] = "0" * 64
    fields = {key: value[key] for key in DataReleaseManifest.model_fields}
    forged = project.parent / "manifest.json"
    forged.write_text(json.dumps(manifest_record(DataReleaseManifest.model_validate_json(json.dumps(fields)))))
    done = call(project, "python", "scripts/open_holdout.py", forged, EMMA_HOLDOUT_SEED=seed)
    assert done.returncode == 1 and "FAULT E-ID-FP HOLDOUT" in done.stdout
