"""scikit-learn's estimators in the place of the readouts' own: the yardstick of ``fit_job.py``."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn import linear_model
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from emma.readouts import Discriminant, Logistic, Readout, Ridge

Arrays = dict[str, np.ndarray]


def _logistic(self: Logistic, features: np.ndarray, target: np.ndarray, strength: float) -> Any:
    weights = None
    classes, n = target.astype(int), len(target)
    if self.spec.class_balanced:
        weights = (1.0 / np.bincount(classes))[classes]
        weights *= n / weights.sum()
    return LogisticRegression(C=1 / (strength * n), tol=1e-6, max_iter=10_000).fit(features, classes, weights)


def _ridge(self: Ridge, features: np.ndarray, target: np.ndarray, strength: float) -> Any:
    return linear_model.Ridge(alpha=strength * len(features)).fit(features, self.target.regressand(target))


def _discriminant(self: Discriminant, features: np.ndarray, target: np.ndarray, share: float) -> Any:
    del self
    return LinearDiscriminantAnalysis(solver="eigen", shrinkage=share).fit(features, target)


def _linear(model: Any) -> Arrays:
    return {"weights": model.coef_.T.copy(), "intercept": model.intercept_}


def _projection(model: Any) -> Arrays:
    return {"projection": model.scalings_[:, : len(model.classes_) - 1]}


def _loss(self: Readout, model: Any, features: np.ndarray, target: np.ndarray) -> float:
    """Loss of a model on scenes that it did not see, summed."""
    if isinstance(self, Ridge):
        return float(((model.predict(features) - self.target.regressand(target)) ** 2).sum())
    if isinstance(self, Logistic):
        return float(log_loss(target.astype(int), model.predict_proba(features), labels=model.classes_) * len(target))
    return float((model.predict(features) != target).sum())


def _choosing(fit: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A plain search through the grid: a fit per value and part."""

    def losses(self: Readout, features: np.ndarray, target: np.ndarray, parts: np.ndarray) -> np.ndarray:
        made = np.zeros(len(self.spec.regularisation))
        for part in range(parts.max() + 1):
            rest, scored = parts != part, parts == part
            for place, value in enumerate(self.spec.regularisation):
                model = fit(self, features[rest], target[rest], value)
                made[place] += _loss(self, model, features[scored], target[scored])
        return made

    return losses


_KINDS = {Ridge: (_ridge, _linear), Logistic: (_logistic, _linear), Discriminant: (_discriminant, _projection)}


@contextlib.contextmanager
def scikit_learn() -> Iterator[None]:
    """Within it the readouts choose and fit by scikit-learn's estimators."""
    with contextlib.ExitStack() as stack:
        for kind, (fit, tensors) in _KINDS.items():

            def fitted(self: Readout, *given: Any, fit: Any = fit, tensors: Any = tensors) -> Arrays:
                return tensors(fit(self, *given))

            stack.enter_context(patch.object(kind, "_fit", fitted))
            stack.enter_context(patch.object(kind, "_validation_losses", _choosing(fit)))
        yield


@contextlib.contextmanager
def one_value() -> Iterator[None]:
    """Within it nothing is chosen: the strongest value of the grid is taken."""
    with contextlib.ExitStack() as stack:
        for kind in _KINDS:
            none = patch.object(kind, "_validation_losses", lambda self, *_: np.zeros(len(self.spec.regularisation)))
            stack.enter_context(none)
        yield
