"""The secret split: a commitment beside the release, the seed that alone opens it, and the splits that it made."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import InputError
from common.hashing import sha256
from emma.data.freezing import freeze
from emma.data.holdout import (
    HIDDEN_VARIABLE,
    SEED_VARIABLES,
    check_opened,
    commitment_path,
    holdout_seed,
    load_commitment,
    split_seed,
    write_commitment,
)
from emma.data.labels import label_field, labels_beside, read_labels
from emma.data.release import (
    DataReleaseManifest,
    HoldoutCommitment,
    SplitRecord,
    load_release_config,
    manifest_record,
    read_assigned,
    release_names,
)
from emma.data.scenes import METADATA_SCHEMA, SceneChunk, iterate_scenes, write_scenes
from emma.tasks import Split, TaskID

ROOT = Path(__file__).parents[3]
RELEASES = ROOT / "config" / "releases"
SEED = "0123456789abcdef0123456789abcdef"
BOUND = HoldoutCommitment(seed_sha256=sha256(SEED.encode()))
RECORD = SplitRecord(scenes=1, index_hash="0" * 64, labels_hash="0" * 64)


@pytest.fixture(autouse=True)
def no_seed(monkeypatch):
    for name in ("EMMA_HOLDOUT_SEED", "EMMA_HOLDOUT_SEED_FILE"):
        monkeypatch.delenv(name, raising=False)


def opened(world, **splits) -> DataReleaseManifest:
    splits = {TaskID(name.replace("_", "-")): record for name, record in splits.items()}
    return world.manifest.model_copy(update={"holdout": BOUND.model_copy(update={"splits": splits})})


def test_the_releases_that_are_scored_in_public_are_committed():
    """The hashes of the maintainer's seeds."""
    seeds = {name: load_commitment(RELEASES / f"{name}.yaml") for name in release_names(RELEASES)}
    assert {name: bound.seed_sha256 for name, bound in seeds.items() if bound} == {
        "v0.1": "ba6e95396b168a9462416c74bb6d1bc68ca51a1b73c138d30e3461fea3b709b6",
        "v1.0": "858c519cc67c6bd7f2e292061ff2ce79863956fb15d0ef6fd12dae4bb4b3a85d",
    }


def test_holdout_opens_with_its_seed_alone(monkeypatch, tmp_path):
    with pytest.raises(InputError, match="EMMA_HOLDOUT_SEED"):
        holdout_seed("tiny", BOUND)
    monkeypatch.setenv("EMMA_HOLDOUT_SEED_FILE", str(tmp_path / "none"))
    with pytest.raises(InputError, match="EMMA_HOLDOUT_SEED_FILE: cannot be read"):
        holdout_seed("tiny", BOUND)
    (tmp_path / "seed").write_text(f"{SEED}\n")
    monkeypatch.setenv("EMMA_HOLDOUT_SEED_FILE", str(tmp_path / "seed"))
    assert holdout_seed("tiny", BOUND) == SEED
    monkeypatch.setenv("EMMA_HOLDOUT_SEED", SEED[:-1])
    with pytest.raises(InputError, match="is not the one") as caught:
        holdout_seed("tiny", BOUND)
    assert SEED[:-1] not in str(caught.value)
    monkeypatch.setenv("EMMA_HOLDOUT_SEED", SEED)
    with pytest.raises(InputError, match=r"no file tiny\.holdout\.yaml"):
        holdout_seed("tiny", None)


def test_a_split_has_the_release_s_seed_and_holdout_the_secret_one(monkeypatch, tmp_path):
    path = tmp_path / "own.yaml"
    assert split_seed(path, 5, "DEV") == 5
    monkeypatch.setenv("EMMA_HOLDOUT_SEED", SEED)
    with pytest.raises(InputError, match=r"own\.holdout\.yaml"):
        split_seed(path, 5, "HOLDOUT")
    write_commitment(commitment_path(path), BOUND)
    assert split_seed(path, 5, "HOLDOUT") == SEED


@pytest.mark.parametrize("splits", [None, {TaskID.E_LOC_AOA: RECORD}])
def test_a_commitment_is_read_as_it_was_written(tmp_path, splits):
    bound = BOUND.model_copy(update={"splits": splits})
    write_commitment(commitment_path(tmp_path / "own.yaml"), bound)
    assert load_commitment(tmp_path / "own.yaml") == bound


def test_opened_splits_are_held_to_those_on_record(world):
    manifest = opened(world, E_LOC_AOA=RECORD)
    check_opened(manifest, BOUND, "m.json")
    check_opened(manifest, manifest.holdout, "m.json")
    other = {TaskID.E_LOC_AOA: RECORD.model_copy(update={"index_hash": "1" * 64})}
    with pytest.raises(InputError, match=r"m\.json: holdout\.splits\.E-LOC-AOA: expected the split in"):
        check_opened(manifest, BOUND.model_copy(update={"splits": other}), "m.json")
    with pytest.raises(InputError, match=r"holdout\.seed_sha256: .* has 1111"):
        check_opened(manifest, HoldoutCommitment(seed_sha256="1" * 64), "m.json")
    with pytest.raises(InputError, match="has no commitment"):
        check_opened(manifest, None, "m.json")


