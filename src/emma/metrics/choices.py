"""What a choice costs, where every choice has a value of its own."""

from typing import Any

import numpy as np

from emma.metrics.base import Floats, Mask, SampleMean, Takes, numeric, same_length

#: Largest loss of a sample [dB]: a choice that yields nothing would make the mean infinite.
_MOST_DB = 100.0


class PowerLoss(SampleMean):
    """Mean of the best choice's power over the chosen one's, in dB, cut at 100; in [0, 100], lower is better.

    ``preds``: a score for each choice ``[N, C]``, any real, of which the highest chooses. ``target``: the powers that
    the choices yield ``[N, C]``, from 0 on. Of m choices that share the highest score each is taken with chance 1/m.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: NaN or infinity, unequal shapes, fewer than two choices, a power below 0, no power in a sample.

    Reference: 3GPP TR 38.843, the average difference in received power of the top-1 predicted beam.

    Example:
        >>> round(PowerLoss()([[1.0, 3.0, 2.0]], [[1.0, 0.5, 0.1]]), 4)
        3.0103
    """

    name = "PowerLoss"
    direction = "lower"
    unit = "dB"
    bounds = (0.0, _MOST_DB)
    takes = frozenset({Takes.CHOICES})

    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return each sample's loss; every sample counts."""
        scores, power = numeric(preds, "preds"), numeric(target, "target").astype(np.float64)
        same_length(scores, power)
        if not len(power):
            return np.zeros(0), np.zeros(0, bool)
        if scores.ndim != 2 or scores.shape != power.shape or scores.shape[1] < 2:
            shapes = f"not {scores.shape} and {power.shape}"
            raise ValueError(f"preds: expected scores [N, C] of two or more choices, as target, {shapes}")
        if (power < 0).any() or not (power > 0).any(axis=1).all():
            raise ValueError("target: expected powers from 0 on, one above 0 in every sample")
        with np.errstate(divide="ignore"):
            loss = np.minimum(10 * np.log10(power.max(axis=1, keepdims=True) / power), _MOST_DB)
        chosen = scores == scores.max(axis=1, keepdims=True)
        return (loss * chosen).sum(axis=1) / chosen.sum(axis=1), np.ones(len(power), bool)
