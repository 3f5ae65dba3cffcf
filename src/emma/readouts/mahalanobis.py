"""Distance from what is normal: a one-class head that is fit on scenes of one class alone."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from common.errors import InputError
from common.rows import blocks
from emma.readouts.base import Features, Floats, Readout, standardise

#: Least variance of a direction, in units of the largest, that is told from rounding.
_LEAST = 1e-10
#: Least squared distance, whose logarithm is finite.
_TINY = 1e-12


class Mahalanobis(Readout):
    """Logarithm of the squared Mahalanobis distance from the mean of the fit scenes; the higher, the less normal.

    Features are standardised and projected onto the ``components`` leading principal components of the fit, where the
    covariance is shrunk towards a multiple of the identity by Ledoit and Wolf's closed form: nothing is chosen from a
    grid. ``regularisation`` holds the shrinkage, ``projection`` whitens. Without a feature that varies every scene has
    the same score.
    """

    kind: ClassVar[str] = "mahalanobis"
    linear: ClassVar[str] = "projection"

    def parameters(self, width: int) -> int:
        """The projection's weights."""
        return width * min(self._components, width)

    @property
    def _components(self) -> int:
        assert self.spec.components is not None, "Target.check asks for it"
        return self.spec.components

    def fit(self, features: Features, target: Any, groups: Any = None) -> Self:
        """Fit mean, directions and covariance; the arguments of ``Readout.fit``.

        InputError where a scene is not of the first class, or the embedding is wider or the head larger than pinned.
        """
        del groups
        self.check_capacity(features.shape[1])
        if foreign := int(np.count_nonzero(np.asarray(target))):
            raise InputError(f"readout: {foreign} fit scenes of class {self.target.classes[-1]}, expected none")
        inputs, mean, scale = standardise(features)
        values, directions = _leading(inputs, self._components)
        shrinkage = ledoit_wolf(np.concatenate([block @ directions for _, block in blocks(inputs)]), values)
        shrunk = (1 - shrinkage) * values + shrinkage * values.mean() if len(values) else values
        self.tensors = {
            "mean": mean,
            "scale": scale,
            "projection": directions / np.sqrt(shrunk),
            "regularisation": np.array([shrinkage]),
        }
        return self

    def without(self, features: Features, target: Any, kept: NDArray[np.bool_]) -> Self:
        """The same head fit anew on the samples that are ``kept``: its shrinkage follows from them."""
        return type(self)(self.spec, self.target).fit(features[kept], np.asarray(target)[kept])

    def scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Scores ``[N, 1]``."""
        del given
        distance = np.sum((self._standardised(features) @ self.tensors["projection"]) ** 2, axis=1, keepdims=True)
        scores: Floats = np.log(distance + _TINY)
        return scores


def _leading(inputs: Features, components: int) -> tuple[Floats, Floats]:
    """Variances ``[K]``, largest first, and directions ``[D, K]`` of the leading principal components that vary.

    ``inputs``: features less their mean ``[N, D]``.
    """
    scenes, width = inputs.shape
    small = min(scenes, width)
    if few := isinstance(inputs, np.ndarray) and scenes < width:
        gram = inputs @ inputs.T / scenes
    else:
        gram = sum(block.T @ block for _, block in blocks(inputs)) / scenes
    if not small or not gram.any():
        return np.zeros(0), np.zeros((width, 0))
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[max(small - components, 0), small - 1])
    values, vectors = values[::-1], vectors[:, ::-1]
    values, vectors = values[values > _LEAST * values[0]], vectors[:, values > _LEAST * values[0]]
    directions = np.asarray(inputs).T @ vectors / np.sqrt(scenes * values) if few else vectors
    # A direction's sign is the library's whim: its largest entry is positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(len(values))])
    return values, directions * signs


def ledoit_wolf(projected: Floats, variances: Floats) -> float:
    """Shrinkage in [0, 1] of uncorrelated columns ``[N, K]`` of zero mean and of ``variances`` ``[K]``.

    Reference: O. Ledoit and M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", Journal
    of Multivariate Analysis 88(2), 2004, section 3.2; the covariance is diagonal here.

    Example:
        >>> ledoit_wolf(np.array([[1.0], [-1.0]]), np.array([1.0]))
        0.0
    """
    if variances.size < 2:
        return 0.0
    scenes = len(projected)
    spread = float(np.sum((variances - variances.mean()) ** 2))
    # Mean squared distance of each scene's outer product from the covariance, over the number of scenes.
    error = float(np.mean(np.sum(projected**2, axis=1) ** 2) - np.sum(variances**2)) / scenes
    return min(error / spread, 1.0) if spread > 0 else 1.0
