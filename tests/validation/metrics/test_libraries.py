"""Where the libraries are right the metrics agree with them; where one is wrong, the fault is shown to be there."""

import numpy as np
import pytest
import torch
from torchmetrics import classification as tc
from torchmetrics import functional as tf

from common.tokenizers import tokenize
from emma.metrics import METRICS, TopKAccuracy

RNG = np.random.default_rng(5)
SCORES, TARGET = RNG.random(400), RNG.integers(0, 2, 400)
CLASSES, LABELS = RNG.random((400, 4)), RNG.integers(0, 4, 400)


def of(values):
    return torch.from_numpy(np.asarray(values))


def test_areas_agree_on_probabilities():
    assert METRICS["AUC"](SCORES, TARGET) == pytest.approx(tc.BinaryAUROC()(of(SCORES), of(TARGET)).item(), abs=1e-6)
    probabilities = CLASSES / CLASSES.sum(1, keepdims=True)
    expected = tc.MulticlassAUROC(num_classes=4)(of(probabilities), of(LABELS)).item()
    assert METRICS["AUC"](probabilities, LABELS) == pytest.approx(expected, abs=1e-6)


def test_areas_agree_with_scikit_learn_to_the_last_digits():
    sklearn = pytest.importorskip("sklearn.metrics")
    for scores in (SCORES, np.round(SCORES, 1), 50 * SCORES):
        assert METRICS["AUC"](scores, TARGET) == pytest.approx(sklearn.roc_auc_score(TARGET, scores), rel=1e-12)
    predicted = CLASSES.argmax(1)
    expected = sklearn.balanced_accuracy_score(LABELS, predicted)
    assert METRICS["BalancedAccuracy"](CLASSES, LABELS) == pytest.approx(expected, rel=1e-12)


def test_accuracies_agree_without_ties():
    for name, average in (("PlainAccuracy", "micro"), ("Top1Accuracy", "micro"), ("BalancedAccuracy", "macro")):
        expected = tc.MulticlassAccuracy(num_classes=4, average=average)(of(CLASSES), of(LABELS)).item()
        assert METRICS[name](CLASSES, LABELS) == pytest.approx(expected, abs=1e-6)
    expected = tc.MulticlassAccuracy(num_classes=4, average="micro", top_k=2)(of(CLASSES), of(LABELS)).item()
    assert TopKAccuracy(2)(CLASSES, LABELS) == pytest.approx(expected, abs=1e-6)


def test_equal_error_rate_lies_on_the_library_curve():
    far, frr, _ = (part.double().numpy() for part in tc.BinaryROC()(of(SCORES), of(TARGET)))
    frr = 1 - frr
    last = np.flatnonzero(far - frr < 0)[-1]
    value = METRICS["EER"](SCORES, TARGET)
    assert far[last] - 1e-6 <= value <= far[last + 1] + 1e-6
    assert frr[last + 1] - 1e-6 <= value <= frr[last] + 1e-6


def test_si_sdr_agrees_on_large_real_signals():
    estimate, reference = 100 * RNG.standard_normal((2, 5, 64))
    expected = tf.audio.scale_invariant_signal_distortion_ratio(of(estimate), of(reference)).mean().item()
    assert METRICS["SISDR"](estimate, reference) == pytest.approx(expected, rel=1e-9)


def test_bleu_agrees_with_the_library_tokenizer():
    preds = ["QPSK at 2.4 GHz, SNR -10 dB.", "A (weak) tone: 10-20 kHz; f=1,000 Hz", "no signal..", "5% at .5 W"]
    target = [
        ["QPSK at 2.4 GHz, with SNR of -10 dB"],
        ["a weak tone at 10-20 kHz; f=1,000"],
        ["no signal."],
        ["5% of .5 W"],
    ]
    expected = tf.text.sacre_bleu_score(preds, target, tokenize="13a", lowercase=True).item()
    assert METRICS["Bleu"](preds, target) == pytest.approx(expected, abs=1e-6)


def test_answers_agree_with_squad_without_numbers():
    preds, target = ["the weak signal", "noise", "QPSK!"], [["A weak tone"], ["noise", "hum"], ["qpsk", "bpsk"]]
    squad = tf.text.squad(
        [{"prediction_text": p, "id": str(i)} for i, p in enumerate(preds)],
        [{"answers": {"answer_start": [0] * len(t), "text": t}, "id": str(i)} for i, t in enumerate(target)],
    )
    assert 100 * METRICS["ExactMatch"](preds, target) == pytest.approx(squad["exact_match"].item(), abs=1e-4)
    assert 100 * METRICS["F1"](preds, target) == pytest.approx(squad["f1"].item(), abs=1e-4)


