"""The sim-to-real gap: what a score loses from synthetic to captured scenes. It is no part of any aggregate."""

from __future__ import annotations

import math


class SimToRealGap:
    """``100 (m_synth - m_real)`` in percentage points, on normalised scores that were not clipped.

    Clipping would hide how far below no skill a score falls; a positive gap is a loss on captured scenes.
    """

    def __call__(self, synth_score: float, real_score: float) -> float:
        """Return the gap in percentage points.

        Args:
            synth_score: normalised score on synthetic scenes: 0 at no skill, 1 at perfect, either side allowed.
            real_score: the same of captured scenes, under the same anchors.

        Raises:
            ValueError: a score is not a finite number.
        """
        for name, score in (("synth_score", synth_score), ("real_score", real_score)):
            if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
                raise ValueError(f"{name}: expected a finite number, found {score!r}")
        return 100.0 * (synth_score - real_score)
