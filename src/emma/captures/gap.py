"""The sim-to-real gap: what a score loses from synthetic to captured scenes. It is no part of any aggregate."""

from typing import Any

import numpy as np

from common.arrays import as_numpy


class SimToRealGap:
    """``100 (m_synth - m_real)`` in percentage points, on normalised scores that were not clipped.

    Clipping would hide how far below no skill a score falls; a positive gap is a loss on captured scenes.

    Example:
        >>> SimToRealGap()(0.75, 0.5)
        25.0
    """

    def __call__(self, synth_score: Any, real_score: Any) -> float:
        """Return the gap in percentage points.

        Args:
            synth_score: normalised score on synthetic scenes: 0 at no skill, 1 at perfect, either side allowed. A
                number of Python or numpy, or a torch tensor without dimensions.
            real_score: the same of captured scenes, under the same anchors.

        Raises:
            ValueError: a score is not a finite number.
        """
        return 100.0 * (_finite(synth_score, "synth_score") - _finite(real_score, "real_score"))


def _finite(score: Any, name: str) -> float:
    try:
        number = as_numpy(score)
    except (TypeError, ValueError, RuntimeError):
        number = np.empty(0)
    if number.ndim != 0 or number.dtype.kind not in "iuf" or not np.isfinite(number):
        raise ValueError(f"{name}: expected a finite number, found {score!r}")
    return float(number)
