"""Recipes for the unit tests; nothing here imports Sionna."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emma.data.extends import read_extended
from rfgen.recipe import Recipe

RELEASES = Path(__file__).parents[3] / "config" / "releases"


@pytest.fixture(scope="session")
def mapping() -> Callable[[str], dict]:
    """A fresh copy of a release's rfgen mapping by its name."""
    return lambda name: read_extended(RELEASES / f"{name}.yaml")["rfgen"]


@pytest.fixture(scope="session")
def tiny(mapping: Callable[[str], dict]) -> Recipe:
    return Recipe.from_mapping(mapping("tiny"))
