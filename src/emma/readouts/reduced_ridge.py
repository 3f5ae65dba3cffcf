"""Ridge regression of complex targets by their leading components: a head for targets of many numbers."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from emma.readouts.base import Features, Floats
from emma.readouts.ridge import Ridge

Complex = NDArray[np.complex128]


class ReducedRidge(Ridge):
    """Ridge regression on the leading complex principal components of the fit's own targets.

    Targets are pairs of real and imaginary part. The fit's targets less their mean have a complex covariance, of whose
    eigenvectors the pinned number with the largest eigenvalues span what can be answered: a score is the mean and a
    sum of them, and ridge regression gives the coefficients. It is that of all numbers, projected, at a fraction
    of the weights. At embedding width 0 the score is the mean.

    The components follow from the labels alone: they are the same for every embedding, and no weights of the head.
    """

    kind: ClassVar[str] = "reduced_ridge"

    def parameters(self, width: int) -> int:
        """Two regressions with intercept for each component."""
        return 2 * self._count * (width + 1)

    def fit(self, features: Features, target: Any, groups: Any = None) -> Self:
        """Find the components, choose the regularisation and fit the head; InputError as in every head."""
        self.check_capacity(features.shape[1])
        self._level, self._basis = leading_components(self.target.regressand(np.asarray(target)), self._count)
        super().fit(features, target, groups)
        self.tensors |= {"level": self._level, "basis": self._basis}
        return self

    def scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Pairs ``[N, K]``."""
        del given
        coefficients = self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]
        values = as_complex(coefficients) @ as_complex(self.tensors["basis"])
        return self.target.from_regression(as_pairs(values) + self.tensors["level"])

    def wanted(self, target: Floats) -> Floats:
        """Coefficients ``[N, 2 C]`` of the components, as pairs."""
        pairs = self.target.regressand(target) - self._level
        return as_pairs(as_complex(pairs) @ as_complex(self._basis).conj().T)

    @property
    def _count(self) -> int:
        """The pinned number of components."""
        assert self.spec.components is not None
        return self.spec.components


def leading_components(pairs: Floats, count: int) -> tuple[Floats, Floats]:
    """Mean ``[2 K]`` and leading complex components ``[count, 2 K]`` of pairs ``[N, 2 K]``, the largest first.

    Components are of unit length; each is turned so that its largest entry is real and positive, since eigenvectors
    have any phase.
    """
    level = pairs.mean(axis=0)
    centred = as_complex(pairs - level)
    _, vectors = np.linalg.eigh(centred.conj().T @ centred / len(pairs))
    # Rows of the data are sums of the conjugates of these columns.
    basis = vectors[:, ::-1][:, :count].conj().T
    largest = np.take_along_axis(basis, np.abs(basis).argmax(axis=1)[:, None], axis=1)
    return level, as_pairs(basis * (np.abs(largest) / largest))


def as_complex(pairs: Floats) -> Complex:
    """Pairs ``[N, 2 K]`` as complex numbers ``[N, K]``."""
    values: Complex = np.ascontiguousarray(pairs, np.float64).view(np.complex128)
    return values


def as_pairs(values: Complex) -> Floats:
    """Complex numbers ``[N, K]`` as pairs ``[N, 2 K]``."""
    return np.ascontiguousarray(values).view(np.float64)