def test_library_sigmoid_makes_ties_of_large_scores():
    scores, target = torch.tensor([20.0, 21.0]), torch.tensor([0, 1])
    assert tc.BinaryAUROC()(scores, target).item() == 0.5
    assert METRICS["AUC"](scores, target) == 1.0


def test_library_rates_are_single_precision():
    assert tc.MulticlassAccuracy(num_classes=2, average="micro")(of([1, 0, 0]), of([1, 1, 1])).item() != 1 / 3
    assert METRICS["PlainAccuracy"]([1, 0, 0], [1, 1, 1]) == 1 / 3


def test_library_counts_absent_classes_as_missed():
    preds, target = [0, 1, 2, 2], [0, 0, 2, 2]
    assert tc.MulticlassAccuracy(num_classes=3, average="macro")(of(preds), of(target)).item() == 0.5
    assert METRICS["BalancedAccuracy"](preds, target) == 0.75


def test_library_breaks_ties_by_position():
    library = tc.MulticlassAccuracy(num_classes=3, average="micro")
    assert {library(torch.zeros(1, 3), torch.tensor([c])).item() for c in range(3)} == {0.0, 1.0}
    assert {METRICS["Top1Accuracy"](np.zeros((1, 3)), [c]) for c in range(3)} == {1 / 3}


def test_library_epsilon_bends_small_signals():
    estimate, reference = RNG.standard_normal((2, 3, 64)).astype(np.float32)
    library = [tf.audio.scale_invariant_signal_distortion_ratio(of(s * estimate), of(s * reference)).mean().item()
               for s in (np.float32(1), np.float32(1e-6))]  # fmt: skip
    assert abs(library[0] - library[1]) > 1
    assert METRICS["SISDR"](1e-6 * estimate, 1e-6 * reference) == pytest.approx(METRICS["SISDR"](estimate, reference))


def test_library_brevity_penalty_depends_on_the_order_of_references():
    text, references = "a b c d e", ["a b c d e f g", "a b c"]
    library = [tf.text.bleu_score([text], [r]).item() for r in (references, references[::-1])]
    assert library[0] != library[1]
    assert METRICS["Bleu"]([text], [references]) == METRICS["Bleu"]([text], [references[::-1]]) == 1.0


def test_library_squad_deletes_decimal_points():
    answer = [{"prediction_text": "2.4 GHz", "id": "0"}]
    accepted = [{"answers": {"answer_start": [0], "text": ["24 GHz"]}, "id": "0"}]
    assert tf.text.squad(answer, accepted)["exact_match"].item() == 100
    assert METRICS["ExactMatch"](["2.4 GHz"], [["24 GHz"]]) == 0


@pytest.mark.parametrize(
    "text", ["a.b", "x..", ".5 W", "-10 dB", "1-2", "it's", "a,b", "1,000", "3.", "f=2*x/y", "[a]~{b}"]
)
def test_tokens_are_those_of_13a(text):
    def single(reference):
        return tf.text.sacre_bleu_score([text], [[reference]], n_gram=1, tokenize="13a", lowercase=True).item()

    assert single(text) == 1
    counted = tf.text.bleu_score([" ".join(tokenize(text))], [[" ".join(tokenize(text))]], n_gram=1).item()
    assert counted == 1
    from torchmetrics.functional.text.sacre_bleu import _SacreBLEUTokenizer

    assert tokenize(text) == list(_SacreBLEUTokenizer.tokenize(text, "13a", lowercase=True))


def test_library_takes_the_nearest_point_for_the_equal_error_rate():
    scores, target = [0.9, 0.4, 0.8, 0.3, 0.2], [1, 1, 0, 0, 0]
    assert tf.classification.binary_eer(of(scores), of(target)).item() == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert METRICS["EER"](scores, target) == pytest.approx(1 / 3, rel=1e-12)


@pytest.mark.filterwarnings("ignore:No positive samples")
def test_library_counts_absent_classes_as_zero_in_the_mean_area():
    scores, target = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], [0, 1]
    assert tc.MulticlassAUROC(num_classes=3)(of(scores), of(target)).item() == pytest.approx(2 / 3)
    assert METRICS["AUROC"](scores, target) == 1.0
