"""Every metric against a plain reference: brute force over pairs and thresholds, or the formula spelled out."""

import math
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest

from emma.metrics import METRICS, TopKAccuracy, UndefinedMetricError

SEEDS = range(8)
WORDS = ["a", "drone", "sends", "video", "at", "2.4", "GHz", ",", "noise", "-", "10", "dB"]


def angles(a, b):
    return float(np.mean([abs((x - y + 180.0) % 360.0 - 180.0) for x, y in zip(a, b, strict=True)]))


def area_over_pairs(scores, target):
    positive, negative = scores[target == 1], scores[target == 0]
    return float(np.mean([(p > n) + 0.5 * (p == n) for p, n in product(positive, negative)]))


def eer_over_thresholds(scores, target):
    thresholds = [np.inf, *np.unique(scores)[::-1]]
    points = [(np.mean(scores[target == 0] >= t), np.mean(scores[target == 1] < t)) for t in thresholds]
    for (far0, frr0), (far1, frr1) in pairwise(points):
        gap0, gap1 = far0 - frr0, far1 - frr1
        if gap1 >= 0:
            return far0 + (far1 - far0) * (-gap0) / (gap1 - gap0)
    raise AssertionError("no crossing")


def chance_in_top(scores, label, k):
    """Count orders of the tied by hand: the label's rank is uniform over its tie."""
    above, tied = np.sum(scores > scores[label]), np.sum(scores == scores[label])
    return np.mean([rank < k for rank in range(above, above + tied)])


def binary(seed, n=60, levels=8):
    rng = np.random.default_rng(seed)
    target = rng.permutation(np.arange(n) % 3 == 0).astype(int)
    return rng.integers(0, levels, n) / 4 - 1.0 + 0.3 * target, target


def multiclass(seed, n=50, classes=5):
    rng = np.random.default_rng(seed)
    return rng.integers(-2, 3, (n, classes)) * 7.5, rng.permutation(np.arange(n) % classes)


def sentences(seed, n=12):
    rng = np.random.default_rng(seed)
    draw = lambda low: " ".join(rng.choice(WORDS, rng.integers(low, 12)))  # noqa: E731
    target = [[draw(1) for _ in range(rng.integers(1, 4))] for _ in range(n)]
    # Half of a reference and something new: common n-grams of every order, or BLEU would be 0 throughout.
    preds = [" ".join(refs[-1].split()[: rng.integers(0, 9)]) + " " + draw(0) for refs in target]
    return ["", *preds[1:]], target


@pytest.mark.parametrize("seed", SEEDS)
def test_mean_angular_error(seed):
    rng = np.random.default_rng(seed)
    preds, target = rng.uniform(-1000, 1000, (2, 40))
    assert METRICS["MeanAngularError"](preds, target) == pytest.approx(angles(preds, target), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["AUC", "AUROC"])
