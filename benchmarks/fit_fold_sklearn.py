"""The fit program with scikit-learn's estimators in the place of its own: the yardstick of ``fit_job.py``."""

import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn import linear_model
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from emma.readouts import Discriminant, Logistic, Ridge


def _logistic(self: Logistic, features: np.ndarray, target: np.ndarray, strength: float) -> dict[str, np.ndarray]:
    weights = None
    classes, n = target.astype(int), len(target)
    if self.spec.class_balanced:
        weights = (1.0 / np.bincount(classes))[classes]
        weights *= n / weights.sum()
    model = LogisticRegression(C=1 / (strength * n), tol=1e-6, max_iter=10_000).fit(features, classes, weights)
    return {"weights": model.coef_.T.copy(), "intercept": model.intercept_}


def _ridge(self: Ridge, features: np.ndarray, target: np.ndarray, strength: float) -> dict[str, np.ndarray]:
    wanted = self.target.regressand(target)
    model = linear_model.Ridge(alpha=strength * len(features)).fit(features, wanted)
    return {"weights": model.coef_.T.copy(), "intercept": model.intercept_}


def _discriminant(self: Discriminant, features: np.ndarray, target: np.ndarray, share: float) -> dict[str, np.ndarray]:
    del self
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage=share).fit(features, target)
    directions = len(np.unique(target)) - 1
    return {"projection": model.scalings_[:, :directions]}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    Logistic._fit, Ridge._fit, Discriminant._fit = _logistic, _ridge, _discriminant
    program = Path(__file__).resolve().parent.parent / "scripts/fit_fold.py"
    sys.argv[0] = str(program)
    runpy.run_path(str(program), run_name="__main__")
