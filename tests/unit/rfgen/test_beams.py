"""E-CH-BEAM's block of the recipe, its scenes and its truth."""

from pathlib import Path

import numpy as np
import pytest

from emma.data.extends import read_extended
from rfgen.physics.propagation import Links
from rfgen.recipe import Recipe

CONFIG = Path(__file__).parents[3] / "config" / "releases" / "tiny.yaml"
TASK = "E-CH-BEAM"
KEY = ("E_RURAL", "28GHz", 1)


def mapping(**changes) -> dict:
    data = read_extended(CONFIG)["rfgen"]
    data["tasks"] = {TASK: data["tasks"][TASK] | changes}
    return data


def links(n: int = 8) -> Links:
    """Links of a direct path and two clusters."""
    rng = np.random.default_rng(0)
    return Links(
        link_id=[f"L{i}" for i in range(n)],
        los=np.arange(n) % 2 == 0,
        bearing_deg=rng.uniform(0, 360, n),
        direct_zenith_deg=np.full(n, 95.0),
        distance_2d_m=np.full(n, 100.0),
        k_linear=np.where(np.arange(n) % 2 == 0, 4.0, 0.0),
        cluster_spread_s=np.full(n, 4e-9),
        delay_s=np.tile([[0.0, 3e-7]], (n, 1)),
        power=np.tile([[0.75, 0.25]], (n, 1)),
        azimuth_deg=rng.uniform(0, 360, (n, 2, 20)),
        zenith_deg=rng.uniform(80, 100, (n, 2, 20)),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"array": {"kind": "circular", "elements": 64, "spacing_m": 0.005}}, "array.kind: expected linear"),
        ({"probes": 65}, "probes: expected the 64 elements, or fewer by an even number"),
        ({"probes": 7}, "probes: expected the 64 elements"),
        ({"panels": 0}, "panels"),
        ({"probe_errors": {"gain_db": -1.0, "phase_deg": 0.0}}, "probe_errors.gain_db"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe.from_mapping(mapping(**changes))


def test_a_scene_has_a_row_for_each_probe_and_a_label_for_each_beam() -> None:
    recipe = Recipe.from_mapping(mapping())
    task = recipe.tasks[TASK]
    chunk = task.make(recipe, TASK, "DEV", KEY, 0, links())
    power = chunk.labels["beam_power"]
    assert chunk.iq.shape == (8, task.antennas, 256) == (8, 8, 256)
    assert power.shape == (8, 64)
    assert (power.max(axis=1) == 1.0).all()
    assert (power > 0).all()
    assert chunk.labels["detail"] == ["LOS", "NLOS"] * 4
    assert task.make(recipe, TASK, "PRETRAIN", KEY, 0, links()).labels == {}


def test_the_truth_is_the_channel_of_the_same_draws() -> None:
    recipe = Recipe.from_mapping(mapping())
    task = recipe.tasks[TASK]
    chunk = task.make(recipe, TASK, "DEV", KEY, 5, links())
    truth = task.truth(recipe, TASK, "DEV", KEY, 5, links())
    np.testing.assert_array_equal(truth, chunk.labels["beam_power"])
    assert not np.array_equal(truth, task.truth(recipe, TASK, "DEV", KEY, 6, links()))
    with pytest.raises(ValueError, match="links: expected those of chunk"):
        task.truth(recipe, TASK, "DEV", KEY, 5, None)


def test_noise_moves_no_label() -> None:
    """Labels are the channel's: another SNR, other probes, the same powers."""
    labels = []
    for changes in ({}, {"snr_db": [-20.0, -10.0]}, {"probe_errors": {"gain_db": 3.0, "phase_deg": 90.0}}):
        recipe = Recipe.from_mapping(mapping(**changes))
        labels.append(recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, links()).labels["beam_power"])
    np.testing.assert_array_equal(labels[0], labels[1])
    np.testing.assert_array_equal(labels[0], labels[2])
