"""Recorded hashes: what is told from other floating point, and what is not."""

import pytest

from common.errors import InputError
from emma.data.published import differences, load_published, published_release, write_published
from emma.tasks import Split, TaskID

AOA, DEV = TaskID.E_LOC_AOA, Split.DEV


@pytest.fixture(scope="module")
def made(world):
    return published_release(world.manifest, world.results / "scenes")


def with_probe(made, **changes):
    probe = made.probes[AOA][DEV].model_copy(update=changes)
    probes = made.probes | {AOA: made.probes[AOA] | {DEV: probe}}
    return made.model_copy(update={"probes": probes, "data_release_hash": "0" * 64})


def moved(made, share):
    """The samples of one scene, each by ``share`` of the scene's largest."""
    samples = made.probes[AOA][DEV].samples
    largest = max(map(abs, samples[0]))
    return with_probe(made, samples=(tuple(x + share * largest for x in samples[0]), *samples[1:]))


def test_records_come_back_by_release(made, tmp_path):
    path = tmp_path / "published.json"
    assert load_published(path) == {}
    write_published(path, {"b": made, "a": made})
    assert load_published(path) == {"a": made, "b": made}
    path.write_text('{"a": {"data_release_hash": 1}}')
    with pytest.raises(InputError, match=r"published\.json: a\.data_release_hash"):
        load_published(path)


def test_a_probe_is_of_scenes_spread_over_the_split(made):
    probe = made.probes[AOA][DEV]
    assert (probe.scenes, len(probe.samples), len(probe.samples[0])) == (96, 4, 6)
    assert probe.labels[0] == 0.0 and probe.labels[-1] == 360.0 * 95 / 96
    assert made.probes[TaskID.E_LOC_LOS][DEV].labels[0] == "NLOS"


def test_the_same_hash_is_the_same_release(made):
    assert list(differences(made, made)) == []
    assert list(differences(made.model_copy(update={"config_sha256": "0" * 64}), made)) == []


def test_other_floating_point_is_no_difference(made):
    assert list(differences(moved(made, 5e-5), made)) == []
    angles = made.probes[AOA][DEV].labels
    assert list(differences(with_probe(made, labels=tuple(x * (1 + 1e-6) for x in angles)), made)) == []


@pytest.mark.parametrize(
    "changes", [{"scenes": 95}, {"snr_db": (5.0, 5.0, 5.0, 6.0)}, {"labels": (0.0, 1.0, 2.0, 3.0)}, {"samples": ()}]
)
def test_other_scenes_are_a_difference(made, changes):
    assert list(differences(with_probe(made, **changes), made)) == ["scenes of E-LOC-AOA DEV"]
    assert list(differences(moved(made, 2e-4), made)) == ["scenes of E-LOC-AOA DEV"]


def test_another_class_or_split_or_recipe_is_a_difference(made):
    names = made.probes[TaskID.E_LOC_LOS][DEV]
    probes = {TaskID.E_LOC_LOS: {DEV: names.model_copy(update={"labels": ("LOS", *names.labels[1:])})}}
    other = made.model_copy(update={"data_release_hash": "0" * 64, "probes": made.probes | {AOA: {}} | probes})
    assert list(differences(other, made)) == ["splits of E-LOC-AOA", "splits of E-LOC-LOS"]
    recipe = made.model_copy(update={"data_release_hash": "0" * 64, "config_sha256": "0" * 64})
    assert list(differences(recipe, made)) == ["seed, recipe, tasks, stress_regimes or bootstrap"]
