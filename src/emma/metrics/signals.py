"""Metrics of continuous quantities: angles, channel tensors, waveforms."""

from typing import Any

import numpy as np

from emma.metrics.base import SampleMean, numeric, same_length


class MeanAngularError(SampleMean):
    """Mean distance on the circle between predicted and true angles, in degrees; in [0, 180], lower is better.

    ``preds`` and ``target``: degrees ``[N]``, any real; angles whole turns apart are the same. Uniform guessing gives
    90.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: NaN or infinity, unequal lengths, complex numbers.

    Reference: Mardia and Jupp, "Directional Statistics", Wiley 2000, section 2.3 (distance along the circle).

    Example:
        >>> MeanAngularError()([359.0, 1.0], [1.0, 359.0])
        2.0
    """

    name = "MeanAngularError"
    direction = "lower"
    unit = "degrees"

    def sample_scores(self, preds: Any, target: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return each sample's distance; every sample counts."""
        angles = []
        for values, what in ((preds, "preds"), (target, "target")):
            array = numeric(values, what).astype(np.float64)
            if array.ndim != 1:
                raise ValueError(f"{what}: expected degrees [N], not shape {array.shape}")
            # fmod is exact and cannot reach 360, where -1e-17 % 360 does; whole turns go before they can overflow.
            angles.append(np.fmod(array, 360.0))
        same_length(*angles)
        apart = np.fmod(np.abs(angles[0] - angles[1]), 360.0)
        return np.minimum(apart, 360.0 - apart), np.ones(len(apart), bool)
