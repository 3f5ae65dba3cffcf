"""Nominal 95 % intervals of a simulated benchmark cover the expected score over fresh fits, scenes and enrolments.

Each run draws new fit scenes and new eval scenes, fits a readout by least squares, refits it without each fifth of its
fit scenes, and scores its mean absolute error. The truth is the expected error over fits and scenes: given a fit with
weights ``w + e`` a residual is normal with variance ``1 + |e|^2``, so that only the fits need a large simulation. What
all scenes of a session share is added to their errors.
"""

from typing import NamedTuple

import numpy as np
import pytest

from emma.evaluation.records import Draws
from emma.evaluation.statistics import bootstrap_weights, percentile_interval
from emma.evaluation.uncertainty import added, parts_of, t_interval

RUNS, WIDTH = 2000, 8
#: Two standard errors of the share of so many runs that a 95 % interval covers.
ERROR = 2 * np.sqrt(0.95 * 0.05 / RUNS)


class Case(NamedTuple):
    """Numbers of fit scenes (0: the weights are known), eval scenes, sessions, and the deviation of what they share."""

    train: int
    scenes: int
    sessions: int | None = None
    spread: float = 0.0


CASES = {
    "scenes": Case(80, 400),
    "four sessions": Case(80, 400, 4, 0.05),
    "twelve sessions": Case(80, 360, 12, 0.05),
    "four sessions, weights known": Case(0, 160, 4, 0.3),
}


def fits(rng: np.random.Generator, runs: int, train: int) -> np.ndarray:
    """Errors of the weights ``[runs, 6, WIDTH]``: of the fit, and of the refits without each fifth."""
    if not train:
        return np.zeros((runs, 6, WIDTH))
    x = rng.standard_normal((runs, 5, train // 5, WIDTH))
    y = rng.standard_normal((runs, 5, train // 5, 1))
    gram, cross = x.swapaxes(-1, -2) @ x, x.swapaxes(-1, -2) @ y
    whole = gram.sum(1, keepdims=True), cross.sum(1, keepdims=True)
    gram = np.concatenate([whole[0], whole[0] - gram], axis=1)
    cross = np.concatenate([whole[1], whole[1] - cross], axis=1)
    return np.linalg.solve(gram, cross)[..., 0]


def expected(case: Case) -> float:
    """The expected score over fits and scenes, from 100,000 fits."""
    rng = np.random.default_rng(99)
    error = np.concatenate([fits(rng, 5000, case.train)[:, 0] for _ in range(20)])
    return float(np.mean(np.sqrt(2 / np.pi * (1 + (error**2).sum(-1)))))


def runs(case: Case) -> list[tuple[float, Draws]]:
    """Scores of simulated runs, each with its draws."""
    rng = np.random.default_rng(1)
    error = fits(rng, RUNS, case.train)
    x, noise = rng.standard_normal((RUNS, case.scenes, WIDTH)), rng.standard_normal((RUNS, case.scenes))
    loss, groups = np.abs(error @ x.swapaxes(-1, -2) - noise[:, None]), None
    if case.sessions is not None:
        groups = np.repeat(np.arange(case.sessions), case.scenes // case.sessions)
        loss += case.spread * rng.standard_normal((RUNS, case.sessions))[:, None, groups]
    drawn = bootstrap_weights(case.scenes, n_resamples=1000, seed=1, groups=groups).astype(np.float64)
    bootstrap, scores = loss[:, 0] @ drawn.T / case.scenes, loss.mean(-1)
    units = case.sessions or case.scenes
    return [(float(s[0]), Draws(b, units, s[1:])) for s, b in zip(scores, bootstrap, strict=True)]


def share(intervals: list[tuple[float, float]], truth: float) -> float:
    return float(np.mean([low <= truth <= high for low, high in intervals]))


@pytest.mark.parametrize("name", CASES)
def test_the_interval_covers_the_expected_score_over_fits_and_scenes(name, record_property) -> None:
    case = CASES[name]
    truth, made = expected(case), runs(case)
    covered = share([t_interval(score, parts_of(draws).total, 0.95) for score, draws in made], truth)
    scenes = share([t_interval(score, parts_of(draws).scenes, 0.95) for score, draws in made], truth)
    percentile = share([percentile_interval(draws.bootstrap, 0.95) for _, draws in made], truth)
    record_property(name, f"{covered:.3f}; scenes alone {scenes:.3f}; percentiles {percentile:.3f}")
    assert covered >= 0.94 - ERROR
    # What was done before misses, by far more than the simulation's error.
    assert percentile < 0.94 - 2 * ERROR
    if case.train:
        assert scenes < 0.94 - ERROR


@pytest.mark.parametrize("together", [0.0, 0.9])
def test_the_interval_covers_the_expected_score_over_enrolments(together, record_property) -> None:
    """Sessions that enrol well are queried well too: their two effects correlate by ``together``."""
    rng, sessions, captures = np.random.default_rng(2), 20, 8
    chol = np.linalg.cholesky([[1.0, together], [together, 1.0]])
    enrol, query = np.moveaxis(rng.standard_normal((RUNS, sessions, 2)) @ chol.T, -1, 0)
    noise = rng.standard_normal((RUNS, sessions, sessions)) / np.sqrt(captures)
    score = enrol[:, :, None] + query[:, None, :] + noise
    others = 1.0 - np.eye(sessions)
    by_turn = (score * others).sum(-1) / (sessions - 1)
    weights = bootstrap_weights(sessions, n_resamples=1000, seed=3).astype(np.float64)
    # Of each turn the mean over the drawn sessions but the one that enrols, then the mean over turns.
    per_query = weights @ others
    drawn = np.stack([np.einsum("tq,rq,rt->r", one * others, weights, 1 / per_query, optimize=True) for one in score])
    parts = [
        (float(turns.mean()), parts_of(Draws(d / sessions, sessions, None, turns)))
        for turns, d in zip(by_turn, drawn, strict=True)
    ]
    covered = share([t_interval(mean, part.total, 0.95) for mean, part in parts], 0.0)
    apart = share([t_interval(mean, added([part.scenes, part.enrolment]), 0.95) for mean, part in parts], 0.0)
    record_property(f"correlation {together}", f"{covered:.3f}; as independent causes {apart:.3f}")
    assert covered >= 0.94 - ERROR
    if together:
        assert apart < 0.94 - ERROR
