"""Counts of torchmetrics, handed over so that they are exact: right decisions, areas under ROC curves, ROC curves.

torch and torchmetrics are imported by the call: their import takes seconds, and who only resamples needs neither.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray


def n_right(preds: NDArray[Any], truth: NDArray[np.int64], k: int) -> int:
    """Return how many samples without ties have their true class among the k highest scores.

    Args:
        preds: class scores ``[N, C]``, or labels int64 ``[N]`` with k = 1.
        truth: labels ``[N]``.
        k: how many classes a sample may name.
    """
    if len(truth) == 0:
        return 0
    import torch
    from torchmetrics.functional.classification import multiclass_stat_scores

    n_classes = preds.shape[1] if preds.ndim == 2 else 1 + int(max(preds.max(), truth.max()))
    decided = preds if preds.ndim == 1 else _in_order(preds)
    counts = multiclass_stat_scores(
        torch.from_numpy(decided),
        torch.from_numpy(truth),
        num_classes=n_classes,
        top_k=k,
        average="micro",
        validate_args=False,
    )
    return int(counts[0])


def area(scores: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve of scores ``[N]`` with both classes among the samples."""
    import torch
    from torchmetrics.functional.classification import binary_auroc

    with _double_precision():
        value = binary_auroc(
            torch.from_numpy(_ranks(scores)), torch.from_numpy(positive.astype(np.int64)), validate_args=False
        )
    return _in_half_pairs(float(value), int(positive.sum()), len(positive))


def areas_one_vs_rest(scores: NDArray[Any], truth: NDArray[np.int64]) -> list[float]:
    """Return the area of each class against all others.

    Args:
        scores: ``[N, P]`` of the P >= 2 classes that the samples have, and no other.
        truth: which of them each sample has, ``[N]`` in [0, P).
    """
    import torch
    from torchmetrics.functional.classification import multiclass_auroc

    ranks = np.stack([_ranks(column) for column in scores.T], axis=1)
    with _double_precision():
        values = multiclass_auroc(
            torch.from_numpy(ranks),
            torch.from_numpy(truth),
            num_classes=scores.shape[1],
            average="none",
            validate_args=False,
        )
    support = np.bincount(truth).tolist()
    return [_in_half_pairs(value, n, len(truth)) for value, n in zip(values.tolist(), support, strict=True)]


def counts_below(scores: NDArray[Any], positive: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many positives and how many negatives score below each threshold of the ROC curve, rising from none.

    Args:
        scores: ``[N]``.
        positive: mask ``[N]`` with both classes.
    """
    import torch
    from torchmetrics.functional.classification import binary_roc

    with _double_precision():
        false_rate, true_rate, _ = binary_roc(
            torch.from_numpy(_ranks(scores)), torch.from_numpy(positive.astype(np.int64)), validate_args=False
        )
    n_positive = int(positive.sum())
    below = []
    for rate, n in ((true_rate, n_positive), (false_rate, len(positive) - n_positive)):
        # A rate is a count over the class's size: the product is that count again, but for rounding.
        below.append(n - np.rint(rate.numpy() * n).astype(np.int64)[::-1])
    return below[0], below[1]


def _in_order(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Return scores that float64 holds as they are, and the ranks of others (int64, long double)."""
    if scores.dtype.kind == "f" and scores.dtype.itemsize <= 8:
        return scores.astype(np.float64)
    if scores.dtype.kind != "f" and max(abs(int(scores.min())), abs(int(scores.max()))) <= 2**53:
        return scores.astype(np.float64)
    return np.unique(scores, return_inverse=True)[1].reshape(scores.shape).astype(np.float64)


def _ranks(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Return dense ranks in [0, 1), which the library's sigmoid for scores outside [0, 1] leaves alone."""
    distinct, rank = np.unique(scores, return_inverse=True)
    return np.asarray(rank / len(distinct), np.float64)


def _in_half_pairs(value: float, n_positive: int, n: int) -> float:
    """Return an area without its rounding: it is a whole number of half pairs over the number of pairs."""
    half_pairs = 2 * n_positive * (n - n_positive)
    return round(value * half_pairs) / half_pairs


@contextmanager
def _double_precision() -> Iterator[None]:
    """Make float64 torch's default for a while: the library divides counts in the default precision.

    The default holds for the whole process, other threads included.
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
