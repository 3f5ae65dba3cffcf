"""Captions as labels, and the readout that takes the one on which the nearest fit scenes agree."""

import importlib.util

import numpy as np
import pyarrow as pa
import pytest

from common.errors import InputError
from common.files import parse
from emma.evaluation.task_metrics import check_metrics, metric_of
from emma.metrics import CIDER, METRICS
from emma.readouts import load_readout, make_readout, standardise
from emma.tasks import TARGETS, TaskID, TaskSpec

SPEC = {
    "target": "caption",
    "readout": {"kind": "consensus", "regularisation": (), "neighbours": 3, "max_parameters": 1},
    "metric": "CIDER",
    "secondary_metrics": ["Bleu", "Meteor"],
    "tokenizer": "13a-lower",
    "unit": "1",
    "ood_axis": "snr_regime",
    "held_out": ["low", "high"],
    "in_ood_avg": False,
    "anchors": {"minimum": 0.0, "maximum": 10.0},
}
CAPTION = TARGETS["caption"]()
THINGS = ("a weak tone", "a strong tone", "a burst", "only noise")


def spec(neighbours: int = 3, **changes) -> TaskSpec:
    return parse(TaskSpec, SPEC | {"readout": SPEC["readout"] | {"neighbours": neighbours}} | changes, "r")


def captions(kinds) -> np.ndarray:
    """Three captions of a scene of each kind, in words drawn for each."""
    rng = np.random.default_rng(5)
    ends = (" at the low end", " at the high end", " in the band", "", " and nothing else")
    found = [[THINGS[k] + ends[i] for i in rng.permutation(5)[:3]] for k in kinds]
    return np.fromiter(found, object, len(found))


