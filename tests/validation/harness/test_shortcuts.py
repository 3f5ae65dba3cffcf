"""What should tell nothing tells nothing: shortcuts under the pinned head and a random forest, on every task.

Each shortcut is an embedding of a few numbers; heads are fit and scored on the folds of the primary protocol, as any
backbone is. Without information a score is the floor's, up to chance: its standard error follows from the number of
scored scenes (sessions for units, whose captures are alike), and the bound is four of them, which over all that is
tried here fails by luck once in hundreds of releases. What a task legitimately shows has a bound of its own.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from emma.data.scenes import iterate_scenes
from emma.evaluation.probes import TaskFolds
from emma.metrics import METRICS
from emma.tasks import ReadoutSpec, TaskID
from emma.tasks.questions import grammar, question_key

#: Waveforms and captions have no forest: their shortcuts stand in files of their own.
ELSEWHERE = (TaskID.E_SC_SEP, TaskID.E_S2T_CAP)
TASKS = [task.value for task in TaskID if task not in ELSEWHERE]
ERRORS = 4.0
#: Most gain over the floor, on the anchors' scale from no skill to perfect, that a task's physics explains.
LEGITIMATE = {
    # Modulations differ in bandwidth (FM, FSK, pulses) and in envelope (constant, QAM), which is what cumulants use.
    ("E-ID-AMC", "occupied_bandwidth"): 0.3,
    ("E-ID-AMC", "papr"): 0.3,
    # A converter's integers are the smaller, and their products' last bits the more alike, the peakier a scene is.
    ("E-ID-AMC", "float_bits"): 0.1,
    # Emitters of the bands differ in width and bursts; both labels have wide and narrow, constant and peaky ones.
    ("E-ID-DRONE", "occupied_bandwidth"): 0.5,
    ("E-ID-DRONE", "papr"): 0.5,
    # Amplifiers of other saturation clip other peaks.
    ("E-ID-FP", "papr"): 0.3,
    # A user fills a part of the band, noise all of it.
    ("E-SC-SENSE", "occupied_bandwidth"): 0.65,
    # Fading over the band takes from the edges what it leaves in the middle.
    ("E-LOC-LOS", "occupied_bandwidth"): 0.5,
    # Echoes spread the envelope of the known symbol, nearly constant in sight; 0.03 without the symbol (v0.1).
    ("E-LOC-LOS", "papr"): 0.6,
    # How much of the band is taken says how many emitters there are and how wide; so do their peaks.
    ("E-S2T-QA", "occupied_bandwidth"): 0.45,
    ("E-S2T-QA", "papr"): 0.3,
}


@dataclass(frozen=True)
class Scenes:
    """A task's folds, and of both splits samples ``[N, A, T]`` and place in the file, row by row of the folds.

    ``shown``: folds whose fit scenes have both labels, where the task's own hide one: DEV's of the other values.
    """

    folds: TaskFolds
    iq: tuple[np.ndarray, np.ndarray]
    place: tuple[np.ndarray, np.ndarray]
    shown: TaskFolds | None = None


@pytest.fixture(scope="module")
def scenes(small, identification) -> dict[str, Scenes]:
    own, head = identification.manifest.tasks, small.manifest.spec("E-SC-SENSE").readout
    return {task: scenes_of(identification if task in own else small, task, head) for task in TASKS}


def scenes_of(release, task: str, head: ReadoutSpec | None = None) -> Scenes:
    """The scenes of a task; ``head`` is what labels of one class alone are shown to."""
    folds = TaskFolds(release.manifest.spec(task), *release.index(task))
    iq, places = [], []
    for split, index in (("TRAIN", folds.train), ("DEV", folds.evaluation)):
        parts = list(iterate_scenes(release.results / "scenes" / task / f"{split}.parquet", verify=False))
        ids = [scene for table, _ in parts for scene in table["scene_id"].to_pylist()]
        rows = {scene: row for row, scene in enumerate(ids)}
        place = np.array([rows[scene] for scene in index["scene_id"].to_pylist()])
        iq.append(np.concatenate([samples for _, samples in parts])[place])
        places.append(place)
    shown = labelled(folds, head) if folds.kind.one_class and head is not None else None
    return Scenes(folds, tuple(iq), tuple(places), shown)


def labelled(folds: TaskFolds, head: ReadoutSpec) -> TaskFolds:
    """Folds of the evaluation scenes alone, with their labels: what a leak could teach whoever had been shown it."""
    spec = folds.spec.model_copy(update={"target": "binary", "readout": head})
    return TaskFolds(spec, folds.evaluation, folds.evaluation)


def unit(iq: np.ndarray) -> np.ndarray:
    return iq / np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True))


def power(iq, index, place) -> np.ndarray:
    return np.stack([10 * np.log10(np.mean(np.abs(iq) ** 2, axis=(1, 2))), np.abs(iq).max(axis=(1, 2))], axis=1)


def row_order(iq, index, place) -> np.ndarray:
    """Place in the file as a share, in a chunk of 40, 20 or 8, and among the sorted ids."""
    ranks = np.argsort(np.argsort(index["scene_id"].to_pylist()))
    return np.stack([place / len(place), place % 40, place % 20, place % 8, place % 2, ranks], axis=1)


def hash_nibbles(iq, index, place) -> np.ndarray:
    return np.array(
        [
            [int(digit, 16) for digit in scene[:12] + samples[:12]]
            for scene, samples in zip(index["scene_id"].to_pylist(), index["iq_sha256"].to_pylist(), strict=True)
        ]
    )


def float_bits(iq, index, place) -> np.ndarray:
    """The lowest bits of the samples' floats: how often each is set, and those of the first samples themselves."""
    words = np.ascontiguousarray(iq[:, 0], np.complex64).view(np.uint32)
    low = (words[:, :, None] >> np.arange(6)) & 1
    return np.hstack([low.mean(axis=1), low[:, :6].reshape(len(iq), -1)])


