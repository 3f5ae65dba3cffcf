"""Caption metrics that count n-grams: BLEU over the corpus and CIDEr-D over its consensus."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.agreement import closeness, ngrams
from common.tokenizers import DEFAULT_TOKENIZER, Tokenizer, tokenizer_of
from emma.metrics.base import (
    Floats,
    Metric,
    Takes,
    UndefinedMetricError,
    Weights,
    check_weights,
    ratio,
    require_samples,
    row_blocks,
    weighted_sums,
)
from emma.metrics.text import string_samples


class Bleu(Metric):
    """Corpus BLEU-4 without smoothing; dimensionless, in [0, 1], higher is better.

    ``preds``: N strings. ``target``: N lists of one or more references. Geometric mean of the clipped 1- to 4-gram
    precisions over the corpus, times the brevity penalty against the reference nearest in length (the shorter of two
    equally near). Tokens as the tokenizer named makes them (``common.tokenizers``). A corpus without a common
    4-gram gives 0 by definition, so texts under four tokens do.

    The value is torchmetrics' (``BLEUScore``), counting in float64 (in float32 it is exact only up to 2**24 n-grams).

    Raises:
        UndefinedMetricError: no samples.
        ValueError: something other than strings, a sample without references, unequal lengths.

    Reference: Papineni, Roukos, Ward and Zhu, "BLEU: a method for automatic evaluation of machine translation", ACL
    2002.

    Example:
        >>> round(Bleu()(["a signal at 2.4 GHz"], [["one signal at 2.4 GHz"]]), 6)
        0.66874
    """

    name = "Bleu"
    direction = "higher"
    bounds = (0.0, 1.0)
    takes = frozenset({Takes.CAPTION})
    release_keys = ("tokenizer",)

    def __init__(self, tokenizer: str = DEFAULT_TOKENIZER) -> None:
        self.tokenizer, self._tokenize = tokenizer, tokenizer_of(tokenizer)

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the corpus score."""
        candidates, references = self._tokens(preds, target)
        require_samples(self.name, len(candidates))
        import torch
        from torchmetrics.text import BLEUScore

        # The library's own split knows spaces alone.
        bleu = BLEUScore(n_gram=4).set_dtype(torch.float64)
        bleu.update([" ".join(c) for c in candidates], [[" ".join(r) for r in refs] for refs in references])
        return float(bleu.compute())

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
        """Return scores from weighted sums of each sentence's n-gram counts and lengths."""
        candidates, references = self._tokens(preds, target)
        weights = check_weights(weights, len(candidates))
        rows = [_bleu_counts(c, refs) for c, refs in zip(candidates, references, strict=True)]
        columns = np.array(rows, np.float64).reshape(-1, 10).T
        sums = np.stack([weighted_sums(weights, column) for column in columns], axis=1)
        matched, possible, length, wanted = sums[:, :4], sums[:, 4:8], sums[:, 8], sums[:, 9]
        some = matched.min(axis=1) > 0
        precisions = np.where(some[:, None], ratio(matched, possible), 1.0)
        penalty = np.exp(np.minimum(0.0, 1.0 - ratio(wanted, np.where(some, length, 1.0))))
        values = np.where(some, penalty * np.exp(np.log(precisions).mean(axis=1)), 0.0)
        return np.where(weights.any(axis=1), values, np.nan)

    def _tokens(self, preds: Any, target: Any) -> tuple[list[list[str]], list[list[list[str]]]]:
        texts, references = string_samples(preds, target)
        # Of two references equally near in length the library takes the first given: put the shorter one first.
        split = self._tokenize
        return [split(t) for t in texts], [sorted(map(split, refs), key=len) for refs in references]


def _bleu_counts(candidate: list[str], references: list[list[str]]) -> list[int]:
    """Return clipped and possible counts for n = 1..4, the candidate's length and that of the nearest reference."""
    counts = ngrams(candidate)
    most: Counter[tuple[str, ...]] = Counter()
    for reference in references:
        most |= ngrams(reference)
    matched, possible = [0] * 4, [max(0, len(candidate) - n) for n in range(4)]
    for gram, times in (counts & most).items():
        matched[len(gram) - 1] += times
    nearest = min(map(len, references), key=lambda length: (abs(length - len(candidate)), length))
    return [*matched, *possible, len(candidate), nearest]


