"""What must hold whatever the samples are."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from emma.metrics import METRICS, TopKAccuracy

settings.register_profile("metrics", deadline=None, max_examples=60, derandomize=True)
pytestmark = pytest.mark.filterwarnings("error")
quick = settings.get_profile("metrics")

binary_samples = st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 1)), min_size=2, max_size=40).filter(
    lambda rows: len({label for _, label in rows}) == 2
)
class_scores = st.integers(2, 6).flatmap(
    lambda c: st.lists(
        st.tuples(st.lists(st.integers(-3, 3), min_size=c, max_size=c), st.integers(0, c - 1)), min_size=1, max_size=20
    )
)
degrees = st.floats(-1e4, 1e4, allow_nan=False)
word = st.sampled_from(["a", "weak", "strong", "tone", "of", "2.4", "GHz", "noise", ",", "drone"])
sentence = st.lists(word, max_size=10).map(" ".join)
captions = st.lists(st.tuples(sentence, st.lists(sentence, min_size=1, max_size=3)), min_size=2, max_size=8)
signals = st.integers(0, 2**32 - 1).map(lambda s: np.random.default_rng(s).standard_normal((2, 4, 16, 2)) @ [1, 1j])


def same(a, b):
    return a == pytest.approx(b, rel=1e-9, abs=1e-9)


def columns(rows):
    return tuple(map(list, zip(*rows, strict=True)))


@quick
@given(binary_samples, st.randoms(use_true_random=False))
def test_order_of_rows_in_rankings(rows, random):
    shuffled = random.sample(rows, len(rows))
    for name in ("AUC", "AUROC", "EER", "BalancedAccuracy"):
        if name == "BalancedAccuracy":
            rows, shuffled = ([(abs(p), t) for p, t in r] for r in (rows, shuffled))
        assert METRICS[name](*columns(rows)) == pytest.approx(METRICS[name](*columns(shuffled)), rel=1e-12)


@quick
@given(class_scores, st.randoms(use_true_random=False))
def test_order_of_rows_in_accuracies(rows, random):
    shuffled = random.sample(rows, len(rows))
    for metric in (METRICS["PlainAccuracy"], METRICS["Top1Accuracy"], TopKAccuracy(2)):
        assert same(metric(*columns(rows)), metric(*columns(shuffled)))


@quick
@given(captions, st.randoms(use_true_random=False))
def test_order_of_rows_and_of_references_in_texts(rows, random):
    shuffled = [(text, random.sample(refs, len(refs))) for text, refs in random.sample(rows, len(rows))]
    for name in ("Bleu", "CIDER", "ExactMatch", "F1", "Meteor"):
        value = METRICS[name](*columns(rows))
        assert same(value, METRICS[name](*columns(shuffled)))
        assert 0.0 <= value <= (10.0 if name == "CIDER" else 1.0) + 1e-12


@quick
@given(signals, st.permutations(range(4)))
def test_order_of_rows_in_signals(pair, order):
    for name in ("NMSE", "SISDR"):
        assert same(METRICS[name](*pair), METRICS[name](*pair[:, order]))


@quick
@given(binary_samples)
def test_increasing_transforms_leave_rankings_alone(rows):
    scores, target = columns(rows)
    scores = np.array(scores, float)
    for name in ("AUC", "AUROC", "EER"):
        value = METRICS[name](scores, target)
        assert 0.0 <= value <= 1.0
        for transform in (np.exp, np.cbrt, lambda s: 1e6 * s - 3e5, lambda s: 1e-6 * s, lambda s: 1 / (1 + np.exp(-s))):
            assert METRICS[name](transform(scores), target) == value
    # Turning the order round turns the area round and swaps the two kinds of error.
    assert same(METRICS["AUC"](-scores, target), 1 - METRICS["AUC"](scores, target))
    assert same(METRICS["EER"](-scores, 1 - np.array(target)), METRICS["EER"](scores, target))


@quick
@given(class_scores)
def test_top_k_never_falls(rows):
    scores, target = columns(rows)
    values = [TopKAccuracy(k)(scores, target) for k in range(1, len(scores[0]) + 1)]
    assert values[0] == METRICS["Top1Accuracy"](scores, target)
    assert values[-1] == 1.0
    assert np.all(np.diff(values) >= 0)


@quick
@given(class_scores)
def test_names_of_the_classes_do_not_matter(rows):
    scores, target = columns(rows)
    c = len(scores[0])
    turned = np.roll(scores, 1, axis=1), (np.array(target) + 1) % c
    assert same(METRICS["Top1Accuracy"](scores, target), METRICS["Top1Accuracy"](*turned))
    if len(set(target)) > 1:
        for name in ("BalancedAccuracy", "AUC"):
            assert same(METRICS[name](scores, target), METRICS[name](*turned))


@quick
@given(st.lists(st.tuples(degrees, degrees), min_size=1, max_size=20), degrees, st.integers(-3, 3))
def test_rotation_leaves_the_angular_error_alone(rows, turn, whole_turns):
    preds, target = map(np.array, columns(rows))
    value = METRICS["MeanAngularError"](preds, target)
    assert 0.0 <= value <= 180.0
    assert same(METRICS["MeanAngularError"](preds + turn, target + turn), value)
    assert same(METRICS["MeanAngularError"](preds + 360 * whole_turns, target), value)
    assert METRICS["MeanAngularError"](target, preds) == value


@quick
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
@example(1.7e308, -1.7e308)
@example(-1e-17, 0.0)
def test_angular_error_of_any_two_numbers_is_in_range(a, b):
    assert 0.0 <= METRICS["MeanAngularError"]([a], [b]) <= 180.0


@quick
@given(signals, st.floats(-12, 12), st.floats(0, 6.3))
def test_scaling_leaves_signal_ratios_alone(pair, exponent, phase):
    estimate, reference = pair
    factor = 10.0**exponent * np.exp(1j * phase)
    assert same(METRICS["NMSE"](estimate * factor, reference * factor), METRICS["NMSE"](estimate, reference))
    for a, b in ((factor, factor), (factor, 1), (1, factor)):
        assert same(METRICS["SISDR"](estimate * a, reference * b), METRICS["SISDR"](estimate, reference))


@quick
@given(captions)
def test_a_reference_itself_is_the_best_answer(rows):
    _, target = columns(rows)
    first = [refs[0] for refs in target]
    for name in ("ExactMatch", "F1"):
        assert METRICS[name](first, target) == 1.0
    assume(any(len(text.split()) >= 4 for text in first))
    assert same(METRICS["Bleu"](first, target), 1.0)
