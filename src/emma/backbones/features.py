"""Features of an embedding that say nothing, or drown the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.rows import RowFile, Rows, blocks
from emma.backbones.base import Embeddings

#: Least that a feature must differ by between scenes, relative to its largest value; below, it says nothing.
DISTINCT = 1e-5

#: A feature whose greatest magnitude is so many times the median feature's explodes.
EXPLODING = 1e4


class Spread:
    """Least and greatest value and deviation of every feature, over embeddings ``[n, D]`` that come in parts."""

    def __init__(self) -> None:
        self.count = 0
        self._least: NDArray[np.float32] = np.empty(0, np.float32)
        self._greatest: NDArray[np.float32] = np.empty(0, np.float32)
        self._mean: NDArray[np.float64] = np.empty(0)
        self._squares: NDArray[np.float64] = np.empty(0)

    def add(self, values: Embeddings) -> None:
        """Look at a part; all parts are of one width, else ValueError."""
        if len(values):
            least, greatest = values.min(axis=0), values.max(axis=0)
            self._least = np.minimum(self._least, least) if self.count else least
            self._greatest = np.maximum(self._greatest, greatest) if self.count else greatest
            mean = values.mean(axis=0, dtype=np.float64)
            squares = np.square(values - mean).sum(axis=0)
            if self.count:
                # Two parts as one: Chan, Golub and LeVeque (1979).
                apart, total = mean - self._mean, self.count + len(values)
                squares += self._squares + apart**2 * (self.count * len(values) / total)
                mean = self._mean + apart * (len(values) / total)
            self._mean, self._squares = mean, squares
            self.count += len(values)

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation ``[D]`` of each feature over all parts."""
        return np.asarray(np.sqrt(self._squares / max(self.count, 1)))

    @property
    def magnitude(self) -> NDArray[np.float64]:
        """Greatest magnitude ``[D]`` of each feature."""
        return np.asarray(np.maximum(np.abs(self._least), np.abs(self._greatest)).astype(np.float64))

    @property
    def dead(self) -> int:
        """Features that are the same for all scenes, within float32's own noise; none of a single scene."""
        if self.count < 2:
            return 0
        return int((self._greatest.astype(np.float64) - self._least <= DISTINCT * self.magnitude).sum())

    @property
    def exploding(self) -> tuple[int, ...]:
        """Features whose greatest magnitude is over EXPLODING times the median one's."""
        return tuple(np.flatnonzero(self.magnitude > EXPLODING * self._median()).tolist()) if self.count else ()

    def faults(self) -> list[str]:
        """What is wrong, in a few words each."""
        width, told = len(self._least), []
        if self.dead:
            told.append(f"{self.dead} of {width} features are dead")
        if found := self.exploding:
            which = f"feature {found[0]} is" if len(found) == 1 else f"{len(found)} features are"
            times = self.magnitude.max() / self._median()
            told.append(f"{which} up to {times:.0e} times the median feature (overflow, or an unexpected level?)")
        return told

    def _median(self) -> float:
        """Of the greatest magnitudes of features that are not zero."""
        magnitudes = self.magnitude
        return float(np.median(magnitudes[magnitudes > 0])) if magnitudes.any() else 0.0


def dead_features(values: Embeddings | RowFile) -> int:
    """Features of embeddings ``[N, D]`` that are the same for all scenes."""
    spread = Spread()
    for _, block in blocks(Rows(values)):
        spread.add(block)
    return spread.dead