@pytest.fixture
def three_splits(world, tmp_path):
    """A release of one task with an opened split, whose scenes are DEV's turned by a quarter."""
    task = TaskID.E_LOC_AOA
    whole = load_release_config(RELEASES / "tiny.yaml")
    config = whole.model_copy(update={"tasks": {task: whole.tasks[task]}, "stress_regimes": {}})
    folder = world.results / "scenes" / task.value
    paths = {split: folder / f"{split}.index.parquet" for split in (Split.TRAIN, Split.DEV)}
    label = label_field(config.tasks[task])
    labels = read_labels(labels_beside(paths[Split.DEV]), label)[label.name].to_pylist()
    chunks, start = [], 0
    for rows, iq in iterate_scenes(folder / "DEV.parquet"):
        names = [name for name in METADATA_SCHEMA.names if name in rows.column_names]
        columns = {name: rows[name].to_pylist() for name in names} | {"split": ["HOLDOUT"] * len(iq)}
        chunks.append(SceneChunk(1j * iq, columns, {label.name: labels[start : start + len(iq)]}))
        start += len(iq)
    index = tmp_path / "HOLDOUT.index.parquet"
    write_scenes(tmp_path / "HOLDOUT.parquet", index, iter(chunks), label)
    return config, {task: paths | {Split.HOLDOUT: index}}


def test_an_official_run_freezes_what_the_seed_made_and_stays_the_same_release(three_splits):
    config, paths = three_splits
    official = freeze(config, paths, "1", "f" * 64, BOUND)
    (record,) = official.holdout.splits.values()
    assert record == official.frozen(TaskID.E_LOC_AOA, Split.HOLDOUT) and record.scenes > 0
    public = {task: {split: own[split] for split in (Split.TRAIN, Split.DEV)} for task, own in paths.items()}
    manifest = freeze(config, public, "1", "f" * 64)
    assert manifest.holdout is None
    assert manifest.data_release_hash == official.data_release_hash
    recorded = BOUND.model_copy(update={"splits": {TaskID.E_LOC_AOA: RECORD}})
    with pytest.raises(InputError, match=r"release tiny: holdout\.splits\.E-LOC-AOA: expected the split"):
        freeze(config, paths, "1", "f" * 64, recorded)
    with pytest.raises(InputError, match=r"no E-LOC-AOA/HOLDOUT\.index\.parquet"):
        freeze(config, public, "1", "f" * 64, BOUND)


def test_opened_holdout_scenes_are_held_to_the_manifest(world):
    path = world.results / "scenes" / "E-LOC-AOA" / "DEV.index.parquet"
    manifest = opened(world, E_LOC_AOA=RECORD)
    with pytest.raises(InputError, match="content differs"):
        read_assigned(manifest, TaskID.E_LOC_AOA, Split.HOLDOUT, path)
    with pytest.raises(InputError, match="is not in the manifest"):
        read_assigned(manifest, TaskID.E_LOC_LOS, Split.HOLDOUT, path)


def test_the_seed_is_in_no_manifest(world):
    assert SEED not in json.dumps(manifest_record(opened(world, E_LOC_AOA=RECORD)))


def test_a_commitment_changes_no_release(tmp_path):
    """Not a byte of what a run is planned from."""
    for path in RELEASES.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    before = load_release_config(tmp_path / "tiny.yaml")
    command = [sys.executable, ROOT / "scripts/commit_holdout.py", "--release-config", tmp_path / "tiny.yaml"]
    command += ["--seed-file", tmp_path / "seed"]
    assert subprocess.run(command, check=False).returncode == 0
    assert load_release_config(tmp_path / "tiny.yaml") == before
    seed = (tmp_path / "seed").read_text().strip()
    assert (tmp_path / "seed").stat().st_mode & 0o777 == 0o600
    assert load_commitment(tmp_path / "tiny.yaml") == HoldoutCommitment(seed_sha256=sha256(seed.encode()))
    again = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "tiny.holdout.yaml: committed already" in again.stderr


def test_the_start_of_every_job_knows_the_same_variables(tmp_path):
    """``scripts/run.py`` imports no package and has names of its own: of the seed, its file, and that file hidden."""
    assert runpy.run_path(str(ROOT / "scripts/run.py"))["SEED_VARIABLES"] == SEED_VARIABLES
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text("#!/bin/sh\nexec env\n")
    python.chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", **dict.fromkeys(SEED_VARIABLES, "kept")}
    command = [sys.executable, "-IS", ROOT / "scripts/run.py", "embed"]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in told if line.endswith("=kept")] == [f"{HIDDEN_VARIABLE}=kept"]


def test_the_seed_reaches_generator_programs_alone(tmp_path):
    """``scripts/run.py`` takes the seed out of every other program's environment."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text('#!/bin/sh\necho "$EMMA_HOLDOUT_SEED/$EMMA_HOLDOUT_SEED_FILE"\n')
    python.chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "EMMA_HOLDOUT_SEED": "a", "EMMA_HOLDOUT_SEED_FILE": "b"}
    programs = {path.stem for path in (ROOT / "scripts").glob("*.py")} - {"run", "generator"}

    def told(name: str) -> str:
        command = [sys.executable, "-IS", ROOT / "scripts/run.py", name]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()

    assert {name for name in programs if told(name) == "a/b"} == {"make_channels", "make_scenes", "make_truth"}
    assert {told(name) for name in ("embed", "fit_fold", "make_control", "pretrain")} == {"/"}
