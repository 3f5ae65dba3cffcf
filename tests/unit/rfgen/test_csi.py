"""E-CH-CSI's block of the recipe, its scenes, labels and truth."""

from pathlib import Path

import numpy as np
import pytest

from emma.backbones.views import channel_estimate
from emma.data.extends import read_extended
from emma.data.reference import Reference
from rfgen.physics.propagation import Links
from rfgen.recipe import Recipe

CONFIG = Path(__file__).parents[3] / "config" / "releases" / "tiny.yaml"
TASK = "E-CH-CSI"
KEY = ("E_RURAL", "5.8GHz", 1)


def recipe_of(**changes) -> Recipe:
    data = read_extended(CONFIG)["rfgen"]
    data["tasks"] = {TASK: data["tasks"][TASK] | changes}
    return Recipe.from_mapping(data)


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


def made(recipe: Recipe, seed: int = 0, split: str = "DEV"):
    return recipe.tasks[TASK].make(recipe, TASK, split, KEY, seed, links())


def channels(values) -> np.ndarray:
    return np.ascontiguousarray(values, float).view(complex).reshape(-1, 8, 64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"comb": 3}, "comb: expected a divisor of the 64 carriers in use"),
        ({"comb": 0}, "comb: Input should be greater than 0"),
        ({"comb": 4}, "samples: expected the 448 of 4 symbols"),
        ({"samples": 240}, "samples: expected the 224 of 2 symbols"),
        ({"reference": None}, "reference: expected the values of the pilots"),
        ({"reference": {"sequence": "zadoff-chu", "root": 5}}, r"reference.root: expected no divisor in common"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe_of(**changes)


def test_a_scene_is_two_symbols_and_a_label_its_channel() -> None:
    recipe = recipe_of()
    task, chunk = recipe.tasks[TASK], made(recipe)
    assert chunk.iq.shape == (8, task.antennas, task.samples) == (8, 8, 224)
    assert np.shape(chunk.labels["channel"]) == (8, 2 * 8 * 64)
    assert chunk.labels["detail"] == ["LOS", "NLOS"] * 4
    np.testing.assert_allclose(np.mean(np.abs(channels(chunk.labels["channel"])) ** 2, axis=(1, 2)), 1.0)
    assert list(chunk.metadata["reference_start"]) == [32] * 8
    assert made(recipe, split="PRETRAIN").labels == {}


def test_what_a_receiver_knows_gives_the_generator_s_own_estimate() -> None:
    """Benchmark and generator read the pilots by code of their own."""
    recipe = recipe_of()
    task, chunk = recipe.tasks[TASK], made(recipe)
    known = Reference.of(chunk.reference)
    assert (known.combs, known.size, known.prefix, len(known.carriers)) == (2, 80, 32, 64)
    found = channel_estimate(chunk.iq, np.asarray(chunk.metadata["reference_start"]), known)
    np.testing.assert_allclose(found, task.least_squares(chunk.iq), rtol=1e-4, atol=1e-5 * np.abs(found).max())
    phase = np.angle(found[:, 0].mean(axis=1) * task.own_phase(chunk.iq))
    np.testing.assert_allclose(phase, 0.0, atol=1e-5)


def test_pilots_are_known_and_fixed_and_the_rest_are_not() -> None:
    """Two scenes over one flat channel share the pilots' carriers of each symbol and no others."""
    recipe = recipe_of()
    task = recipe.tasks[TASK]
    window = slice(600, 824)
    sent, columns = task.transmitted(2, window, np.random.default_rng(0), np.random.default_rng(1))
    assert list(columns["reference_start"]) == [32, 32]
    bodies = sent[:, window].reshape(2, 2, 112)[..., 32:]
    number = np.array([k for k in range(-32, 33) if k])
    values = np.fft.fft(bodies)[..., number % 80] * np.sqrt(64) / 80
    np.testing.assert_allclose(np.abs(values), 1.0, atol=1e-9)
    for symbol in range(2):
        alike = np.abs(values[0, symbol] - values[1, symbol]) < 1e-9
        assert alike[symbol::2].all()
        assert alike[1 - symbol :: 2].mean() < 0.6


def test_noise_turns_a_label_and_changes_nothing_else() -> None:
    labels = [channels(made(recipe_of(snr_db=limits)).labels["channel"]) for limits in ([0.0, 1.0], [19.0, 20.0])]
    turn = labels[0] / labels[1]
    np.testing.assert_allclose(np.abs(turn), 1.0, atol=1e-9)
    np.testing.assert_allclose(turn, turn[:, :1, :1] * np.ones((8, 8, 64)), atol=1e-9)
    assert np.abs(np.angle(turn[:, 0, 0])).max() > 1e-3


def test_the_truth_is_an_estimate_of_the_same_draws() -> None:
    recipe = recipe_of()
    task, chunk = recipe.tasks[TASK], made(recipe, 5)
    truth = task.truth(recipe, TASK, "DEV", KEY, 5, links())
    error = np.mean(np.abs(channels(truth) - channels(chunk.labels["channel"])) ** 2)
    assert 0 < error < 0.05
    assert not np.array_equal(truth, task.truth(recipe, TASK, "DEV", KEY, 6, links()))
    with pytest.raises(ValueError, match="links: expected those of chunk"):
        task.truth(recipe, TASK, "DEV", KEY, 5, None)
