"""Seeded draws of scenes that depend on what is drawn from and on the seed alone, never on an order of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.hashing import sha256


def stratified_draw(
    strata: Sequence[NDArray[np.str_]], groups: Sequence[str], names: Sequence[str], size: int
) -> NDArray[np.bool_]:
    """Draw rows without replacement, each stratum in its share, and group by group within it.

    Shares of strata are rounded by largest remainder (Hamilton's method; ties go to the first in sorted order). Within
    a stratum the rows of the groups with the smallest hashes are drawn, whole groups but for the last one.

    Args:
        strata: one or more columns of labels ``[N]``; a stratum is a combination of labels.
        groups: what a row belongs to ``[N]``, with the seed in it, of which SHA-256 is taken.
        names: names ``[N]``, unique, with the seed in them; they decide within a group.
        size: number of rows to draw, at most N.

    Returns:
        mask ``[N]`` with ``size`` rows set.

    Raises:
        ValueError: more rows are asked for than there are.

    Example:
        >>> import numpy as np
        >>> stratified_draw([np.array(list("aaab"))], list("ggh!"), ["s0", "s1", "s2", "s3"], 2).sum()
        np.int64(2)
    """
    count = len(names)
    if size > count:
        raise ValueError(f"size: {size}, expected at most {count}, the number of rows")
    if count == 0:
        return np.zeros(0, bool)
    joined = np.array(["/".join(row) for row in zip(*strata, strict=True)])
    labels, stratum = np.unique(joined, return_inverse=True)
    there = np.bincount(stratum, minlength=len(labels))
    quota, remainder = np.divmod(size * there, count)
    largest = np.argsort(-remainder, kind="stable")[: size - quota.sum()]
    quota[largest] += 1
    hashes = (np.array([sha256(word.encode()) for word in words]) for words in (names, groups))
    order = np.lexsort((*hashes, stratum))
    place = np.arange(count) - np.repeat(np.cumsum(there) - there, there)
    drawn = np.zeros(count, bool)
    drawn[order] = place < quota[stratum[order]]
    return drawn


def link_groups(index: pa.Table) -> NDArray[np.str_]:
    """What belongs together in a draw or a cross-validation ``[N]``: the propagation link, or a scene that has none.

    Captures of one session have one link.
    """
    return np.asarray(pc.coalesce(index["link_id"], index["scene_id"]).to_pylist())
