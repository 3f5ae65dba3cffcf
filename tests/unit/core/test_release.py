"""Releases: what is refused when scenes are frozen, and what a manifest is held to."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from common.errors import InputError
from common.files import parse
from emma.data.extends import read_extended
from emma.data.freezing import freeze
from emma.data.labels import labels_beside
from emma.data.release import (
    DataReleaseManifest,
    HoldoutCommitment,
    ReleaseConfig,
    load_manifest,
    load_release_config,
    manifest_record,
    read_assigned,
    release_names,
)
from emma.tasks import TARGETS, Split, TaskID, TaskSpec, targets

RELEASES = Path(__file__).parents[3] / "config" / "releases"


@pytest.fixture
def tiny() -> dict:
    return read_extended(RELEASES / "tiny.yaml")


@pytest.fixture
def world_config(tiny) -> ReleaseConfig:
    return parse(ReleaseConfig, tiny, "tiny")


@pytest.mark.parametrize("name", release_names(RELEASES))
def test_releases_that_ship_are_valid(name):
    path = RELEASES / f"{name}.yaml"
    config = load_release_config(path)
    assert parse(ReleaseConfig, config.model_dump(mode="json"), path) == config


def _set(value, path, new):
    *parents, last = path.split("/")
    for key in parents:
        value = value[key]
    value[last] = new


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        ("sede", 1, "sede: unknown key"),
        ("seed", "7", "seed: Input should be a valid integer"),
        ("seed", -1, "seed: "),
        ("seed", True, "seed: "),
        ("release", "../up", "release: "),
        ("bootstrap/resamples", 10, "bootstrap.resamples: "),
        ("bootstrap/level", 1.0, "bootstrap.level: "),
        ("bootstrap/level", 0.0, "bootstrap.level: "),
        ("tasks", {}, "tasks: expected at least one"),
        ("tasks/E-LOC-XYZ", {}, "tasks.E-LOC-XYZ"),
        ("stress_regimes/E-LOC-AOA", ["mid"], "stress_regimes.E-LOC-AOA: expected"),
        ("stress_regimes/E-LOC-AOA", ["mid", "mid", "low"], "stress_regimes.E-LOC-AOA: expected"),
        ("stress_regimes/E-LOC-AOA", ["mid", "a/b"], "stress_regimes.E-LOC-AOA.1"),
        ("rfgen/x", float("nan"), "expected finite numbers"),
    ],
)
def test_a_release_config_that_is_wrong_is_refused(tiny, tmp_path, path, new, message):
    _set(tiny, path, new)
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny))
    with pytest.raises(InputError) as caught:
        load_release_config(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


def test_a_release_is_named_as_its_file(tiny, tmp_path):
    (tmp_path / "v9.yaml").write_text(yaml.safe_dump(tiny))
    with pytest.raises(InputError, match="release: expected v9"):
        load_release_config(tmp_path / "v9.yaml")


def test_the_manifest_comes_back_with_its_hash(world, tmp_path):
    found = load_manifest(world.results / "release" / "manifest.json")
    assert found == world.manifest
    assert found.data_release_hash == world.manifest.data_release_hash
    text = json.dumps(dict(reversed(manifest_record(found).items())), indent=7)
    (tmp_path / "m.json").write_text(text)
    assert load_manifest(tmp_path / "m.json").data_release_hash == found.data_release_hash


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("tasks/E-LOC-AOA/anchors/maximum", 180.0),
        ("tasks/E-LOC-AOA/in_ood_avg", False),
        ("splits/E-LOC-AOA/DEV/index_hash", "0" * 64),
        ("splits/E-LOC-AOA/DEV/labels_hash", "0" * 64),
        ("splits/E-LOC-AOA/DEV/scenes", 1),
        ("seed", 8),
        ("rfgen/hardware_seed", 1),
        ("stress_regimes/E-LOC-AOA", ["low", "mid"]),
        ("bootstrap/resamples", 100),
        ("data_release_hash", "0" * 64),
        ("data_release_hash", None),
    ],
)
def test_a_manifest_that_was_changed_is_refused(world, tmp_path, path, new):
    record = json.loads(json.dumps(manifest_record(world.manifest)))
    _set(record, path, new)
    (tmp_path / "m.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"m\.json: data_release_hash: expected"):
        load_manifest(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("path", "new", "field"),
    [
        ("caveats", [], "manifest_sha256"),
        ("release", "small", "manifest_sha256"),
        ("provenance/rfgen_source_sha256", "1" * 64, "manifest_sha256"),
        ("holdout", {"seed_sha256": "1" * 64, "splits": {}}, "manifest_sha256"),
        ("manifest_sha256", None, "manifest_sha256"),
        ("data_release_hash_covers", ["seed"], "data_release_hash_covers"),
    ],
)
def test_what_is_no_content_is_held_to_the_manifest_s_own_hash(world, tmp_path, path, new, field):
    record = json.loads(json.dumps(manifest_record(world.manifest)))
    _set(record, path, new)
    (tmp_path / "m.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=rf"m\.json: {field}: expected"):
        load_manifest(tmp_path / "m.json")


def test_a_release_is_its_content(world, world_config):
    """Words, name, generator and commitment change no release; a manifest says what its hash covers."""
    paths = {}
    for task in TaskID:
        paths |= _paths(world, task)
    renamed = world_config.model_copy(update={"release": "other", "caveats": ("Other words.",)})
    again = freeze(renamed, paths, "99", "f" * 64).model_copy(
        update={"holdout": HoldoutCommitment(seed_sha256="0" * 64)}
    )
    assert again.data_release_hash == world.manifest.data_release_hash
    covered = manifest_record(again)["data_release_hash_covers"]
    assert covered == ["seed", "rfgen", "tasks", "stress_regimes", "bootstrap", "splits"]
    assert again.caveats[-1] == "Other words."


def test_a_new_kind_of_label_or_key_of_a_spec_changes_no_release(world, monkeypatch):
    """What a release does not use leaves its scene ids and its hash as they are."""
    monkeypatch.setattr(targets.base, "TARGETS", dict(TARGETS))

    class Range(TARGETS["angle"]):
        name = "range"
        column = "range_m"

    class Spec(TaskSpec):
        another_key: str = "none"

    assert targets.base.TARGETS["range"] is Range

    class Manifest(DataReleaseManifest):
        tasks: dict[TaskID, Spec]

    value = world.manifest.model_dump()
    again = Manifest(**value)
    assert again.tasks[TaskID.E_LOC_AOA].another_key == "none"
    assert again.data_release_hash == world.manifest.data_release_hash
    value["tasks"][TaskID.E_LOC_AOA]["another_key"] = "words"
    assert Manifest(**value).data_release_hash != world.manifest.data_release_hash


@pytest.mark.parametrize("text", ["[]", "null", "{}", '"a"'])
def test_what_is_no_manifest_is_refused(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(InputError, match=r"m\.json: "):
        load_manifest(tmp_path / "m.json")


def test_an_unknown_task_is_named(world):
    assert world.manifest.spec("E-ID-FP") is world.manifest.tasks[TaskID.E_ID_FP]
    with pytest.raises(InputError, match="task E-ID is unknown, expected one of E-LOC-AOA"):
        world.manifest.spec("E-ID")
    with pytest.raises(InputError, match=r"task E-LOC-AOO is unknown, did you mean E-LOC-AOA\?"):
        world.manifest.spec("E-LOC-AOO")


def _paths(world, task):
    folder = world.results / "scenes" / task.value
    return {task: {split: folder / f"{split.value}.index.parquet" for split in (Split.TRAIN, Split.DEV)}}


def test_the_order_in_which_scenes_are_frozen_does_not_count(world, world_config):
    paths = {}
    for task in reversed(list(TaskID)):
        paths |= {task: dict(reversed(_paths(world, task)[task].items()))}
    again = freeze(world_config, paths, "0", "0" * 64)
    assert again.data_release_hash == world.manifest.data_release_hash


@pytest.mark.parametrize(
    ("task", "column", "values", "message"),
    [
        (TaskID.E_LOC_AOA, "environment", {"E_RURAL": "E_URBAN"}, "environment: no scene of E_RURAL"),
        (TaskID.E_LOC_AOA, "environment", {"E_RURAL": "E_MOON"}, "environment: no scene of E_RURAL"),
        (TaskID.E_LOC_LOS, "frequency_band", {"5.8GHz": "2.4GHz"}, "frequency_band: no scene of 5.8GHz"),
        (TaskID.E_LOC_LOS, "split", {"DEV": "TRAIN"}, "split: expected DEV in every row"),
        (TaskID.E_LOC_LOS, "task", {"E-LOC-LOS": "E-LOC-AOA"}, "task: expected E-LOC-LOS in every row"),
        (TaskID.E_LOC_LOS, "class", {"LOS": None}, "class: null"),
        (TaskID.E_LOC_LOS, "class", {"LOS": "los"}, "class: los is no label of tasks.E-LOC-LOS"),
    ],
)
def test_scenes_that_the_tasks_do_not_declare_are_refused(world, world_config, tmp_path, task, column, values, message):
    paths = _paths(world, task)
    paths[task][Split.DEV] = _copied(paths[task][Split.DEV], tmp_path)
    path = labels_beside(paths[task][Split.DEV]) if column == "class" else paths[task][Split.DEV]
    table = pq.read_table(path)
    changed = [values.get(value, value) for value in table[column].to_pylist()]
    number = table.schema.get_field_index(column)
    pq.write_table(table.set_column(number, table.schema.field(column).with_nullable(True), [changed]), path)
    with pytest.raises(InputError, match=message):
        freeze(world_config, paths, "0", "0")


def _copied(index_path, folder):
    """An index and the labels beside it, copied to ``folder``; the copy of the index."""
    for path in (index_path, labels_beside(index_path)):
        shutil.copy(path, folder / path.name)
    return folder / index_path.name


def test_labels_that_are_not_those_of_the_scenes_are_refused(world, world_config, tmp_path):
    paths = _paths(world, TaskID.E_LOC_AOA)
    paths[TaskID.E_LOC_AOA][Split.DEV] = _copied(paths[TaskID.E_LOC_AOA][Split.DEV], tmp_path)
    path = tmp_path / "DEV.labels.parquet"
    labels = pq.read_table(path)
    pq.write_table(labels.slice(1), path)
    with pytest.raises(InputError, match=r"DEV\.labels\.parquet: scene_id: .* is missing"):
        freeze(world_config, paths, "0", "0")
    path.unlink()
    with pytest.raises(InputError, match=r"DEV\.labels\.parquet: no such file"):
        freeze(world_config, paths, "0", "0")


def test_one_odd_value_among_many_is_refused(world, world_config, tmp_path):
    paths = _paths(world, TaskID.E_LOC_AOA)
    index = pq.read_table(paths[TaskID.E_LOC_AOA][Split.DEV])
    for odd in ("E_MOON", None):
        values = [odd, *index["environment"].to_pylist()[1:]]
        changed = index.set_column(
            index.schema.get_field_index("environment"), index.schema.field("environment"), [values]
        )
        paths = _paths(world, TaskID.E_LOC_AOA)
        paths[TaskID.E_LOC_AOA][Split.DEV] = _copied(paths[TaskID.E_LOC_AOA][Split.DEV], tmp_path)
        pq.write_table(changed, paths[TaskID.E_LOC_AOA][Split.DEV])
        with pytest.raises(InputError, match=f"environment: {odd} is not among the held-out values"):
            freeze(world_config, paths, "0", "0")


def test_splits_that_share_samples_are_refused(world, world_config, tmp_path):
    paths = _paths(world, TaskID.E_LOC_AOA)
    train, dev = (pq.read_table(path) for path in paths[TaskID.E_LOC_AOA].values())
    shared = [train["iq_sha256"][3].as_py(), *dev["iq_sha256"].to_pylist()[1:]]
    dev = dev.set_column(1, dev.schema.field("iq_sha256"), [shared])
    paths[TaskID.E_LOC_AOA][Split.DEV] = _copied(paths[TaskID.E_LOC_AOA][Split.DEV], tmp_path)
    pq.write_table(dev, paths[TaskID.E_LOC_AOA][Split.DEV])
    with pytest.raises(InputError, match="iq_sha256: splits TRAIN and DEV share samples"):
        freeze(world_config, paths, "0", "0")


def test_an_index_is_checked_against_the_manifest_by_content(world, tmp_path):
    plain = world.results / "scenes" / "E-LOC-AOA" / "DEV.index.parquet"
    copy = _copied(plain, tmp_path)
    index = pq.read_table(plain)
    pq.write_table(index.take(list(range(len(index)))[::-1]), copy, compression="none", row_group_size=7)
    assert read_assigned(world.manifest, TaskID.E_LOC_AOA, Split.DEV, copy).num_rows == len(index)
    pq.write_table(index.slice(1), copy)
    with pytest.raises(InputError, match="content differs from the manifest of release tiny, E-LOC-AOA DEV"):
        read_assigned(world.manifest, TaskID.E_LOC_AOA, Split.DEV, copy)
    shutil.copy(world.results / "scenes" / "E-LOC-AOA" / "TRAIN.index.parquet", copy)
    with pytest.raises(InputError, match="content differs"):
        read_assigned(world.manifest, TaskID.E_LOC_AOA, Split.DEV, copy)
    shutil.copy(plain, copy)
    labels = pq.read_table(labels_beside(plain))
    turned = pa.array(labels["azimuth_deg"].to_pylist()[::-1])
    pq.write_table(labels.set_column(1, labels.schema.field(1), turned), labels_beside(copy))
    with pytest.raises(InputError, match=r"DEV\.labels\.parquet: content differs from the manifest"):
        read_assigned(world.manifest, TaskID.E_LOC_AOA, Split.DEV, copy)
    with pytest.raises(InputError, match="split HOLDOUT of E-LOC-AOA is not in the manifest"):
        read_assigned(world.manifest, TaskID.E_LOC_AOA, Split.HOLDOUT, plain)
