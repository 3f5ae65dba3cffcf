"""E-S2T-CAP by its own measure: floor, skill and ceiling, shortcuts that tell nothing, and leaks that would be found.

CIDEr-D has no chance level that follows from a number of classes: what tells nothing is read against the consensus of
all fit scenes, by four standard errors of a scene's score.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from common.agreement import Agreement
from emma.data.scenes import iterate_scenes
from emma.evaluation.probes import TaskFolds
from rfgen.recipe import Recipe
from rfgen.scenes import truths

TASK = "E-S2T-CAP"
ERRORS = 4.0


@dataclass(frozen=True)
class Scenes:
    """Folds, and of both splits samples ``[N, A, T]``, place in the file and truth, row by row of the folds."""

    folds: TaskFolds
    iq: tuple[np.ndarray, np.ndarray]
    place: tuple[np.ndarray, np.ndarray]
    truth: tuple[np.ndarray, np.ndarray]

    def count(self, side: int) -> np.ndarray:
        """Number of emitters of each scene."""
        return self.truth[side][:, :4].argmax(axis=1)


@pytest.fixture(scope="module")
def own(small) -> Scenes:
    folds = TaskFolds(small.manifest.spec(TASK), *small.index(TASK))
    recipe, found = Recipe.from_mapping(small.config.rfgen), []
    for split, index in (("TRAIN", folds.train), ("DEV", folds.evaluation)):
        parts = list(iterate_scenes(small.results / "scenes" / TASK / f"{split}.parquet", verify=False))
        rows = {scene: row for row, scene in enumerate(id_ for t, _ in parts for id_ in t["scene_id"].to_pylist())}
        place = np.array([rows[scene] for scene in index["scene_id"].to_pylist()])
        truth = np.concatenate(list(truths(recipe, TASK, split, None, small.config.seed)))
        found.append((np.concatenate([samples for _, samples in parts])[place], place, truth[place]))
    return Scenes(folds, *zip(*found, strict=True))


def scores(own: Scenes, features) -> dict[str, np.ndarray]:
    """Each scene's CIDEr-D at every held-out regime, by the document frequencies of the fold."""
    regimes = [np.array(side["snr_regime"].to_pylist()) for side in (own.folds.train, own.folds.evaluation)]
    found = {}
    for value in own.folds.spec.held_out:
        fit, scored = regimes[0] != value, regimes[1] == value
        answers = own.folds.readout().fit(features[0][fit], own.folds.targets[0][fit]).scores(features[1][scored])
        references = own.folds.targets[1][scored].tolist()
        texts = [text for texts in references for text in texts]
        document = np.append(np.repeat(np.arange(len(answers)), 5), np.full(len(answers), -1))
        agreement = Agreement([*texts, *answers[:, 0]], document)
        pairs = [agreement.between([5 * len(answers) + i], np.arange(5 * i, 5 * i + 5)) for i in range(len(answers))]
        found[value] = np.mean(pairs, axis=(1, 2))
    return found


@pytest.fixture(scope="module")
def floor(own) -> dict[str, np.ndarray]:
    return scores(own, tuple(np.zeros((len(place), 0)) for place in own.place))


def test_the_floor_is_the_consensus_of_all(own, floor) -> None:
    """One of the five sentences of an empty scene: worth (10 + its agreement with the other four) / 5 in a quarter."""
    probed = own.folds.score(tuple(np.zeros((len(place), 0)) for place in own.place), own.folds.readout)
    for value, each in floor.items():
        assert probed.values[value] == pytest.approx(each.mean(), abs=1e-9)
        empty = own.count(1)[np.array(own.folds.evaluation["snr_regime"].to_pylist()) == value] == 0
        assert empty.mean() == 0.25
        assert np.ptp(each[empty]) == pytest.approx(0.0, abs=1e-9)
        assert 2.0 < each[empty].mean() < 10.0
        assert each[~empty].mean() < 0.05


def test_a_caption_of_the_scene_itself_scores_between_its_bounds(own) -> None:
    """A reference word for word scores (10 + its agreement with four others) / 5; there is no perfect caption."""
    references = own.folds.targets[1].tolist()
    texts = [text for texts in references for text in texts]
    agreement = Agreement(texts, np.repeat(np.arange(len(references)), 5))
    for scene in range(0, len(references), 7):
        rows = np.arange(5 * scene, 5 * scene + 5)
        pairs = agreement.between(rows, rows)
        assert np.diag(pairs) == pytest.approx(np.full(5, 10.0))
        assert (pairs.mean(axis=1) >= 2.0).all()
        assert pairs.max() <= 10.0 + 1e-9


