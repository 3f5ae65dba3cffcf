"""What an oracle is given: true parameters in the scenes' own order, in which no label has a part."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emma.data.extends import read_extended
from rfgen.physics.propagation import Links
from rfgen.recipe import Recipe
from rfgen.scenes.localisation import path_powers

CONFIG = Path(__file__).parents[3] / "config" / "releases" / "v0.1.yaml"


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Recipe.from_mapping(read_extended(CONFIG)["rfgen"])


def links(n: int = 3, k: float = 4.0) -> Links:
    """Links from due 30, 130 and 230 degrees, with one cluster half a turn from it and one beside it."""
    bearing = 30.0 + 100.0 * np.arange(n)
    azimuth = np.stack([np.repeat((bearing + 180.0)[:, None], 20, 1), np.repeat((bearing + 20.0)[:, None], 20, 1)], 1)
    return Links(
        link_id=[f"L{i}" for i in range(n)],
        los=np.full(n, k > 0),
        bearing_deg=bearing,
        direct_zenith_deg=np.full(n, 90.0),
        distance_2d_m=np.full(n, 100.0),
        k_linear=np.full(n, k),
        cluster_spread_s=np.zeros(n),
        delay_s=np.tile([[0.0, 1e-6]], (n, 1)),
        power=np.tile([[0.75, 0.25]], (n, 1)),
        azimuth_deg=azimuth,
        zenith_deg=np.full((n, 2, 20), 90.0),
    )


def truth(recipe: Recipe, task: str, given: Links | None) -> np.ndarray:
    return recipe.tasks[task].truth(recipe, task, "DEV", ("E_URBAN", "2.4GHz", 0), 0, given)


def test_the_mean_direction_is_weighted_by_power(recipe: Recipe) -> None:
    """0.8 from the bearing, 0.15 from its back, 0.05 from 20 degrees beside it."""
    values = truth(recipe, "E-LOC-AOA", links())
    np.testing.assert_allclose(np.hypot(*values.T), 1.0)
    mean = 0.8 - 0.15 + 0.05 * np.exp(1j * np.radians(20.0))
    wanted = links().bearing_deg + np.degrees(np.angle(mean))
    np.testing.assert_allclose(np.degrees(np.arctan2(values[:, 1], values[:, 0])) % 360, wanted % 360, atol=1e-9)


@pytest.mark.parametrize("task", ["E-LOC-AOA", "E-LOC-LOS"])
def test_no_label_has_a_part_in_it(recipe: Recipe, task: str) -> None:
    """Without a direct path the bearing is not among the paths, and the state of a link never is."""
    hidden = links(k=0.0)
    other = replace(hidden, bearing_deg=hidden.bearing_deg + 77.0, los=~hidden.los, distance_2d_m=np.zeros(3))
    np.testing.assert_array_equal(truth(recipe, task, hidden), truth(recipe, task, other))


def test_paths_of_a_link(recipe: Recipe) -> None:
    delay, power = path_powers(links())
    np.testing.assert_allclose(power, np.tile([[0.8, 0.15, 0.05]], (3, 1)))
    np.testing.assert_allclose(delay, np.tile([[0.0, 0.0, 1e-6]], (3, 1)))
    first, strongest, spread, _ = truth(recipe, "E-LOC-LOS", links()).T
    odds = [(share + 1e-3) / (1 - share + 1e-3) for share in (0.95, 0.8)]
    np.testing.assert_allclose(np.exp([first[0], strongest[0]]), odds)
    np.testing.assert_allclose(np.exp(spread), 1e-6 * np.sqrt(0.05 * 0.95) + 1e-9)


def test_a_link_that_starts_late_is_told_from_its_first_path(recipe: Recipe) -> None:
    late = links(k=0.0)
    late = replace(late, delay_s=late.delay_s + 5e-7)
    np.testing.assert_allclose(truth(recipe, "E-LOC-LOS", late), truth(recipe, "E-LOC-LOS", links(k=0.0)), rtol=1e-6)


def test_links_are_needed(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="links: expected those of chunk"):
        truth(recipe, "E-LOC-AOA", None)
