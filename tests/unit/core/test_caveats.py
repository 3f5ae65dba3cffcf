"""Caveats that follow from what a release scores."""

from pathlib import Path

import pytest

from emma.data.caveats import derived_caveats
from emma.data.release import load_release_config
from emma.tasks import TaskID

RELEASES = Path(__file__).parents[3] / "config" / "releases"
V01 = (
    "OOD-avg is a comparative ranking under a fixed protocol, not a population estimate of transfer: the environment"
    " axis has two values, so that a mean over it has 1 degree of freedom. Read every aggregate with its components.",
    "Intervals are over scenes (sessions, and those that enrol, for E-ID-FP) and the averaged tasks' fits, given these"
    " held-out values; they do not cover new environments or devices.",
    "Scores are on synthetic scenes. The sim-to-real report says how far they can be believed.",
)


@pytest.fixture(scope="module")
def tasks():
    return load_release_config(RELEASES / "v0.1.yaml").tasks


def changed(tasks, task, **changes):
    return tasks | {task: tasks[task].model_copy(update=changes)}


def test_the_caveats_of_v01_are_these():
    assert load_release_config(RELEASES / "v0.1.yaml").all_caveats == V01


def test_more_environments_are_more_degrees_of_freedom():
    first, *rest = load_release_config(RELEASES / "v1.0.yaml").all_caveats
    assert rest == list(V01[1:])
    assert "axis has five values in E-LOC-AOA, E-LOC-LOS, so that a mean over it has 4 degrees of freedom" in first
    assert "axis has three values in E-ID-DRONE, so that a mean over it has 2 degrees of freedom" in first


def test_every_axis_with_few_values_is_named():
    said = load_release_config(RELEASES / "tiny.yaml").all_caveats
    assert "; the device axis has four values, so that a mean over it has 3 degrees of freedom. Read" in said[0]
    assert said[2].startswith("This release exists to test")


def test_tasks_are_named_where_they_hold_out_different_numbers(tasks):
    more = changed(tasks, TaskID.E_ID_DRONE, held_out=("a", "b", "c"))
    first = derived_caveats(more)[0]
    assert "axis has two values in E-LOC-AOA, E-LOC-LOS, so" in first
    assert "axis has three values in E-ID-DRONE, so" in first


def test_what_enters_no_average_has_no_degrees_of_freedom(tasks):
    amc = {TaskID.E_ID_AMC: tasks[TaskID.E_ID_AMC]}
    (only,) = derived_caveats(amc)
    assert only == (
        "Intervals are over scenes, given these held-out values; they do not cover new environments or devices."
    )
    many = {TaskID.E_ID_FP: tasks[TaskID.E_ID_FP]}
    assert derived_caveats(many)[0] == V01[0].split(":")[0] + ". Read every aggregate with its components."
