"""E-ID-DRONE: the nominal drone family of every scene, and filters matched to the true waveforms."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from rfgen import scenes
from rfgen.scenes.drone import Drone

TASK = "E-ID-DRONE"


def test_every_scored_scene_has_a_nominal_drone_family(v01) -> None:
    task = v01.recipe.tasks[TASK]
    for split in ("TRAIN", "DEV"):
        _, meta = v01.scenes(TASK, split)
        present = meta["class"] == "present"
        assert (meta["waveform"][present] == meta["detail"][present]).all()
        for family in task.present:
            counts = [np.sum(meta["waveform"][rows] == family) for rows in (present, ~present)]
            # In turn, so that leaving out a family leaves as many scenes of either label.
            assert counts[0] == counts[1]
            assert abs(counts[0] - present.sum() / len(task.present)) <= 4
    assert v01.recipe.values_of(TASK)["waveform"] == task.present
    assert set(task.present) == set(meta["waveform"])


def test_the_pool_and_other_tasks_have_none(tiny) -> None:
    for task, split in ((TASK, "PRETRAIN"), ("E-ID-AMC", "DEV"), ("E-LOC-AOA", "DEV"), ("E-ID-FP", "DEV")):
        assert set(tiny.scenes(task, split)[1]["waveform"]) == {None}


def test_an_absent_scene_holds_nothing_of_its_nominal_family(tiny, monkeypatch) -> None:
    made, emit = [], Drone.emit
    monkeypatch.setattr(Drone, "emit", lambda self, family, rng: made.append(family) or emit(self, family, rng))
    key = scenes.chunk_keys(tiny.recipe, TASK, "DEV")[0]
    chunk = next(scenes.generate(tiny.recipe, TASK, "DEV", tiny.rays("DEV"), tiny.seed, chunk_keys=[key]))
    # What was emitted is each scene's own family: no signal of a nominal one was made.
    assert made == chunk.labels["detail"]
    absent = [
        w for w, label in zip(chunk.metadata["waveform"], chunk.labels["class"], strict=True) if label == "absent"
    ]
    assert absent
    assert len(absent) == len(chunk) // 2


@pytest.mark.parametrize("split", ["TRAIN", "DEV"])
def test_filters_matched_to_the_truth_find_every_drone(tiny, split) -> None:
    scores, labels = [], []
    asked = tiny.recipe, TASK, split, tiny.rays(split), tiny.seed
    chunks, truths, again = (list(make(*asked)) for make in (scenes.generate, scenes.truths, scenes.truths))
    for chunk, truth, repeated in zip(chunks, truths, again, strict=True):
        assert truth.shape == (len(chunk), 2)
        assert np.array_equal(truth, repeated)
        scores.append(truth[:, 0])
        labels.append(chunk.labels["class"])
        # A drone's share of power is that of its SNR over the time that it is on, or above where it is not always on.
        snr = 10 ** (np.asarray(chunk.metadata["snr_db"]) / 10)
        present = np.array(chunk.labels["class"]) == "present"
        assert (truth[present, 0] > 0.25 * (snr / (1 + snr))[present]).all()
    scores, labels = np.concatenate(scores), np.concatenate(labels)
    assert roc_auc_score(labels == "present", scores) > 0.99
    # The truth takes nothing from the chunk's streams.
    assert all(np.array_equal(a.iq, b.iq) for a, b in zip(chunks, scenes.generate(*asked), strict=True))
