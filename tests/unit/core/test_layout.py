"""Every path below results has one owner, which reads it back too."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import InputError
from emma.data.labels import labels_beside
from emma.results.layout import FoldPlace, Layout, results_folder
from emma.tasks import Split, TaskID

ROOT = Path(__file__).parents[3]
PLACE = ("dsp", "E-LOC-LOS", "leave-one-band-out", "E_URBAN+2.4GHz")


@pytest.fixture
def layout():
    return Layout("results/releases/tiny")


def test_places_are_read_back_from_paths(layout):
    for path in (layout.readout(*PLACE), layout.predictions(*PLACE), layout.metrics(*PLACE)):
        assert Layout.fold_of(path) == FoldPlace(*PLACE)
        assert Layout.protocol_of(path) == PLACE[2:]
    assert Layout.protocol_of(layout.side(*PLACE[1:], "eval")) == PLACE[2:]
    assert Layout.model_task_of(layout.replicates("dsp", "E-ID-FP", "stress")) == ("dsp", "E-ID-FP")
    for place in (layout.scenes, layout.index, layout.labels):
        assert Layout.split_of(place("E-ID-FP", "TRAIN")) == ("E-ID-FP", "TRAIN")
    # Names of the folders' own in the place of others' change nothing.
    for name in ("los", "twin", "captures"):
        paths = (layout.capture_scenes(name), layout.twin_scenes(name, "DEV"), layout.capture_embeddings(name, "twin"))
        assert {Layout.capture_set_of(path) for path in paths} == {name}


@pytest.mark.parametrize(
    "read", [Layout.fold_of, Layout.protocol_of, Layout.model_task_of, Layout.split_of, Layout.capture_set_of]
)
def test_a_path_too_short_for_its_place_is_refused(read):
    with pytest.raises(InputError, match=r"file\.parquet: expected a file in folders "):
        read(Path("file.parquet"))


def test_no_two_files_share_a_path(layout):
    twos = (layout.scenes, layout.index, layout.labels, layout.embeddings, layout.replicates, layout.twin_scenes)
    twos += (layout.twin_index, layout.twin_labels, layout.capture_embeddings, layout.capture_metrics)
    ones = (layout.channels, layout.weights, layout.run, layout.report, layout.archive, layout.conversion)
    ones += (layout.capture_scenes, layout.capture_index, layout.capture_labels, layout.log, layout.floor_events)
    paths = [place("a", "b") for place in twos] + [place("a") for place in ones]
    paths += [layout.readout(*PLACE), layout.predictions(*PLACE), layout.metrics(*PLACE), layout.board, layout.manifest]
    paths += [layout.capture_predictions("a", "b", side) for side in ("synth", "captured")]
    assert len(set(paths)) == len(paths)
    assert all(path.is_relative_to(layout.root) for path in paths)


@pytest.mark.parametrize("name", ["..", "", ".", "a/b", "/etc", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(layout, name):
    for place in (layout.run, lambda name: layout.index(name, "DEV"), lambda name: layout.fold("m", "t", "p", name)):
        if place == layout.run and name in {"..", "", "."}:
            continue  # with its ending, a name as others are
        with pytest.raises(InputError, match="is no path below it"):
            place(name)


def test_wildcards_and_enumerations_are_names_too(layout):
    assert str(layout.index("{task}", "{split}")) == "results/releases/tiny/scenes/{task}/{split}.index.parquet"
    assert layout.index(TaskID.E_ID_FP, Split.DEV) == layout.index("E-ID-FP", "DEV")


def test_releases_have_folders_of_their_own():
    assert results_folder("v0.1") == "results"
    assert results_folder("tiny") == "results/releases/tiny"
    assert results_folder("tiny", Split.HOLDOUT) == "results/releases/tiny/holdout"


def test_what_is_there_is_found(tmp_path):
    layout, other = Layout(tmp_path / "results"), Layout(tmp_path / "results/releases/other")
    assert not layout.started() and Layout.find(tmp_path) == []
    scenes = [layout.scenes("E-ID-FP", split) for split in ("DEV", "TRAIN")]
    for path in (layout.manifest, other.manifest, other.board, *scenes):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    layout.index("E-ID-FP", "DEV").touch()
    layout.labels("E-ID-FP", "DEV").touch()
    assert layout.started()
    assert Layout.find(tmp_path) == [layout.root, other.root]
    assert layout.other_releases() == [other.root]
    assert layout.scene_files() == scenes


def test_files_that_stand_beside_others_are_where_their_readers_look(layout):
    """The rooms below results know files by their neighbours, not by the layout."""
    assert labels_beside(layout.index("E-ID-FP", "DEV")) == layout.labels("E-ID-FP", "DEV")
    assert labels_beside(layout.capture_index("los")) == layout.capture_labels("los")
    assert labels_beside(layout.twin_index("los", "DEV")) == layout.twin_labels("los", "DEV")
    assert layout.predictions(*PLACE).with_name("readout.safetensors") == layout.readout(*PLACE)
    assert layout.scenes("E-ID-FP", "DEV").with_suffix(".index.parquet") == layout.index("E-ID-FP", "DEV")


def test_the_layout_imports_little():
    code = "import sys, emma.results.layout; print(*sys.modules)"
    env = {"PYTHONPATH": str(ROOT / "src")}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert not {"numpy", "pyarrow", "pydantic", "yaml"} & set(told.split())


def test_no_program_or_module_takes_a_place_from_a_path_by_position():
    """Indexing a path's parts is the layout's alone."""
    folders = ("src/emma", "scripts", "src/workflow_support")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "layout.py"]
    assert [path for path in files if re.search(r"\.parts\[-|zip\(.*\.parts", path.read_text())] == []
