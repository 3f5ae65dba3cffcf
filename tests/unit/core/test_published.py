"""Recorded hashes: what is told from other floating point, and what is not."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.data.published import differences, load_published, published_release, write_published
from emma.tasks import Split, TaskID

AOA, DEV = TaskID.E_LOC_AOA, Split.DEV


@pytest.fixture(scope="module")
def made(world):
    return published_release(world.manifest, world.results / "scenes")


def with_probe(made, task=AOA, **changes):
    probe = made.probes[task][DEV].model_copy(update=changes)
    probes = made.probes | {task: made.probes[task] | {DEV: probe}}
    return made.model_copy(update={"probes": probes, "data_release_hash": "0" * 64})


def moved(made, name, change):
    """A probe with the last of its numbers changed."""
    *rest, last = getattr(made.probes[AOA][DEV], name).split()
    return with_probe(made, **{name: " ".join([*rest, f"{change(float(last)):.9g}"])})


def test_records_come_back_by_release(made, tmp_path):
    path = tmp_path / "published.json"
    assert load_published(path) == {}
    write_published(path, {"b": made, "a": made})
    assert load_published(path) == {"a": made, "b": made}
    path.write_text('{"a": {"data_release_hash": 1}}')
    with pytest.raises(InputError, match=r"published\.json: a\.data_release_hash"):
        load_published(path)


def test_a_probe_is_of_every_scene_of_a_small_split(made):
    probe = made.probes[AOA][DEV]
    assert probe.scenes == len(probe.level.split()) == len(probe.projection.split()) == len(probe.label.split()) == 96
    assert probe.label.split()[-1] == "356.25"
    assert made.probes[TaskID.E_LOC_LOS][DEV].label == ""


def test_the_same_hash_is_the_same_release(made):
    assert list(differences(made, made)) == []
    assert list(differences(made.model_copy(update={"config_sha256": "0" * 64}), made)) == []


@pytest.mark.parametrize(
    ("name", "small", "large"),
    [
        ("level", lambda x: x * (1 + 5e-5), lambda x: x * (1 + 2e-4)),
        ("projection", lambda x: x + 5e-5, lambda x: x + 2e-4),
        ("label", lambda x: x * (1 + 5e-5), lambda x: x + 1),
    ],
)
def test_a_number_of_one_scene_tells_other_floating_point_from_another_scene(made, name, small, large):
    assert list(differences(moved(made, name, small), made)) == []
    assert list(differences(moved(made, name, large), made)) == ["scenes of E-LOC-AOA DEV"]


@pytest.mark.parametrize("changes", [{"scenes": 95}, {"text_sha256": "0" * 64}, {"level": "1 2"}, {"label": ""}])
def test_other_scenes_are_a_difference(made, changes):
    assert list(differences(with_probe(made, **changes), made)) == ["scenes of E-LOC-AOA DEV"]


def test_another_split_or_recipe_is_a_difference(made):
    other = made.model_copy(update={"data_release_hash": "0" * 64, "probes": made.probes | {AOA: {}}})
    assert list(differences(other, made)) == ["splits of E-LOC-AOA"]
    recipe = made.model_copy(update={"data_release_hash": "0" * 64, "config_sha256": "0" * 64})
    assert list(differences(recipe, made)) == ["seed, recipe, tasks, stress_regimes or bootstrap"]


@pytest.mark.parametrize("kind", ["one sample", "one class", "gain"])
def test_one_changed_scene_shows_in_the_probes(world, made, tmp_path, kind):
    """One sample by a hundredth of the level, or one label."""
    shutil.copytree(world.results / "scenes", tmp_path / "scenes")
    path = tmp_path / "scenes/E-LOC-LOS/DEV.parquet"
    if kind == "one class":
        path = path.with_name("DEV.labels.parquet")
        table = pq.read_table(path)
        values = ["LOS", *table["class"].to_pylist()[1:]]
        place = table.schema.get_field_index("class")
    else:
        table = pq.read_table(path)
        name = "iq_scale" if kind == "gain" else "iq"
        values, place = table[name].to_pylist(), table.schema.get_field_index(name)
        if kind == "gain":
            values[7] *= 1.01
        else:
            pairs = np.frombuffer(values[7], "<i2").copy()
            pairs[5] = 1.01 * pairs[5]
            values[7] = pairs.tobytes()
    field = table.schema.field(place)
    pq.write_table(table.set_column(place, field, pa.array(values, field.type)), path)
    other = published_release(world.manifest, tmp_path / "scenes").model_copy(update={"data_release_hash": "0" * 64})
    assert list(differences(other, made)) == ["scenes of E-LOC-LOS DEV"]
