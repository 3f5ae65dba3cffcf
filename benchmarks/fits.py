"""The fits alone, logistic, ridge and discriminant, against scikit-learn on the same arrays: standardising included.

Both sides get float64 features and one thread. The logistic yardstick is lbfgs at the tolerance that reaches the same
objective; how far its default tolerance stays above it, and the time of that, stand among the checks.
"""

import time
import warnings

import numpy as np
from measuring import Figure, deliver, figure, in_turn, parser
from sklearn import linear_model
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from emma.readouts import Discriminant, Logistic, Ridge
from emma.readouts.cross_entropy import CrossEntropy
from emma.tasks import TARGETS, ReadoutSpec, Target

STRENGTH, SHARE = 1e-3, 0.1


def _spec(kind: str, regularisation: float) -> ReadoutSpec:
    return ReadoutSpec(kind=kind, regularisation=(regularisation,), max_parameters=10**7)


def _target(name: str, classes: int) -> Target:
    return TARGETS[name](tuple(map(str, range(classes))))


def _scaled(X: np.ndarray) -> np.ndarray:
    """Features of unit variance in total, as a readout takes them."""
    return StandardScaler().fit_transform(X) / np.sqrt(X.shape[1])


def logistic(n: int, width: int, classes: int, runs: int) -> Figure:
    """Same objective, same data."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, width))
    y = (X @ rng.standard_normal((width, classes)) * (2 / width**0.5) + rng.gumbel(size=(n, classes))).argmax(axis=1)
    head = Logistic(_spec("logistic", STRENGTH), _target("binary" if classes == 2 else "class", classes))

    def yardstick(tolerance: float) -> LogisticRegression:
        scaled = _scaled(X)
        return LogisticRegression(C=1 / (STRENGTH * n), tol=tolerance, max_iter=10_000).fit(scaled, y)

    ours, other = in_turn(lambda: head.fit(X, y), lambda: yardstick(1e-6), runs)
    loss = CrossEntropy(head._standardised(X), y, np.full(n, 1 / n), STRENGTH, 1 if classes == 2 else classes)

    def objective(model: LogisticRegression) -> float:
        return loss.value_and_gradient(np.vstack([model.coef_.T, model.intercept_]))[0]

    own = loss.value_and_gradient(np.vstack([head.tensors["weights"], head.tensors["intercept"]]))[0]
    start = time.perf_counter()
    default = yardstick(1e-4)
    checks = {
        "objective": own,
        "objective_equal": bool(abs(objective(yardstick(1e-6)) - own) <= 1e-7 * own),
        "default_tolerance_s": time.perf_counter() - start,
        "default_tolerance_above": objective(default) - own,
    }
    what = f"logistic, {classes} classes, {n} x {width}"
    return figure(
        "fits", what, "scikit-learn lbfgs", ours=ours, other=other, target=1.0, sense="at most", checks=checks
    )


def ridge(n: int, width: int, runs: int) -> Figure:
    """Angles: two regressions."""
    rng = np.random.default_rng(0)
    X, angle = rng.standard_normal((n, width)), rng.uniform(0, 360, n)
    wanted = np.stack([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))], axis=1)
    head = Ridge(_spec("ridge", STRENGTH), _target("angle", 0))

    def yardstick() -> linear_model.Ridge:
        return linear_model.Ridge(alpha=STRENGTH * n).fit(_scaled(X), wanted)

    ours, other = in_turn(lambda: head.fit(X, angle), yardstick, runs)
    difference = float(np.abs(yardstick().coef_.T - head.tensors["weights"]).max())
    checks = {"weights_differ_by": difference, "objective_equal": difference < 1e-9}
    what = f"ridge on (cos, sin), {n} x {width}"
    return figure(
        "fits", what, "scikit-learn Ridge", ours=ours, other=other, target=1.0, sense="at most", checks=checks
    )


def discriminant(n: int, width: int, runs: int, classes: int = 12) -> Figure:
    """The projection; scikit-learn shrinks the covariance of each class by itself, so that directions agree nearly."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    X = rng.standard_normal((n, width)) + rng.standard_normal((classes, width))[y]
    head = Discriminant(_spec("discriminant", SHARE), _target("enrolled_class", classes))

    def yardstick() -> LinearDiscriminantAnalysis:
        model = LinearDiscriminantAnalysis(solver="eigen", shrinkage=SHARE)
        return model.fit(_scaled(X), y)

    ours, other = in_turn(lambda: head.fit(X, y), yardstick, runs)
    spaces = [np.linalg.qr(m)[0] for m in (yardstick().scalings_[:, : classes - 1], head.tensors["projection"])]
    angles = np.linalg.svd(spaces[0].T @ spaces[1], compute_uv=False)
    checks = {"least_cosine_of_subspaces": float(angles.min()), "subspaces_agree": bool(angles.min() > 0.999)}
    what = f"discriminant, {classes} classes, {n} x {width}"
    against = "scikit-learn LinearDiscriminantAnalysis"
    return figure("fits", what, against, ours=ours, other=other, target=1.0, sense="at most", checks=checks)


def main() -> None:
    """Time every fit at both sizes."""
    options = parser(__doc__, 7).parse_args()
    sizes = [(60, 4)] if options.tiny else [(1_200, 128), (20_000, 256)]
    figures = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, width in sizes:
            figures.append(logistic(n, width, 2, options.runs))
            figures += [ridge(n, width, options.runs), discriminant(n, width, options.runs)]
    deliver(figures, options)


if __name__ == "__main__":
    main()