def occupied_bandwidth(iq, index, place) -> np.ndarray:
    """Shares of the band that hold 50, 90 and 99 percent of the power, and its centre."""
    spectrum = np.mean(np.abs(np.fft.fft(iq, axis=2)) ** 2, axis=1)
    spectrum /= spectrum.sum(axis=1, keepdims=True)
    cumulated = np.cumsum(-np.sort(-spectrum, axis=1), axis=1)
    widths = [(cumulated < share).mean(axis=1) for share in (0.5, 0.9, 0.99)]
    return np.stack([*widths, spectrum @ np.fft.fftfreq(iq.shape[2])], axis=1)


def papr(iq, index, place) -> np.ndarray:
    envelope = np.abs(unit(iq))
    return np.stack([10 * np.log10((envelope**2).max(axis=(1, 2))), (envelope**4).mean(axis=(1, 2))], axis=1)


def ends(iq, index, place) -> np.ndarray:
    """Magnitudes of the first and last samples of the first antenna, and those samples themselves."""
    edge = unit(iq)[:, 0][:, [0, 1, 2, -3, -2, -1]]
    return np.hstack([np.abs(edge), edge.real, edge.imag])


SHORTCUTS = (power, row_order, hash_nibbles, float_bits, occupied_bandwidth, papr, ends)


class Forest:
    """A random forest as a probe; for units the votes of a forest of the gallery's captures."""

    def __init__(self, kind) -> None:
        self.kind = kind

    def fit(self, features, target, groups=None) -> "Forest":
        # Few scenes in a leaf are noise in each of many numbers.
        options = {"n_estimators": 20, "min_samples_leaf": 20 if self.kind.shape else 2, "random_state": 0}
        if self.kind.regressed:
            self.model = RandomForestRegressor(**options).fit(features, self.kind.regressand(target))
        elif not self.kind.enrols:
            self.model = RandomForestClassifier(**options).fit(features, target)
        return self

    def enrol(self, features, target, turns) -> None:
        self.galleries = [(features[turns == turn], target[turns == turn]) for turn in np.unique(turns)]

    def turn_scores(self, features, given=None) -> np.ndarray:
        scores = []
        for gallery in self.galleries:
            self.model = RandomForestClassifier(n_estimators=10, random_state=0).fit(*gallery)
            scores.append(self.scores(features))
        return np.stack(scores)

    def scores(self, features, given=None) -> np.ndarray:
        if self.kind.regressed:
            return self.kind.from_regression(self.model.predict(features))
        shares = np.zeros((len(features), len(self.kind.classes)))
        shares[:, self.model.classes_.astype(int)] = self.model.predict_proba(features)
        return shares if self.kind.width > 1 else shares[:, 1:] - 0.5


class Answering:
    """A forest for each kind and argument that questions ask about."""

    def __init__(self, questions) -> None:
        self.asked = grammar(questions)

    def fit(self, features, target, groups=None) -> "Answering":
        heads = self._heads(target[:, :, 0])
        self.models = {}
        for head in np.unique(heads):
            rows, places = np.nonzero(heads == head)
            forest = RandomForestClassifier(n_estimators=20, min_samples_leaf=2, random_state=0)
            self.models[head] = forest.fit(features[rows], target[rows, places, 1].astype(str))
        return self

    def scores(self, features, given=None) -> np.ndarray:
        heads, answers = self._heads(given), np.empty(given.shape, object)
        for head in np.unique(heads):
            rows, places = np.nonzero(heads == head)
            answers[rows, places] = self.models[head].predict(features[rows])
        return answers

    def _heads(self, questions) -> np.ndarray:
        return np.vectorize(lambda text: "/".join(self.asked[question_key(text)]))(questions)


