"""E-S2T-QA by its own measure: floor, skill and ceiling at every SNR regime, on the same scenes."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from emma.evaluation.probes import TaskFolds
from rfgen.recipe import Recipe
from rfgen.scenes import truths
from rfgen.scenes.text.questions import KINDS

TASK = "E-S2T-QA"


@pytest.fixture(scope="module")
def folds(small) -> TaskFolds:
    return TaskFolds(small.manifest.spec(TASK), *small.index(TASK))


def right(folds: TaskFolds, features) -> dict[str, np.ndarray]:
    """Which answers of each scene are right ``[n, 6]``, by held-out regime."""
    kind, found = folds.kind, {}
    for fold in folds.folds:
        head = folds.readout().fit(features[0][fold.fit], folds.targets[0][fold.fit])
        target = folds.targets[1][fold.scored]
        found[fold.value] = head.scores(features[1][fold.scored], kind.given(target)) == target[:, :, 1]
    return found


@pytest.fixture(scope="module")
def rows(small, folds) -> dict[str, dict[str, np.ndarray]]:
    sides, recipe = (folds.train, folds.evaluation), Recipe.from_mapping(small.config.rfgen)
    truth = []
    for split, side in zip(("TRAIN", "DEV"), sides, strict=True):
        made = np.concatenate(list(truths(recipe, TASK, split, None, small.config.seed)))
        index = pq.read_table(small.results / "scenes" / TASK / f"{split}.index.parquet", columns=["scene_id"])
        order = {scene: row for row, scene in enumerate(index["scene_id"].to_pylist())}
        truth.append(made[[order[scene] for scene in side["scene_id"].to_pylist()]])
    found = {"prior": right(folds, [np.zeros((len(side), 0)) for side in sides]), "oracle": right(folds, truth)}
    for name in ("random_conv", "dsp", "band_detector"):
        embeddings = small.embedded(TASK, name)
        found[name] = right(folds, [embeddings.of(side["scene_id"]) for side in sides])
    return found


def test_the_floor_is_the_anchor(folds, rows) -> None:
    for value, each in rows["prior"].items():
        scenes = each.mean(axis=1)
        assert scenes.mean() == pytest.approx(
            folds.spec.anchors.minimum, abs=4 * scenes.std() / np.sqrt(len(scenes))
        ), value


def test_every_row_has_skill_and_the_truth_lies_above_them(rows, record_property) -> None:
    """One-sided over the floor at each regime; three standard errors and a fifth of the way below the truth."""
    for value, ceiling in rows["oracle"].items():
        floor = rows["prior"][value].mean(axis=1)
        for name in ("random_conv", "dsp", "band_detector"):
            own = rows[name][value].mean(axis=1)
            record_property(f"{name} {value}", own.mean())
            gain, left = own - floor, ceiling.mean(axis=1) - own
            assert gain.mean() > 1.645 * gain.std() / np.sqrt(len(gain)), (name, value)
            assert left.mean() > 3 * left.std() / np.sqrt(len(left)), (name, value)
            assert left.mean() > 0.2 * (ceiling.mean() - floor.mean()), (name, value)


def test_energy_tells_where_and_how_many_and_not_of_what_family(rows) -> None:
    """What the detector of energy has is what the card says that it has."""
    shares = np.mean([each.mean(axis=0) for each in rows["band_detector"].values()], axis=0)
    by_kind = dict(zip(KINDS, shares, strict=True))
    assert min(by_kind[kind] for kind in ("presence", "count", "bandwidth", "power")) > 0.9
    # Nothing but whether there is one, and a fifth of the rest by guessing.
    assert max(by_kind[kind] for kind in ("family", "strongest")) < 0.5