def test_area(name, seed):
    scores, target = binary(seed)
    assert METRICS[name](scores, target) == pytest.approx(area_over_pairs(scores, target), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_area_of_classes(seed):
    scores, target = multiclass(seed)
    scores = np.column_stack([scores, np.zeros(len(scores))])  # a class without a positive
    each = [area_over_pairs(scores[:, c], (target == c).astype(int)) for c in range(5)]
    for name in ("AUC", "AUROC"):
        assert METRICS[name](scores, target) == pytest.approx(np.mean(each), rel=1e-12)
        assert METRICS[name].details(scores, target).left_out_classes == (5,)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("levels", [2, 8, 1000])
def test_equal_error_rate(levels, seed):
    scores, target = binary(seed, levels=levels)
    assert METRICS["EER"](scores, target) == pytest.approx(eer_over_thresholds(scores, target), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_accuracies(seed):
    scores, target = multiclass(seed)
    chances = {
        k: [chance_in_top(row, label, k) for row, label in zip(scores, target, strict=True)] for k in range(1, 6)
    }
    for name in ("PlainAccuracy", "Top1Accuracy"):
        assert METRICS[name](scores, target) == pytest.approx(np.mean(chances[1]), rel=1e-12)
    for k, chance in chances.items():
        assert TopKAccuracy(k)(scores, target) == pytest.approx(np.mean(chance), rel=1e-12)
    recalls = [np.mean(np.array(chances[1])[target == c]) for c in range(5)]
    assert METRICS["BalancedAccuracy"](scores, target) == pytest.approx(np.mean(recalls), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_accuracies_of_labels(seed):
    preds, target = np.random.default_rng(seed).integers(0, 6, (2, 40))
    assert METRICS["PlainAccuracy"](preds, target) == np.mean(preds == target)
    recalls = [np.mean(preds[target == c] == c) for c in set(target.tolist())]
    assert METRICS["BalancedAccuracy"](preds, target) == pytest.approx(np.mean(recalls), rel=1e-12)
    assert METRICS["BalancedAccuracy"](preds * 10**8, target * 10**8) == pytest.approx(np.mean(recalls), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e-200])
def test_nmse(scale, seed):
    rng = np.random.default_rng(seed)
    estimate, channel = rng.standard_normal((2, 10, 3, 4)) + 1j * rng.standard_normal((2, 10, 3, 4))
    channel[[2, 7]] = 0
    kept = np.delete(np.arange(10), [2, 7])
    error = sum(abs(estimate[i] - channel[i]).ravel() @ abs(estimate[i] - channel[i]).ravel() for i in kept)
    energy = sum(abs(channel[i]).ravel() @ abs(channel[i]).ravel() for i in kept)
    details = METRICS["NMSE"].details(estimate * scale, channel * scale)
    assert details.value == pytest.approx(10 * math.log10(error / energy), rel=1e-9, abs=1e-12)
    assert (details.n_scored, details.left_out_samples) == (8, (2, 7))


def test_nmse_of_an_exact_prediction():
    assert METRICS["NMSE"]([[1j, 2.0]], [[1j, 2.0]]) == -100.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("noise", [1e-4, 0.1, 10.0, 1e4])
def test_si_sdr(noise, is_complex, seed):
    rng = np.random.default_rng(seed)
    signals = rng.standard_normal((2, 6, 64))
    if is_complex:
        signals = signals + 1j * rng.standard_normal((2, 6, 64))
    reference, estimate = signals[0], (2 - 1j if is_complex else 2.0) * signals[0] + noise * signals[1]
    reference[4] = 0
    values = []
    for s, s_hat in zip(np.delete(reference, 4, 0), np.delete(estimate, 4, 0), strict=True):
        alpha = np.vdot(s, s_hat) / np.vdot(s, s)
        rest = s_hat - alpha * s
        values.append(10 * np.log10(np.vdot(alpha * s, alpha * s).real / np.vdot(rest, rest).real))
    for scale in (1.0, 1e-6, 1e-170, 1e150):
        details = METRICS["SISDR"].details(estimate * scale, reference * scale)
        assert details.value == pytest.approx(np.mean(values), rel=1e-9)
        assert details.left_out_samples == (4,)


@pytest.mark.parametrize("is_complex", [False, True])
def test_si_sdr_of_one_waveform_and_of_several_sources(is_complex):
    rng = np.random.default_rng(3)
    signals = rng.standard_normal((2, 5, 3, 32))
    if is_complex:
        signals = signals + 1j * rng.standard_normal((2, 5, 3, 32))
    estimate, reference = signals
    reference[1, 2] = reference[4] = 0
    metric = METRICS["SISDR"]
    kept = [(i, j) for i in range(5) for j in range(3) if reference[i, j].any()]
    each = {at: metric(estimate[at], reference[at]) for at in kept}  # waveforms [T]
    for at, value in each.items():
        assert value == metric(estimate[at][None], reference[at][None])
        assert metric.checked(estimate[at], reference[at]) == value
    # The mean is over all waveforms with a reference, not over the samples' means.
    details = metric.details(estimate, reference)
    assert details.value == pytest.approx(np.mean(list(each.values())), rel=1e-12)
    assert (details.n_scored, details.left_out_samples) == (11, (1, 4, 4, 4))
    assert metric.checked(estimate, reference) == details.value
    weights = np.array([[1, 2, 0, 0, 3], [0, 0, 0, 0, 2], [0, 1, 0, 0, 0]])
    values = metric.resampled(estimate, reference, weights)
    expected = [[each[at]] * weights[0][at[0]] for at in kept]
    assert values[0] == pytest.approx(np.mean([v for part in expected for v in part]), rel=1e-12)
    assert np.isnan(values[1])
    assert values[2] == pytest.approx((each[1, 0] + each[1, 1]) / 2, rel=1e-12)


def test_si_sdr_of_a_silent_estimate_of_one_source():
    estimate, reference = np.ones((2, 2, 3)), np.arange(12.0).reshape(2, 2, 3) + 1
    estimate[1, 0] = 0
    with pytest.raises(UndefinedMetricError, match=r"a silent estimate has no scale \(sample 1\)"):
        METRICS["SISDR"](estimate, reference)
    values = METRICS["SISDR"].resampled(estimate, reference, np.array([[1, 0], [1, 1]]))
    assert np.isnan(values).tolist() == [False, True]


def test_si_sdr_is_cut_at_its_declared_limits():
    exact, orthogonal = [[1.0, -2.0, 0.5]], [[2.0, 1.0, 0.0]]
    assert METRICS["SISDR"](exact, exact) == 100.0
    assert METRICS["SISDR"](orthogonal, exact) == -100.0
    # Both samples stay in the mean.
    assert METRICS["SISDR"](exact + orthogonal, exact + exact) == 0.0


def plain_ngrams(tokens, n):
    return Counter(" ".join(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def plain_tokens(text):
    return text.lower().split()  # the words above are tokens already


@pytest.mark.parametrize("seed", SEEDS)
def test_bleu(seed):
    preds, target = sentences(seed)
    length = wanted = 0
    matched, possible = [0] * 4, [0] * 4
    for text, refs in zip(map(plain_tokens, preds), target, strict=True):
        references = [plain_tokens(reference) for reference in refs]
        length += len(text)
        wanted += sorted((abs(len(r) - len(text)), len(r)) for r in references)[0][1]
        for n in range(1, 5):
            counts = plain_ngrams(text, n)
            possible[n - 1] += sum(counts.values())
            for gram, times in counts.items():
                matched[n - 1] += min(times, max(plain_ngrams(r, n)[gram] for r in references))
    if min(matched) == 0:
        expected = 0.0
    else:
        penalty = 1.0 if length >= wanted else math.exp(1 - wanted / length)
        expected = penalty * math.prod(m / p for m, p in zip(matched, possible, strict=True)) ** 0.25
    assert expected > 0
    assert METRICS["Bleu"](preds, target) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_cider(seed):
    preds, target = sentences(seed)
    references = [[plain_tokens(r) for r in refs] for refs in target]
    n_docs, total = len(preds), 0.0
    for text, refs in zip(map(plain_tokens, preds), references, strict=True):
        for n in range(1, 5):

            def vector(tokens, n=n):
                out = {}
                for gram, times in plain_ngrams(tokens, n).items():
                    df = sum(any(gram in plain_ngrams(r, n) for r in doc) for doc in references)
                    out[gram] = times * math.log(n_docs / max(1, df))
                return out

            h = vector(text)
            for ref in refs:
                r = vector(ref)
                dot = sum(min(h[g], r[g]) * r[g] for g in h if g in r)
                norm = math.sqrt(sum(v * v for v in h.values()) * sum(v * v for v in r.values()))
                if norm:
                    gauss = math.exp(-((len(text) - len(ref)) ** 2) / (2 * 36))
                    total += 10 / 4 * gauss * dot / norm / len(refs)
    assert METRICS["CIDER"](preds, target) == pytest.approx(total / n_docs, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["Bleu", "CIDER"])
def test_nothing_said_or_nothing_to_say_scores_zero(name):
    for preds, target in (
        (["", ""], [["a tone"], ["noise"]]),
        (["a tone", "noise"], [["", ""], [""]]),
        ([""] * 2, [[""]] * 2),
    ):
        assert METRICS[name](preds, target) == 0.0
        assert METRICS[name].resampled(preds, target, np.array([[1, 1], [2, 0]])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_meteor_of_words_without_stems_or_synonyms(seed):
    # Numbers have neither, each stands once, so that the alignment is the only one and counts by hand.
    rng = np.random.default_rng(seed)
    words = [str(w) for w in range(500, 520)]
    text, reference = (list(rng.permutation(words)[: rng.integers(5, 15)]) for _ in range(2))
    reference[2:5] = text[1:4]
    reference = list(dict.fromkeys(reference))
    pairs = [(i, reference.index(w)) for i, w in enumerate(text) if w in reference]
    chunks = 1 + sum(b != (a[0] + 1, a[1] + 1) for a, b in pairwise(pairs))
    precision, recall = len(pairs) / len(text), len(pairs) / len(reference)
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    expected = mean * (1 - 0.5 * (chunks / len(pairs)) ** 3)
    value = METRICS["Meteor"]([" ".join(text)], [["nothing", " ".join(reference)]])
    assert value == pytest.approx(expected, rel=1e-12)


def test_meteor_is_the_number_of_nltk_called_plainly():
    rng = np.random.default_rng(3)
    words = [
        "car",
        "auto",
        "drones",
        "drone",
        "flies",
        "fly",
        "large",
        "big",
        "quickly",
        "fast",
        "the",
        "sends",
        "post",
    ]
    draw = lambda: " ".join(rng.choice(words, rng.integers(1, 8)))  # noqa: E731
    preds, target = [draw() for _ in range(40)], [[draw(), draw()] for _ in range(40)]
    value = METRICS["Meteor"](preds, target)  # first, since it tells nltk where WordNet lies
    from nltk.translate.meteor_score import meteor_score

    pairs = zip(preds, target, strict=True)
    plain = [meteor_score([reference.split() for reference in refs], text.split()) for text, refs in pairs]
    assert value == pytest.approx(np.mean(plain), rel=1e-12)


def test_meteor_matches_stems_and_wordnet():
    assert METRICS["Meteor"](["two drones"], [["two drone"]]) == METRICS["Meteor"](["two drone"], [["two drone"]])
    assert METRICS["Meteor"](["fast car"], [["fast auto"]]) == METRICS["Meteor"](["fast car"], [["fast car"]])


@pytest.mark.parametrize(
    ("answer", "accepted", "exact", "f1"),
    [
        ("The QPSK signal.", ["qpsk signal"], 1, 1),
        ("QPSK", ["8PSK", "qpsk!"], 1, 1),
        ("a the", [""], 1, 1),
        ("", ["noise"], 0, 0),
        ("noise", [""], 0, 0),
        ("2.4 GHz", ["24 GHz"], 0, 0.5),
        ("2.4 GHz.", ["(2.4) GHz"], 1, 1),
        (".5 W", ["5 W"], 0, 0.5),
        ("-10 dB", ["10 dB"], 0, 0.5),
        ("−10 dB", ["-10 dB"], 1, 1),
        ("-.5 dB", ["0.5 dB"], 0, 0.5),
        ("1e-3 s", ["1e3 s"], 0, 0.5),
        ("1,000 Hz", ["1000 Hz"], 1, 1),
        ("16-QAM", ["16QAM"], 1, 1),
        ("co-channel", ["cochannel"], 1, 1),
        ("snr-10", ["snr10"], 1, 1),
        ("5-10 dB", ["510 dB"], 0, 0.5),
        ("up up down", ["up down down"], 0, 2 / 3),
    ],
)
def test_answers_by_hand(answer, accepted, exact, f1):
    assert METRICS["ExactMatch"]([answer], [accepted]) == exact
    assert METRICS["F1"]([answer], [accepted]) == pytest.approx(f1, rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_without_numbers_as_squad_scores_them(seed):
    rng = np.random.default_rng(seed)
    words = ["the", "a", "QPSK", "qpsk!", "signal", "(weak)", "tone,", "an", "theory"]
    draw = lambda: " ".join(rng.choice(words, rng.integers(0, 6)))  # noqa: E731
    preds, target = [draw() for _ in range(30)], [[draw(), draw()] for _ in range(30)]

    def normal(text):
        text = "".join(c for c in text.lower() if c.isalnum() or c == " ")
        return [w for w in text.split() if w not in {"a", "an", "the"}]

    def f1(a, b):
        common = sum((Counter(a) & Counter(b)).values())
        if not a or not b:
            return float(a == b)
        return 2 * (common / len(a)) * (common / len(b)) / (common / len(a) + common / len(b)) if common else 0.0

    def best(score):
        pairs = [(normal(p), [normal(t) for t in ts]) for p, ts in zip(preds, target, strict=True)]
        return np.mean([max(score(p, t) for t in ts) for p, ts in pairs])

    assert METRICS["ExactMatch"](preds, target) == pytest.approx(best(lambda a, b: float(a == b)), rel=1e-12)
    assert METRICS["F1"](preds, target) == pytest.approx(best(f1), rel=1e-12)