class CIDER(Metric):
    """CIDEr-D, the consensus of a caption with its references; dimensionless, in [0, 10], higher is better.

    ``preds``: N strings. ``target``: N lists of one or more references. Cosine between tf-idf vectors of n-grams,
    clipped to the reference's counts, times a Gaussian of the difference in length (sigma 6), averaged over n = 1..4
    and over the references, times 10. Document frequencies come from the N reference sets given: score one fold at a
    time. An n-gram that stands in every reference set weighs nothing. A resample has its own document frequencies.
    Tokens as the tokenizer named makes them (``common.tokenizers``). No library form that this package may ship:
    numpy and scipy, after the recipe of the COCO caption evaluation.

    Raises:
        UndefinedMetricError: no samples, or one only (its document frequency says nothing).
        ValueError: something other than strings, a sample without references, unequal lengths.

    Reference: Vedantam, Zitnick and Parikh, "CIDEr: consensus-based image description evaluation", CVPR 2015,
    arXiv:1411.5726.

    Example:
        >>> round(CIDER()(["a weak tone", "only noise"], [["a weak tone"], ["noise only", "only noise"]]), 6)
        5.625
    """

    name = "CIDER"
    direction = "higher"
    bounds = (0.0, 10.0)
    takes = frozenset({Takes.CAPTION})
    release_keys = ("tokenizer",)

    def __init__(self, tokenizer: str = DEFAULT_TOKENIZER) -> None:
        self.tokenizer, self._tokenize = tokenizer, tokenizer_of(tokenizer)

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the mean over the samples."""
        texts, references = string_samples(preds, target)
        require_samples(self.name, len(texts))
        if len(texts) == 1:
            raise UndefinedMetricError("CIDER is undefined: the document frequency of one document says nothing")
        return float(_Consensus(texts, references, self._tokenize).scores(np.ones((1, len(texts)), np.int64))[0])

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
        """Return means from sparse products of n-gram counts with each resample's squared idf."""
        texts, references = string_samples(preds, target)
        weights = check_weights(weights, len(texts))
        if len(texts) == 0:
            return np.full(len(weights), np.nan)
        consensus = _Consensus(texts, references, self._tokenize)
        values = [consensus.scores(block) for block in row_blocks(weights, 2**17)]
        return np.concatenate(values) if values else np.empty(0)


class _Consensus:
    """The n-gram counts of captions and references, ready to be weighted by any document frequencies."""

    def __init__(self, texts: Sequence[str], references: Sequence[Sequence[str]], tokenize: Tokenizer) -> None:
        from scipy import sparse

        n, lists = len(texts), [len(refs) for refs in references]
        self.owner = np.repeat(np.arange(n), lists)
        sentences = [tokenize(text) for text in (*texts, *(text for refs in references for text in refs))]
        counts = [ngrams(tokens) for tokens in sentences]
        ids: dict[tuple[str, ...], int] = {}
        grams = np.array([ids.setdefault(gram, len(ids)) for count in counts for gram in count], np.int64)
        times = np.array([value for count in counts for value in count.values()], np.float64)
        sentence = np.repeat(np.arange(len(counts)), [len(count) for count in counts])
        order = np.array([len(gram) - 1 for gram in ids], np.int64)

        # Reference sets that hold each n-gram. Those that stand in the same sets have one idf in every resample: they
        # share a column, and those in none the first.
        of_text, of_reference = sentence < n, sentence >= n
        document = self.owner[sentence[of_reference] - n]
        held, holder = np.divmod(np.unique(grams[of_reference] * n + document), n)
        bounds = np.searchsorted(held, np.arange(len(ids) + 1)).tolist()
        columns = {b"": 0}
        sets = (holder[start:stop].tobytes() for start, stop in pairwise(bounds))
        column = np.array([columns.setdefault(documents, len(columns)) for documents in sets], np.int64)
        first = np.isin(held, np.unique(column, return_index=True)[1])

        def matrix(values: Floats, rows: NDArray[np.int64], cols: NDArray[np.int64], n_rows: int) -> Any:
            return sparse.csr_array((values, (rows, cols)), shape=(n_rows, len(columns)))

        self.holds = matrix(np.ones(first.sum()), holder[first], column[held[first]], n).T.tocsr()
        rows, cols = 4 * sentence + order[grams], column[grams]
        self.candidate_norms = matrix(times[of_text] ** 2, rows[of_text], cols[of_text], 4 * n)
        rows, cols = rows[of_reference] - 4 * n, cols[of_reference]
        self.reference_norms = matrix(times[of_reference] ** 2, rows, cols, 4 * len(self.owner))
        # The same n-gram in the text, looked up by text and n-gram.
        keys = sentence[of_text] * len(ids) + grams[of_text]
        sorting = np.argsort(keys)
        wanted = document * len(ids) + grams[of_reference]
        found = np.append(sorting, 0)[np.searchsorted(keys, wanted, sorter=sorting)]
        matched = np.append(keys, -1)[found] == wanted
        clipped = (
            np.minimum(times[of_text][found[matched]], times[of_reference][matched]) * times[of_reference][matched]
        )
        self.products = matrix(clipped, rows[matched], cols[matched], 4 * len(self.owner))

        length = np.array([len(tokens) for tokens in sentences])
        apart = length[self.owner] - length[n:]
        # Ten times the mean over four orders and over the sample's references.
        self.factor = 10.0 / 4 * closeness(apart) / np.repeat(lists, lists)

    def scores(self, weights: Weights) -> Floats:
        """Return the mean score of each resample ``[R]``, NaN for fewer than two documents."""
        n = weights.sum(axis=1, dtype=np.int64)
        frequency = np.rint(self.holds @ weights.T.astype(np.float64)).astype(np.int64)
        logs = np.log(np.arange(1, n.max() + 2))
        logarithm = np.where(n > 0, logs[np.maximum(n, 1) - 1], 0.0)
        idf2 = np.square(logarithm - logs[np.maximum(frequency, 1) - 1])
        norms = (self.candidate_norms @ idf2).reshape(-1, 4, len(n))[self.owner]
        norms = np.sqrt(norms * (self.reference_norms @ idf2).reshape(norms.shape))
        cosines = ratio((self.products @ idf2).reshape(norms.shape), norms)
        each = np.nan_to_num(cosines).sum(axis=1) * self.factor[:, None]
        total = np.einsum("jr,rj->r", each, weights[:, self.owner], dtype=np.float64)
        return np.where(n > 1, total / np.maximum(n, 1), np.nan)
