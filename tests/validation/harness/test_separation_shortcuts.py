"""E-SC-SEP: what should tell nothing of a source tells nothing, and a leak is found.

A shortcut is a few numbers of a whole scene, shown to the readout in every window. Its gain over the mean mask is
compared scene by scene, so that the spread of the SINR cancels; without information it is negative or zero, up to
chance: the bound is four standard errors. What a mixture legitimately shows has a bound of its own, in dB.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from common.masks import ideal_mask, spectra, waveform
from emma.metrics import SISDR
from emma.readouts import make_readout
from emma.tasks import TaskID

_FILE = importlib.util.spec_from_file_location("emma_shortcuts", Path(__file__).with_name("test_shortcuts.py"))
shared = sys.modules[_FILE.name] = importlib.util.module_from_spec(_FILE)
_FILE.loader.exec_module(shared)

TASK = TaskID.E_SC_SEP.value
ERRORS = 4.0
#: Most gain that the physics explains: the width of a mixture tells wide interferers from narrow ones, and width and
#: envelope how far one is above the signal of interest.
LEGITIMATE = {"occupied_bandwidth": 0.6, "papr": 0.2}


class Forest:
    """A random forest from a scene's numbers to the mean mask of its windows, a gain for each line."""

    def __init__(self, window: int, hop: int) -> None:
        self.cut = window, hop

    def fit(self, features, target) -> "Forest":
        lines = [spectra(target[:, part], *self.cut) for part in (1, 0)]
        mean = ideal_mask(*lines).mean(axis=1).real
        options = {"n_estimators": 30, "min_samples_leaf": 5, "random_state": 0}
        self.model = RandomForestRegressor(**options).fit(features, mean)
        return self

    def scores(self, features, given) -> np.ndarray:
        mask = np.clip(self.model.predict(features), 0, 1)[:, None]
        return waveform(mask * spectra(given, *self.cut), self.cut[1]).view(float)


@pytest.fixture(scope="module")
def scenes(small):
    return shared.scenes_of(small, TASK)


def gains(own, features: tuple[np.ndarray, np.ndarray], head: str) -> np.ndarray:
    """Gain in dB of every scored scene over the mean mask of the same fold, by the folds of the waveform."""
    folds, found = own.folds, []
    readout, (known, asked) = folds.spec.readout, folds.targets
    for fold in folds.folds:
        target, truth = known[fold.fit], asked[fold.scored]
        floor = make_readout(folds.spec).fit(np.zeros((len(fold.fit), 0)), target)
        if head == "forest":
            probe, shown = Forest(readout.window, readout.hop).fit(features[0][fold.fit], target), features[1]
        else:
            # The same numbers in every window.
            shown = np.tile(features[1], floor.windows)
            probe = make_readout(folds.spec).fit(np.tile(features[0], floor.windows)[fold.fit], target)
        answers = probe.scores(shown[fold.scored], truth[:, 0]), floor.scores(np.zeros((len(truth), 0)), truth[:, 0])
        ratios = [SISDR().sample_scores(answer.view(complex), truth[:, 1])[0] for answer in answers]
        found.append(ratios[0] - ratios[1])
    return np.concatenate(found)


def allowed(gain: np.ndarray) -> float:
    return ERRORS * gain.std() / np.sqrt(len(gain))


@pytest.mark.parametrize("head", ["pinned", "forest"])
@pytest.mark.parametrize("shortcut", shared.SHORTCUTS, ids=lambda f: f.__name__)
def test_a_shortcut_tells_nothing(scenes, shortcut, head: str, record_property) -> None:
    gain = gains(scenes, shared.features_of(scenes, shortcut), head)
    bound = max(allowed(gain), LEGITIMATE.get(shortcut.__name__, 0.0))
    record_property(f"{shortcut.__name__} {head}, dB", (gain.mean(), bound))
    assert gain.mean() <= bound


def lopsided(own) -> list[np.ndarray]:
    """By how much more of the upper half of the signal's band than of the lower one the ideal masks pass, by scene.

    The SINR alone would tell nothing: a mask that is the same in all lines moves no ratio.
    """
    cut, found = (own.folds.spec.readout.window, own.folds.spec.readout.hop), []
    for target in own.folds.targets:
        mask = ideal_mask(*(spectra(target[:, part], *cut) for part in (1, 0))).real.mean(axis=1)
        found.append(mask[:, 1:32].mean(axis=1) - mask[:, -31:].mean(axis=1))
    return found


@pytest.mark.parametrize("head", ["pinned", "forest"])
def test_a_leak_of_power_is_found(scenes, head: str) -> None:
    """The same scenes at a level that goes with the label: what the random gain hides would be found."""
    level = [10**values for values in lopsided(scenes)]
    leaking = tuple(shared.unit(iq) * factor[:, None, None] for iq, factor in zip(scenes.iq, level, strict=True))
    gain = gains(scenes, shared.features_of(shared.Scenes(scenes.folds, leaking, scenes.place), shared.power), head)
    assert gain.mean() > allowed(gain)


def test_a_leak_by_order_is_found(scenes) -> None:
    """Scenes in a file sorted by label."""
    place = tuple(np.argsort(np.argsort(values, kind="stable")) for values in lopsided(scenes))
    gain = gains(scenes, shared.features_of(shared.Scenes(scenes.folds, scenes.iq, place), shared.row_order), "forest")
    assert gain.mean() > allowed(gain)
