"""The anchors' scale: raw scores mapped to 0 at no skill and 1 at perfect, by anchors of the release manifest alone."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np

from emma.evaluation.records import FloatArray
from emma.tasks import Anchors

S = TypeVar("S", float, FloatArray)


def normalise(score: S, anchors: Anchors, direction: Literal["higher", "lower"]) -> S:
    """Map a raw score, or an array of them, to the anchors' scale, not clipped: 0 at no skill, 1 at perfect."""
    span = anchors.maximum - anchors.minimum
    return (score - anchors.minimum) / span if direction == "higher" else (anchors.maximum - score) / span


def normalise_clipped(score: S, anchors: Anchors, direction: Literal["higher", "lower"]) -> S:
    """``normalise``, clipped to [0, 1]."""
    level = normalise(score, anchors, direction)
    return np.clip(level, 0.0, 1.0) if isinstance(level, np.ndarray) else min(max(level, 0.0), 1.0)
