"""Inner cross-validation: which scenes of a fit stand for each other, and which value of a grid they choose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

#: Parts of the inner cross-validation, where so many groups are there.
INNER_FOLDS = 3


def grouped_parts(groups: Any, strata: Numbers | None, count: int) -> Numbers:
    """Deal whole groups out to parts, in turn within every stratum: no group is torn, and every part is like the whole.

    Args:
        groups: labels ``[N]`` of what belongs together, such as a link or a session.
        strata: stratum ``[N]`` of each sample, that of a group being its first sample's; None where there is one.
        count: number of parts.

    Returns:
        the part ``[N]`` of each sample, from 0 on; it depends on labels and strata alone, not on the samples' order.

    Example:
        >>> grouped_parts(["a", "b", "c", "a", "d"], None, 2).tolist()
        [0, 1, 0, 0, 1]
    """
    names, first, of_sample = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
    stratum = np.zeros(len(names), np.int64) if strata is None else np.asarray(strata)[first]
    if strata is not None and len(names) < len(of_sample):
        # The first sample depends on the order of rows: take the least stratum of the group instead.
        stratum = np.full(len(names), np.iinfo(np.int64).max)
        np.minimum.at(stratum, of_sample, strata)
    order = np.argsort(stratum, kind="stable")
    part = np.empty(len(names), np.int64)
    part[order] = np.arange(len(names)) % count
    return part[of_sample.reshape(-1)]


def inner_parts(groups: Any, strata: Numbers | None, samples: int) -> Numbers:
    """The part ``[N]`` of the inner cross-validation that each of N samples is left out with: see ``grouped_parts``.

    ``groups``: by default every sample stands for itself. Fewer groups than ``INNER_FOLDS`` make a part each; one group
    is one part, which nothing can be chosen on.

    Example:
        >>> inner_parts(["a", "b", "a", "b"], None, 4).tolist()
        [0, 1, 0, 1]
    """
    names = np.arange(samples) if groups is None else np.asarray(groups)
    return grouped_parts(names, strata, min(INNER_FOLDS, len(np.unique(names))))


def chosen_value(losses: Floats) -> int:
    """Place of the least loss ``[L]``; of equal ones the strongest regularisation, which stands last."""
    return int(len(losses) - 1 - np.argmin(losses[::-1]))


def solve_positive(matrix: Floats, right: Floats) -> Floats:
    """Solve ``matrix x = right`` for a symmetric positive definite ``[D, D]`` by Cholesky; InputError where it is not.

    Half the work of a general solve, and the inner fits are made of little else.
    """
    from scipy.linalg.lapack import dposv

    if not len(matrix):
        return np.zeros_like(right)
    _, solution, fault = dposv(matrix, right, lower=1)
    if fault:
        raise InputError("readout: regularisation: too weak for these features, whose scatter is singular")
    return np.asarray(solution, np.float64)
