"""E-CH-CSI by its own measure: floor, skill and ceiling at every environment, on the same scenes."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from emma.evaluation.probes import TaskFolds
from rfgen import channels
from rfgen.recipe import Recipe
from rfgen.scenes import truths

TASK = "E-CH-CSI"
BLIND, TEXTBOOKS = ("random_conv", "dsp"), ("least_squares", "lmmse_exponential")


@pytest.fixture(scope="module")
def folds(small) -> TaskFolds:
    return TaskFolds(small.manifest.spec(TASK), *small.index(TASK))


def errors(folds: TaskFolds, features) -> dict[str, np.ndarray]:
    """Share of each scene's energy that is missed ``[n]``, by held-out environment."""
    found = {}
    for fold in folds.folds:
        head = folds.readout().fit(features[0][fold.fit], folds.targets[0][fold.fit], folds.groups[fold.fit])
        target = folds.targets[1][fold.scored]
        missed = ((head.scores(features[1][fold.scored]) - target) ** 2).sum(axis=1)
        found[fold.value] = missed / (target**2).sum(axis=1)
    return found


@pytest.fixture(scope="module")
def rows(small, folds) -> dict[str, dict[str, np.ndarray]]:
    sides, recipe, seed = (folds.train, folds.evaluation), Recipe.from_mapping(small.config.rfgen), small.config.seed
    truth = []
    for split, side in zip(("TRAIN", "DEV"), sides, strict=True):
        made = np.concatenate(list(truths(recipe, TASK, split, channels.split_table(recipe, split, seed), seed)))
        index = pq.read_table(small.results / "scenes" / TASK / f"{split}.index.parquet", columns=["scene_id"])
        order = {scene: row for row, scene in enumerate(index["scene_id"].to_pylist())}
        truth.append(made[[order[scene] for scene in side["scene_id"].to_pylist()]])
    found = {"prior": errors(folds, [np.zeros((len(side), 0)) for side in sides]), "oracle": errors(folds, truth)}
    for name in (*BLIND, *TEXTBOOKS):
        embeddings = small.embedded(TASK, name)
        found[name] = errors(folds, [embeddings.of(side["scene_id"]) for side in sides])
    return found


def test_labels_have_unit_power_and_the_floor_is_the_mean_channel(folds, rows) -> None:
    """No estimate, 0 dB, is the anchor; the mean over other scenes knows little more, and nothing of a scene."""
    for target in folds.targets:
        np.testing.assert_allclose((target**2).mean(axis=1), 0.5, rtol=1e-5)
    for fold in folds.folds:
        mean, target = folds.targets[0][fold.fit].mean(axis=0), folds.targets[1][fold.scored]
        missed = ((mean - target) ** 2).sum(axis=1) / (target**2).sum(axis=1)
        np.testing.assert_allclose(rows["prior"][fold.value], missed, rtol=1e-6)
        assert -0.5 < 10 * np.log10(missed.mean()) < 0.0, fold.value


def test_every_row_has_skill_and_the_truth_lies_above_them(rows, record_property) -> None:
    """One-sided over the floor at each environment; three standard errors below the truth, and a fifth of the way."""
    for value, ceiling in rows["oracle"].items():
        floor = rows["prior"][value]
        for name in (*BLIND, *TEXTBOOKS):
            own = rows[name][value]
            record_property(f"{name} {value}", 10 * np.log10(own.mean()))
            gain, left = floor - own, own - ceiling
            assert gain.mean() > 1.645 * gain.std() / np.sqrt(len(gain)), (name, value)
            assert left.mean() > 3 * left.std() / np.sqrt(len(left)), (name, value)
            span = np.log10(floor.mean() / ceiling.mean())
            assert np.log10(own.mean() / ceiling.mean()) > 0.15 * span, (name, value)
        record_property(f"oracle {value}", 10 * np.log10(ceiling.mean()))
    left, span = (
        np.mean([np.log10(rows[name][value].mean() / ceiling.mean()) for value, ceiling in rows["oracle"].items()])
        for name in ("lmmse_exponential", "prior")
    )
    assert left > 0.2 * span
