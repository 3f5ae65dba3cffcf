"""E-SC-SEP: floor, skill and ceiling on every interferer, compared scene by scene."""

import numpy as np
import pytest

from common.masks import ideal_mask, spectra, waveform
from emma.data.scenes import iterate_scenes
from emma.evaluation.probes import TaskFolds
from emma.metrics import SISDR
from emma.readouts import make_readout
from emma.tasks import TaskID
from rfgen import scenes
from rfgen.recipe import Recipe

TASK = TaskID.E_SC_SEP
SHIPPED = ("dsp", "random_conv", "wiener_mask", "line_excision")


@pytest.fixture(scope="module")
def folds(small) -> TaskFolds:
    return TaskFolds(small.manifest.spec(TASK), *small.index(TASK))


@pytest.fixture(scope="module")
def ratios(small, folds):
    """SI-SDR ``[scenes]`` of every row by interferer: the pinned readout, fit on the other interferers."""
    recipe, sides = Recipe.from_mapping(small.config.rfgen), (folds.train, folds.evaluation)
    embedded = {}
    for name in ("prior", *SHIPPED):
        table = small.embedded(TASK, name)
        embedded[name] = [table.of(index["scene_id"]) for index in sides]
    embedded["oracle"] = []
    for split, index in zip(("TRAIN", "DEV"), sides, strict=True):
        path = small.results / "scenes" / TASK.value / f"{split}.parquet"
        ids = [name for table, _ in iterate_scenes(path, verify=False) for name in table["scene_id"].to_pylist()]
        rows = {name: row for row, name in enumerate(ids)}
        truth = np.concatenate(list(scenes.truths(recipe, TASK.value, split, None, small.config.seed)))
        embedded["oracle"].append(truth[[rows[name] for name in index["scene_id"].to_pylist()]].astype(np.float32))
    found = {}
    for name, (fit, scored) in embedded.items():
        for fold in folds.folds:
            target = folds.targets[1][fold.scored]
            readout = make_readout(folds.spec).fit(fit[fold.fit], folds.targets[0][fold.fit])
            answer = readout.scores(scored[fold.scored], target[:, 0]).view(complex)
            found[name, fold.value] = SISDR().sample_scores(answer, target[:, 1])[0]
    return found


def above(own: np.ndarray, other: np.ndarray) -> float:
    """By how many standard errors of the paired difference one row lies above another."""
    apart = own - other
    return float(apart.mean() / (apart.std() / np.sqrt(len(apart))))


def test_the_floor_is_the_mean_mask_of_the_other_interferers(folds, ratios) -> None:
    """Made here from the labels alone; and less than a textbook's improvement over the mixture."""
    cut = folds.spec.readout.window, folds.spec.readout.hop
    for fold in folds.folds:
        known, asked = folds.targets[0][fold.fit], folds.targets[1][fold.scored]
        mean = ideal_mask(*(spectra(known[:, part], *cut) for part in (1, 0))).mean(axis=(0, 1))
        expected = SISDR().sample_scores(waveform(mean * spectra(asked[:, 0], *cut), cut[1]), asked[:, 1])[0]
        np.testing.assert_allclose(ratios["prior", fold.value], expected, atol=1e-6)
        mixture = SISDR().sample_scores(asked[:, 0], asked[:, 1])[0]
        assert mixture.mean() == pytest.approx(0.0, abs=0.3)
        assert -0.2 < (expected - mixture).mean() < 2.5


def test_a_textbook_and_statistics_lie_above_the_floor(folds, ratios, record_property) -> None:
    for fold in folds.folds:
        found = {name: above(ratios[name, fold.value], ratios["prior", fold.value]) for name in SHIPPED}
        record_property(f"{fold.value}: standard errors above the floor", found)
        assert found["wiener_mask"] > 1.64


def test_the_ideal_mask_lies_far_above_every_row(folds, ratios, record_property) -> None:
    """Three standard errors, and at least a fifth of the way from the floor left to gain."""
    for fold in folds.folds:
        ceiling, floor = (ratios[name, fold.value].mean() for name in ("oracle", "prior"))
        for name in SHIPPED:
            own = ratios[name, fold.value]
            left = (ceiling - own.mean()) / (ceiling - floor)
            record_property(f"{fold.value} {name}: share of the way left", left)
            assert above(ratios["oracle", fold.value], own) > 3
            assert left > 0.2