def gain(scenes: Scenes, features: tuple[np.ndarray, np.ndarray], head: str) -> float:
    """Score over the floor, on the scale from no skill, 0, to perfect, 1; a forest is shown both labels in any case."""
    folds = scenes.folds
    if head == "forest" and scenes.shown is not None:
        folds, features = scenes.shown, (features[1], features[1])
    asked = folds.spec.readout.questions
    make = folds.readout if head == "pinned" else lambda: Answering(asked) if asked else Forest(folds.kind)
    probed = folds.score(features, make)
    assert probed.undefined is None
    anchors = folds.spec.anchors
    if folds.spec.target == "channel":
        # The mean channel is the floor, and a head that fits noise is worse than it.
        nothing = [np.zeros((len(side), 0), np.float32) for side in (folds.train, folds.evaluation)]
        return (folds.score(nothing, folds.readout).score - probed.score) / (anchors.maximum - anchors.minimum)
    if folds.spec.target == "answer":
        # Who fits noise answers less than whoever gives the most frequent answers.
        return (probed.score - anchors.minimum) / (anchors.maximum - anchors.minimum)
    floor = anchors.maximum if METRICS[folds.spec.metric].direction == "lower" else anchors.minimum
    return abs(probed.score - floor) / (anchors.maximum - anchors.minimum)


def bound(scenes: Scenes) -> float:
    """Four standard errors of a score without information, on the scale of ``gain``."""
    folds = scenes.folds
    spec, n = folds.spec, len(folds.evaluation)
    span = spec.anchors.maximum - spec.anchors.minimum
    if spec.target == "channel":
        # The error of the mean channel is a scene's energy, 1, give or take a tenth.
        return ERRORS * 10 / np.log(10) * 0.1 / np.sqrt(n) / span
    if spec.target == "answer":
        # The floor's answers of a scene are right and wrong as if by themselves, by the intervals of ``prior``.
        return ERRORS * np.sqrt(spec.anchors.minimum * (1 - spec.anchors.minimum) / (6 * n)) / span
    if not spec.classes:
        # The error of a random direction is uniform from 0 to 180 degrees.
        return ERRORS * 180 / np.sqrt(12 * n) / span
    if folds.kind.enrols:
        # Captures of a session are as good as one: a share of sessions.
        n = len(set(folds.evaluation["session"].to_pylist()))
    chance = spec.anchors.minimum if len(spec.classes) > 2 else 0.5
    if spec.metric in {"AUC", "AUROC"}:
        # The variance of the rank statistic without information.
        share = np.mean(folds.targets[1])
        return ERRORS / np.sqrt(12 * n * share * (1 - share)) / span
    return ERRORS * np.sqrt(chance * (1 - chance) / n) / span


def features_of(scenes: Scenes, shortcut) -> tuple[np.ndarray, np.ndarray]:
    sides = zip(scenes.iq, (scenes.folds.train, scenes.folds.evaluation), scenes.place, strict=True)
    return tuple(shortcut(*side).astype(np.float32) for side in sides)


@pytest.mark.parametrize("head", ["pinned", "forest"])
@pytest.mark.parametrize("shortcut", SHORTCUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("task", TASKS)
def test_a_shortcut_tells_nothing(scenes, task: str, shortcut, head: str, record_property) -> None:
    own = scenes[task]
    found = gain(own, features_of(own, shortcut), head)
    allowed = max(bound(own), LEGITIMATE.get((task, shortcut.__name__), 0.0))
    record_property(f"{task} {shortcut.__name__} {head}", (found, allowed))
    assert found <= allowed


def ordered(target: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Labels as one number each: of beams the strongest's place, of answers a count, of channels what tells most.

    What tells most of channels is their first principal component among those ``known``.
    """
    if target.ndim == 3:
        return target[:, 1, 1].astype(float)
    if target.ndim == 1:
        return target
    if target.min() >= 0:
        return target.argmax(axis=1)
    told = target @ np.linalg.eigh(np.cov(known.T))[1][:, -1]
    return told - told.min()


def sharpest(scenes: Scenes) -> str:
    """The head that finds a leak: of a channel a single number tells little, and that in proportion."""
    return "pinned" if scenes.folds.spec.target == "channel" else "forest"


@pytest.mark.parametrize("task", TASKS)
def test_a_leak_of_power_is_found(scenes, task: str) -> None:
    """The same scenes at a level that goes with the label: what the random gain hides would be found."""
    own = scenes[task]
    numbers = [ordered(target, own.folds.targets[0]) for target in own.folds.targets]
    level = [10 ** (number / max(number.max(), 1.0)) for number in numbers]
    leaking = tuple(unit(iq) * factor[:, None, None] for iq, factor in zip(own.iq, level, strict=True))
    assert gain(own, features_of(replace(own, iq=leaking), power), sharpest(own)) > bound(own)


@pytest.mark.parametrize("task", TASKS)
def test_a_leak_by_order_is_found(scenes, task: str) -> None:
    """Scenes in a file sorted by label."""
    own = scenes[task]
    numbers = [ordered(target, own.folds.targets[0]) for target in own.folds.targets]
    place = tuple(np.argsort(np.argsort(number, kind="stable")) for number in numbers)
    assert gain(own, features_of(replace(own, place=place), row_order), sharpest(own)) > bound(own)
