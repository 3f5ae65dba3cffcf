"""Recipes, ray tables and scenes shared by the checks of the generator; Sionna is imported once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from emma.data.extends import read_extended
from rfgen import channels, scenes
from rfgen.recipe import Recipe

RELEASES = Path(__file__).parents[3] / "config" / "releases"


def mapping(name: str) -> dict:
    """A fresh copy of a release's rfgen mapping."""
    return read_extended(RELEASES / f"{name}.yaml")["rfgen"]


class Bench:
    """A release's recipe and seed with its ray tables and scenes, each made when first asked for."""

    def __init__(self, name: str, **changes: Any) -> None:
        self.recipe = Recipe.from_mapping(mapping(name) | changes)
        self.seed = read_extended(RELEASES / f"{name}.yaml")["seed"]
        self._tables: dict[str, pa.Table] = {}
        self._scenes: dict[tuple, tuple[np.ndarray, dict]] = {}

    def rays(self, split: str) -> pa.Table:
        if split not in self._tables:
            self._tables[split] = channels.split_table(self.recipe, split, self.seed)
        return self._tables[split]

    def scenes(self, task: str, split: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """All IQ, and the metadata and label columns, of a task and split."""
        if (task, split) not in self._scenes:
            rays = self.rays(split) if self.recipe.tasks[task].needs_links else None
            chunks = list(scenes.generate(self.recipe, task, split, rays, self.seed))
            every = [chunk.metadata | chunk.labels for chunk in chunks]
            columns = {name: np.concatenate([np.asarray(each[name]) for each in every]) for name in every[0]}
            self._scenes[task, split] = np.concatenate([c.iq for c in chunks]), columns
        return self._scenes[task, split]


@pytest.fixture(scope="session", name="mapping")
def _mapping() -> Callable[[str], dict]:
    return mapping


@pytest.fixture(scope="session")
def releases() -> Path:
    return RELEASES


@pytest.fixture(scope="session")
def v01() -> Bench:
    return Bench("v0.1")


@pytest.fixture(scope="session")
def perfect(v01: Bench) -> Bench:
    """v0.1 with sites of perfect hardware, on the same links."""
    sites = v01.recipe.sites.model_dump()
    none = {"gain_error_db": 0.0, "phase_error_deg": 0.0, "coupling": 0.0}
    bench = Bench("v0.1", sites=sites | none | {"front_end": dict.fromkeys(sites["front_end"], 0.0)})
    bench._tables = v01._tables
    return bench


@pytest.fixture(scope="session")
def v10() -> Bench:
    """v1.0, for the tasks that v0.1 lacks."""
    return Bench("v1.0")


@pytest.fixture(scope="session")
def shipped(v01: Bench, v10: Bench) -> Callable[[str], Bench]:
    """The first release at full size that has a task."""
    return lambda task: v01 if task in v01.recipe.tasks else v10


@pytest.fixture(scope="session")
def tiny() -> Bench:
    return Bench("tiny")


@pytest.fixture(scope="session")
def many_links() -> Recipe:
    """v1.0 at the tables' reference frequency, 3.5 GHz, in V16.1: 4,000 links an environment, of localisation alone."""
    data = mapping("v1.0") | {"spec_version": "16.1"}
    task = data["tasks"]["E-LOC-LOS"]
    del task["band_arrays"]
    task["bands"] = ["3.5GHz"]
    task["scenes"] = {"TRAIN": 4000, "DEV": 40, "HOLDOUT": 40}
    data["tasks"] = {"E-LOC-LOS": task}
    data["pretrain"]["band"] = "2.4GHz"
    return Recipe.from_mapping(data)
