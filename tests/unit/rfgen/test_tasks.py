"""The registry of tasks: what finds them, what they state, and what a new file adds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import common
import rfgen
from emma.data.extends import read_extended
from rfgen import scenes
from rfgen.scenes import TASKS, SceneTask

SOURCE = Path(rfgen.__file__).parents[1]

#: A task that nothing else knows, as a new file would hold it: noise whose class is its sign.
NEW_TASK = """
import numpy as np
from typing import ClassVar

from common.streams import complex_normal, stream
from rfgen.scenes.base import LabelColumns, SceneTask, Split, normalise_power


class Noise(SceneTask):
    names = ("E-NEW",)
    label_columns: ClassVar[LabelColumns] = {"class": str}
    scenes: dict[Split, int]

    @property
    def counts(self):
        return self.scenes

    @property
    def snr_limits_db(self):
        return -5.0, 5.0

    def groups(self, setting, split):
        return ("all",)

    def make(self, setting, name, split, key, seed, links=None):
        rng = stream(seed, name, split, *key)
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), self.chunk)
        iq = normalise_power(complex_normal(rng, (self.chunk, 1, self.samples)), setting.gain_db, rng)
        return self.assemble(setting, name, split, key, iq, snr_db, {"class": ["x"] * self.chunk})
"""

USE = """
import json, sys
from rfgen.recipe import Recipe
from rfgen.scenes import generate

mapping = json.loads(sys.argv[1])
counts = {"TRAIN": 4, "DEV": 4, "HOLDOUT": 4, "PRETRAIN": 4}
mapping["tasks"]["E-NEW"] = {
    "bands": ["2.4GHz"], "samples": 8, "sample_rate_hz": 1e6, "chunk": 4, "cfo_ppm": 0.0, "scenes": counts
}
recipe = Recipe.from_mapping(mapping)
chunks = [*generate(recipe, "E-NEW", "DEV", None, 0), *generate(recipe, "E-NEW", "PRETRAIN", None, 0)]
print([(chunk.key, chunk.iq.shape, dict(chunk.labels)) for chunk in chunks])
print(recipe.values_of("E-NEW")["snr_regime"])
"""


def test_a_new_file_adds_a_task(tmp_path) -> None:
    for package in (rfgen, common):
        folder = Path(package.__file__).parent
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rfgen" / "scenes" / "noise.py").write_text(NEW_TASK)
    mapping = read_extended(SOURCE.parent / "config" / "releases" / "tiny.yaml")["rfgen"]
    command = [sys.executable, "-c", USE, json.dumps(mapping)]
    run = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, check=True, capture_output=True, text=True)
    assert run.stdout.splitlines() == [
        "[(('all', '2.4GHz', 0), (4, 1, 8), {'class': ['x', 'x', 'x', 'x']}), (('all', '3.5GHz', 0), (4, 1, 8), {})]",
        "('low', 'mid')",
    ]


def test_every_task_is_registered_under_its_names() -> None:
    assert set(TASKS) == {
        "E-LOC-AOA",
        "E-LOC-LOS",
        "E-ID-DRONE",
        "E-ID-FP",
        "E-ID-AMC",
        "E-SC-SENSE",
        "E-SC-ANOM",
        "E-SC-SEP",
        "E-CH-BEAM",
        "E-CH-CSI",
        "E-S2T-CAP",
        "E-S2T-QA",
    }
    assert all(name in task.names for name, task in TASKS.items())
    assert all(set(task.label_columns.values()) <= {str, float, list} for task in TASKS.values())


def test_a_name_has_one_class() -> None:
    with pytest.raises(TypeError, match="Another: task E-ID-FP is Fingerprint's already"):

        class Another(SceneTask):
            names = ("E-ID-FP",)

    assert TASKS["E-ID-FP"].__name__ == "Fingerprint"


@pytest.mark.parametrize(
    "task", [name for name, task in TASKS.items() if "class" in task.label_columns and not task.needs_links]
)
def test_the_pool_carries_no_labels(tiny, task) -> None:
    scored = next(scenes.generate(tiny, task, "DEV", None, 0))
    pool = next(scenes.generate(tiny, task, "PRETRAIN", None, 0))
    assert tuple(scored.labels) == ("class", "detail")
    assert pool.labels == {}
    assert not {"class", "detail", "azimuth_deg"} & set(pool.metadata)


def test_values_and_limits_of_every_task(tiny) -> None:
    limits = {name: task.snr_limits_db for name, task in tiny.tasks.items()}
    assert limits["E-ID-AMC"] == (-10.0, 20.0)
    assert limits["E-ID-DRONE"] == (-8.0, 15.0)
    assert tiny.values_of("E-ID-AMC")["snr_regime"] == ("low", "mid", "high")
    gap = tiny.tasks["E-ID-AMC"].model_copy(update={"regimes_db": {"low": (-10.0, 0.0), "high": (10.0, 20.0)}})
    assert gap.values_of(tiny)["snr_regime"] == ("low", "high")
    assert tiny.values_of("E-LOC-AOA") == {
        "environment": ("E_URBAN", "E_RURAL"),
        "device": (),
        "receiver": (),
        "waveform": (),
        "frequency_band": ("2.4GHz", "5.8GHz"),
        "snr_regime": ("mid", "high", "clean"),
    }
    assert tiny.values_of("E-ID-FP")["device"] == ("U01", "U02", "U03", "U04")
    for name, task in tiny.tasks.items():
        for key in scenes.chunk_keys(tiny, name, "PRETRAIN"):
            assert key[1] == "3.5GHz"
            assert task.snr_limits_in(tiny, "PRETRAIN") == tiny.pretrain.snr_db


def test_generate_names_what_is_missing(tiny) -> None:
    with pytest.raises(ValueError, match="rays: expected the ray table"):
        next(scenes.generate(tiny, "E-LOC-AOA", "DEV", None, 0))
    with pytest.raises(ValueError, match="is not a chunk of E-ID-AMC"):
        scenes.generate(tiny, "E-ID-AMC", "DEV", None, 0, chunk_keys=[("low", "2.4GHz", 99)])
    with pytest.raises(ValueError, match="task E-X: expected one of E-LOC-AOA, "):
        scenes.generate(tiny, "E-X", "DEV", None, 0)
    with pytest.raises(ValueError, match="task E-X: expected one of E-LOC-AOA, "):
        scenes.chunk_keys(tiny, "E-X", "DEV")
    key = ("E_URBAN", "2.4GHz", 0)
    with pytest.raises(ValueError, match="links: expected those of chunk"):
        tiny.tasks["E-LOC-AOA"].make(tiny, "E-LOC-AOA", "DEV", key, 0)
    empty = pa.Table.from_pylist([dict.fromkeys(("task", "split", "environment", "band"), "x") | {"index": 0}])
    with pytest.raises(ValueError, match="rays: no rows for chunk"):
        next(scenes.generate(tiny, "E-LOC-AOA", "DEV", empty, 0))


def test_class_names(tiny) -> None:
    tasks = tiny.tasks
    assert tasks["E-LOC-AOA"].class_names == ()
    assert tasks["E-LOC-LOS"].class_names == ("NLOS", "LOS")
    assert tasks["E-ID-DRONE"].class_names == ("absent", "present")
    assert tasks["E-ID-FP"].class_names == tasks["E-ID-FP"].units
    assert len(tasks["E-ID-AMC"].class_names) == 11
    assert tasks["E-SC-SENSE"].class_names == ("absent", "present")
    assert tasks["E-SC-ANOM"].class_names == ("normal", "anomalous")
