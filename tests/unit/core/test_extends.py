"""Releases that extend a base: how they merge, and what is refused."""

from pathlib import Path

import pytest
import yaml

from common.errors import InputError
from emma.data.extends import read_extended
from emma.data.release import load_release_config

RELEASES = Path(__file__).parents[3] / "config" / "releases"

BASE = {"release": "base", "seed": 1, "map": {"keep": 1, "list": [1, 2], "deep": {"x": 1, "y": 2}}}


@pytest.fixture
def write(tmp_path):
    def written(name, value):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(value))
        return tmp_path / f"{name}.yaml"

    return written


def test_mappings_merge_the_rest_replaces_and_null_removes(write):
    write("base", BASE)
    path = write("own", {"extends": "base", "seed": 2, "map": {"list": [3], "deep": {"x": None, "z": 3}}, "new": [1]})
    assert read_extended(path) == {
        "seed": 2,
        "map": {"keep": 1, "list": [3], "deep": {"y": 2, "z": 3}},
        "new": [1],
    }


def test_a_base_may_extend_another_and_keeps_its_name_to_itself(write):
    write("base", BASE)
    write("middle", {"extends": "base", "release": "middle", "map": {"keep": 5}})
    path = write("own", {"extends": "middle", "release": "own", "map": {"deep": 7}})
    assert read_extended(path) == {"seed": 1, "map": {"keep": 5, "list": [1, 2], "deep": 7}, "release": "own"}


def test_a_file_that_extends_none_is_read_as_it_is(write):
    assert read_extended(write("base", BASE | {"none": None})) == BASE | {"none": None}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"extends": "nowhere"}, r"own\.yaml: extends: no file nowhere\.yaml beside it, expected one of base, loop"),
        ({"extends": "../base"}, r"own\.yaml: extends: \.\./base, expected the name of a file beside it"),
        ({"extends": ["base"]}, r"own\.yaml: extends: \['base'\], expected the name of a file beside it"),
        ({"extends": "own"}, r"own\.yaml: extends: own extends own, expected no circle"),
        ({"extends": "loop"}, r"loop\.yaml: extends: own extends loop extends own, expected no circle"),
        ({"extends": "base", "map": {"deep": {"w": None}}}, r"own\.yaml: map\.deep\.w: null, expected a key of the"),
    ],
)
def test_what_cannot_be_extended_is_refused_by_one_line(write, value, message):
    write("base", BASE)
    write("loop", {"extends": "own"})
    with pytest.raises(InputError, match=message) as caught:
        read_extended(write("own", value))
    assert "\n" not in str(caught.value)


def test_an_edit_of_the_base_reaches_every_release_that_extends_it(tmp_path):
    for path in RELEASES.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    base = tmp_path / "base.yaml"
    base.write_text(base.read_text().replace("hardware_seed: 7301", "hardware_seed: 7302"))
    for name in ("tiny", "v0.1", "v1.0"):
        before, after = (load_release_config(folder / f"{name}.yaml").rfgen for folder in (RELEASES, tmp_path))
        assert (before["hardware_seed"], after["hardware_seed"]) == (7301, 7302)
        assert {key for key in before if before[key] != after[key]} == {"hardware_seed"}


def test_releases_differ_where_they_say_so():
    tiny, v01, v10 = (read_extended(RELEASES / f"{name}.yaml") for name in ("tiny", "v0.1", "v1.0"))
    assert (
        tiny["tasks"]["E-ID-FP"]["held_out"]
        == tiny["rfgen"]["tasks"]["E-ID-FP"]["units"]
        == ["U01", "U02", "U03", "U04"]
    )
    assert v01["tasks"]["E-ID-FP"]["classes"] == v01["rfgen"]["tasks"]["E-ID-FP"]["units"]
    assert v01["tasks"]["E-LOC-AOA"] == tiny["tasks"]["E-LOC-AOA"]
    assert "E_MICRO" in v10["tasks"]["E-LOC-LOS"]["held_out"] and "E_MICRO" not in v01["rfgen"]["environments"]
    assert v10["rfgen"]["pretrain"] == v01["rfgen"]["pretrain"]