def test_skill_and_ceiling(small, own, floor) -> None:
    """The detector and `dsp` beat the floor at each regime, and the truth beats both by three standard errors."""
    rows = {}
    for name in ("dsp", "band_detector"):
        embeddings = small.embedded(TASK, name)
        rows[name] = scores(own, [embeddings.of(side["scene_id"]) for side in (own.folds.train, own.folds.evaluation)])
    truth = scores(own, own.truth)
    for value, ceiling in truth.items():
        found = {name: each[value] for name, each in rows.items()}
        for name, each in found.items():
            gain = each - floor[value]
            # An unseen low regime costs `dsp` nearly all that it gains elsewhere.
            if (name, value) != ("dsp", "low"):
                assert gain.mean() > 1.645 * gain.std() / np.sqrt(len(gain)), (name, value)
            left = ceiling - each
            assert left.mean() > 3 * left.std() / np.sqrt(len(left)), (name, value)
            assert left.mean() > 0.2 * (ceiling - floor[value]).mean(), (name, value)


def power(own: Scenes, side: int, iq: np.ndarray) -> np.ndarray:
    return np.stack([10 * np.log10(np.mean(np.abs(iq) ** 2, axis=(1, 2))), np.abs(iq).max(axis=(1, 2))], axis=1)


def row_order(own: Scenes, side: int, iq: np.ndarray) -> np.ndarray:
    place = own.place[side]
    return np.stack([place / len(place), place % 40, place % 20, place % 8, place % 4, place % 2], axis=1)


def hash_nibbles(own: Scenes, side: int, iq: np.ndarray) -> np.ndarray:
    index = (own.folds.train, own.folds.evaluation)[side]
    names = zip(index["scene_id"].to_pylist(), index["iq_sha256"].to_pylist(), strict=True)
    return np.array([[int(digit, 16) for digit in scene[:12] + samples[:12]] for scene, samples in names])


def stated_snr(own: Scenes, side: int, iq: np.ndarray) -> np.ndarray:
    index = (own.folds.train, own.folds.evaluation)[side]
    return np.array(index["snr_db"].to_pylist(), float)[:, None]


def ends(own: Scenes, side: int, iq: np.ndarray) -> np.ndarray:
    edge = (iq / np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True)))[:, 0][:, [0, 1, 2, -3, -2, -1]]
    return np.hstack([edge.real, edge.imag])


def occupied_bandwidth(own: Scenes, side: int, iq: np.ndarray) -> np.ndarray:
    spectrum = np.abs(np.fft.fft(iq[:, 0], axis=1)) ** 2
    spectrum /= spectrum.sum(axis=1, keepdims=True)
    cumulated = np.cumsum(-np.sort(-spectrum, axis=1), axis=1)
    return np.stack([(cumulated < share).mean(axis=1) for share in (0.5, 0.9, 0.99)], axis=1)


def papr(own: Scenes, side: int, iq: np.ndarray) -> np.ndarray:
    envelope = np.abs(iq / np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True)))
    return np.stack([10 * np.log10((envelope**2).max(axis=(1, 2))), (envelope**4).mean(axis=(1, 2))], axis=1)


#: Most gain over the floor, of what the truth gains, that a caption's subject explains.
LEGITIMATE = {
    # How much of the band is full is what captions speak of, and bursts are peaks.
    "occupied_bandwidth": 0.35,
    "papr": 0.2,
}


@pytest.mark.parametrize(
    "shortcut", [power, row_order, hash_nibbles, stated_snr, ends, occupied_bandwidth, papr], ids=lambda f: f.__name__
)
def test_a_shortcut_tells_nothing(own, floor, shortcut, record_property) -> None:
    features = [shortcut(own, side, own.iq[side]).astype(np.float32) for side in (0, 1)]
    found, ceiling = scores(own, features), scores(own, own.truth)
    gain = np.mean([found[value].mean() - floor[value].mean() for value in floor])
    span = np.mean([ceiling[value].mean() - floor[value].mean() for value in floor])
    spread = np.concatenate([found[value] - floor[value] for value in floor])
    allowed = max(ERRORS * spread.std() / np.sqrt(len(spread)), LEGITIMATE.get(shortcut.__name__, 0.0) * span)
    record_property(shortcut.__name__, (gain / span, allowed / span))
    assert gain <= allowed


@pytest.mark.parametrize("leak", ["power", "order"])
def test_a_leak_is_found(own, floor, leak: str) -> None:
    """Levels that follow the number of emitters, or files sorted by it."""
    counts = [own.count(side) for side in (0, 1)]
    if leak == "power":
        levels = [10.0 ** count[:, None, None] for count in counts]
        unit = [iq / np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True)) for iq in own.iq]
        features = [power(own, side, unit[side] * levels[side]) for side in (0, 1)]
    else:
        places = [np.argsort(np.argsort(count, kind="stable")) for count in counts]
        features = [(place / len(place))[:, None] for place in places]
    found = scores(own, features)
    gain = np.concatenate([found[value] - floor[value] for value in floor])
    assert gain.mean() > ERRORS * gain.std() / np.sqrt(len(gain))