@pytest.fixture(scope="module")
def fit():
    """Sixty scenes of four kinds, told by two of their three features."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(4, size=60)
    features = np.stack([np.cos(np.pi / 2 * kinds), np.sin(np.pi / 2 * kinds), np.full(60, 3.0)], axis=1)
    return (features + 0.05 * rng.standard_normal((60, 3)) * [1, 1, 0]).astype(np.float32), captions(kinds), kinds


def by_hand(features, target, asked, neighbours: int) -> str:
    """The answer to one embedding by the metric itself: every caption of every neighbour as an answer to each."""
    inputs, mean, scale = standardise(features)
    one = (asked - mean) * scale
    norms = np.linalg.norm(inputs, axis=1) * np.linalg.norm(one)
    cosines = np.round(np.divide(inputs @ one, norms, out=np.zeros(len(inputs)), where=norms > 0), 9)
    near = np.flatnonzero(cosines >= np.sort(cosines)[-min(neighbours, len(cosines))])
    sets, n = target.tolist(), len(target)

    def mean_score(text: str) -> float:
        scores = [n * CIDER()(["" if other != scene else text for other in range(n)], sets) for scene in near]
        return round(float(np.average(scores, weights=[len(sets[scene]) for scene in near])), 9)

    return max(sorted({text for scene in near for text in sets[scene]}), key=mean_score)


@pytest.mark.parametrize("neighbours", [1, 3, 7])
def test_the_answer_is_that_of_the_metric(fit, neighbours: int) -> None:
    features, target, _ = fit
    features, target = features[:16], target[:16]
    asked = np.random.default_rng(2).standard_normal((6, 3)).astype(np.float32)
    answers = make_readout(spec(neighbours)).fit(features, target).scores(asked)
    assert answers.shape == (6, 1)
    assert answers[:, 0].tolist() == [by_hand(features, target, one, neighbours) for one in asked]


def test_kinds_that_features_tell_are_named(fit) -> None:
    features, target, kinds = fit
    answers = make_readout(spec()).fit(features[:50], target[:50]).scores(features[50:])
    assert all(answer.startswith(THINGS[k]) for (answer,), k in zip(answers, kinds[50:], strict=True))


@pytest.mark.parametrize("constant", [np.zeros((60, 0)), np.ones((60, 2))])
def test_without_features_it_is_the_consensus_of_all(fit, constant) -> None:
    _, target, _ = fit
    floor = make_readout(spec(60)).fit(fit[0], target).scores(fit[0][:1])[0, 0]
    answers = make_readout(spec(3)).fit(constant, target).scores(constant[:4])
    assert answers[:, 0].tolist() == [floor] * 4


def test_the_order_of_the_fit_scenes_decides_nothing(fit) -> None:
    features, target, _ = fit
    turned = np.random.default_rng(1).permutation(60)
    twice = np.concatenate([features[:20]] * 3)  # ties everywhere
    for given in (features, twice):
        first = make_readout(spec()).fit(given, target).scores(features)
        again = make_readout(spec()).fit(given[turned], target[turned]).scores(features)
        assert first.tolist() == again.tolist()


def test_fewer_scenes_than_neighbours_are_all_neighbours(fit) -> None:
    features, target, _ = fit
    few = make_readout(spec(20)).fit(features[:5], target[:5])
    assert (
        few.scores(features).tolist() == make_readout(spec(5)).fit(features[:5], target[:5]).scores(features).tolist()
    )


def test_it_comes_back_from_its_tensors_and_refits_without_a_part(fit) -> None:
    features, target, _ = fit
    target = target.copy()
    target[0] = ["naïve ∿ text", "a\nb\0c"]  # any text, whatever its bytes
    readout = make_readout(spec()).fit(features, target)
    assert all(isinstance(v, np.ndarray) and v.dtype != object for v in readout.tensors.values())
    again = load_readout(spec(), {k: v.copy() for k, v in readout.tensors.items()})
    assert again.scores(features).tolist() == readout.scores(features).tolist()
    assert make_readout(spec(1)).fit(features[:1], target[:1]).scores(features[:1])[0, 0] in target[0]
    kept = np.arange(60) % 5 != 0
    part = readout.without(features, target, kept).scores(features)
    assert part.tolist() == make_readout(spec()).fit(features[kept], target[kept]).scores(features).tolist()


def test_capacity(fit) -> None:
    target = fit[1]
    assert make_readout(spec()).parameters(2048) == 0
    with pytest.raises(InputError, match="embedding_dim: 2049 is wider than the pinned 2048"):
        make_readout(spec()).fit(np.zeros((60, 2049)), target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b"]}, "classes: expected none with target caption"),
        ({"tokenizer": None}, "tokenizer: expected one with target caption"),
        ({"readout": SPEC["readout"] | {"neighbours": None}}, "neighbours: expected a value with kind consensus"),
        ({"readout": SPEC["readout"] | {"regularisation": (0.1,)}}, "regularisation: expected no value"),
        ({"readout": SPEC["readout"] | {"kind": "ridge"}}, "neighbours: expected none with kind ridge"),
        ({"shape": [3]}, "shape: expected none with target caption"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(TaskSpec, SPEC | change, "r")


def test_metrics_that_fit() -> None:
    check_metrics({TaskID.E_S2T_CAP: spec()}, "r")
    assert metric_of(spec(), "CIDER").tokenizer == "13a-lower"
    with pytest.raises(InputError, match="AUC"):
        check_metrics({TaskID.E_S2T_CAP: spec(metric="AUC")}, "r")


def test_without_nltk_a_task_of_captions_says_what_it_needs_and_others_run(monkeypatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "nltk" else real(name, *rest))
    monkeypatch.setattr(METRICS, "_made", {})
    with pytest.raises(InputError, match=r"r: tasks\.E-S2T-CAP\.metric: Meteor: METEOR needs nltk: .*extra 'text'"):
        check_metrics({TaskID.E_S2T_CAP: spec()}, "r")
    check_metrics({TaskID.E_S2T_CAP: spec(secondary_metrics=["Bleu"])}, "r")
    with pytest.raises(InputError, match="AUC does not measure target caption, expected Bleu, CIDER"):
        check_metrics({TaskID.E_S2T_CAP: spec(metric="AUC", secondary_metrics=[])}, "r")


def test_labels_that_are_no_captions_are_none() -> None:
    given = pa.chunked_array([[["a", "b"], None, []], [["a", None], ["a", " "], ["ok"], [""]]], pa.list_(pa.string()))
    assert CAPTION.encode(given).to_pylist() == [["a", "b"], None, None, None, None, ["ok"], None]
    assert CAPTION.encode(given.slice(2)).to_pylist() == [None, None, None, ["ok"], None]
    assert CAPTION.encode(pa.chunked_array([], pa.list_(pa.string()))).to_pylist() == []


def test_texts_meet_their_references() -> None:
    numbers = CAPTION.numbers(pa.chunked_array([[["a tone", "one tone"], ["noise", "only noise"]]]))
    assert (numbers.shape, numbers.dtype) == ((2,), object)
    preds, target, entries = CAPTION.metric_inputs(CIDER(), np.array([["a tone"], ["noise"]], object), numbers)
    assert (preds, target, entries) == (["a tone", "noise"], [["a tone", "one tone"], ["noise", "only noise"]], 1)
    assert METRICS["CIDER"](preds, target) > 0
    assert CAPTION.undefined_reason(numbers[:0], numbers, "low") == "no captions in fit scenes"
    assert CAPTION.undefined_reason(numbers, numbers[:1], "low") == "fewer than two scored scenes"
    assert CAPTION.undefined_reason(numbers, numbers, None) is None
