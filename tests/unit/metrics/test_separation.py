"""The improvement over the mixture, against the ratios in plain numpy."""

import numpy as np
import pytest

from emma.metrics import METRICS, SISDRImprovement, UndefinedMetricError


def ratio_db(estimate: np.ndarray, source: np.ndarray) -> float:
    part = np.vdot(source, estimate) / np.vdot(source, source) * source
    return float(10 * np.log10(np.linalg.norm(part) ** 2 / np.linalg.norm(estimate - part) ** 2))


def waves(n: int = 20, samples: int = 48) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    source, other, more = rng.standard_normal((3, n, samples)) + 1j * rng.standard_normal((3, n, samples))
    return source + 0.2 * more, np.stack([source + other, source], axis=1)


def test_the_mean_of_differences() -> None:
    estimate, target = waves()
    pairs = zip(estimate, target, strict=True)
    wanted = [ratio_db(own, source) - ratio_db(mixture, source) for own, (mixture, source) in pairs]
    assert SISDRImprovement()(estimate, target) == pytest.approx(np.mean(wanted), abs=1e-9)
    weights = np.random.default_rng(1).integers(0, 3, (4, 20)).astype(np.uint16)
    found = SISDRImprovement().resampled(estimate, target, weights)
    np.testing.assert_allclose(found, weights @ wanted / weights.sum(axis=1))
    assert SISDRImprovement().checked(estimate, target) == SISDRImprovement()(estimate, target)


def test_the_mixture_itself_improves_nothing_at_any_level_and_phase() -> None:
    _, target = waves()
    assert SISDRImprovement()(3j * target[:, 0], target) == pytest.approx(0.0, abs=1e-9)


def test_a_silent_source_is_left_out_and_a_silent_estimate_has_no_value() -> None:
    estimate, target = waves()
    silent = target.copy()
    silent[3, 1] = 0
    details = SISDRImprovement().details(estimate, silent)
    assert (details.n_scored, details.left_out_samples) == (19, (3,))
    estimate[5] = 0
    with pytest.raises(UndefinedMetricError, match=r"a silent estimate or mixture has no scale \(sample 5\)"):
        SISDRImprovement()(estimate, target)


@pytest.mark.parametrize("shape", [(20, 48), (20, 1, 48), (20, 2, 47), (19, 2, 48)])
def test_shapes_that_do_not_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected estimates \[N, T\] against \[N, 2, T\]"):
        METRICS["SISDRImprovement"](np.ones((20, 48)), np.ones(shape))
