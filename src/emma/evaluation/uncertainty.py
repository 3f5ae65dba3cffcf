"""How far a score can be believed: parts that vary apart, t intervals over them, and paired tests.

A score varies with the scenes that were drawn, with the scenes that its readout was fit on, and, where units are
enrolled, with the session that enrols them. Each part is estimated from draws of its own: a bootstrap, a grouped
jackknife, and the scores by turn. Draws of two models are of the same resamples, fifths and turns, so that a comparison
subtracts them one by one and what both share cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from emma.evaluation.records import Draws, FloatArray, Interval, StandardErrors

#: Deviations and differences of scores below this are sums in another order.
_ROUNDING = 1e-12

#: A map of scores ``[...]`` to another scale, such as that of the anchors.
Transform = Callable[[FloatArray], FloatArray]


class Part(NamedTuple):
    """Variance of a score by one cause, in the squared unit of the score, and its degrees of freedom."""

    variance: float
    df: float


@dataclass(frozen=True)
class Parts:
    """Variances of one score by cause, None where there are no draws of it, and of all together.

    ``total`` is None where nothing says how the score varies with the scenes. Sessions enrol and are queried in turn,
    so that these two parts may go together: ``total`` takes them as fully correlated, their deviations added.
    """

    scenes: Part | None
    fit: Part | None
    enrolment: Part | None
    total: Part | None

    @classmethod
    def of(cls, scenes: Part | None, fit: Part | None, enrolment: Part | None) -> Self:
        """The parts of a score whose causes are these."""
        if scenes is None:
            return cls(scenes, fit, enrolment, None)
        drawn = scenes
        if enrolment is not None:
            deviation = math.sqrt(scenes.variance) + math.sqrt(enrolment.variance)
            drawn = Part(deviation**2, min(scenes.df, enrolment.df))
        return cls(scenes, fit, enrolment, added([drawn, fit]))

    @property
    def standard_errors(self) -> StandardErrors:
        """Roots of the variances, as a record."""
        parts = {"scenes": self.scenes, "fit": self.fit, "enrolment": self.enrolment}
        return StandardErrors(**{name: None if p is None else math.sqrt(p.variance) for name, p in parts.items()})


def added(parts: Iterable[Part | None]) -> Part | None:
    """The variance of a sum of independent causes, with Satterthwaite's degrees of freedom; None where none is known.

    Reference: Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin
    1946, equation 17.

    Example:
        >>> added([Part(1.0, 4.0), Part(1.0, 4.0), None])
        Part(variance=2.0, df=8.0)
    """
    known = [part for part in parts if part is not None]
    if not known:
        return None
    variance = sum(part.variance for part in known)
    spread = sum(part.variance**2 / part.df for part in known)
    return Part(variance, variance**2 / spread if spread > 0 else min(part.df for part in known))


def scaled(part: Part | None, factor: float) -> Part | None:
    """The part of a score times ``factor``."""
    return None if part is None else Part(part.variance * factor**2, part.df)


def scene_part(bootstrap: FloatArray, units: int) -> Part | None:
    """The part of the scenes, from bootstrap draws ``[R]`` over G units (scenes, or sessions drawn whole).

    A bootstrap over G units has (G - 1) / G of the variance, a quarter less over four sessions. This is undone.

    Returns:
        variance with G - 1 degrees of freedom; None for fewer than two units, where fewer than half of the resamples
        define the score, or where one is infinite.

    Reference: Davison and Hinkley, "Bootstrap Methods and their Application", Cambridge 1997, section 2.3.
    """
    defined = bootstrap[~np.isnan(bootstrap)]
    if units < 2 or defined.size < 2 or 2 * defined.size < bootstrap.size or not np.isfinite(defined).all():
        return None
    return Part(float(np.var(defined, ddof=1)) * units / (units - 1), units - 1.0)


def fit_part(jackknife: FloatArray | None) -> Part | None:
    """The part of the fit, from scores ``[g]`` of readouts that were refit without one of g groups of fit scenes.

    Returns:
        ``(g - 1) / g`` times the sum of squared deviations, with g - 1 degrees of freedom; None where a refit has no
        finite score.

    Reference: Shao and Tu, "The Jackknife and Bootstrap", Springer 1995, section 2.3 (the delete-d jackknife, grouped).

    Example:
        >>> fit_part(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
        Part(variance=8.0, df=4.0)
    """
    if jackknife is None or jackknife.size < 2 or not np.isfinite(jackknife).all():
        return None
    groups = jackknife.size
    return Part(float(np.var(jackknife)) * (groups - 1), groups - 1.0)


def enrolment_part(turns: FloatArray | None) -> Part | None:
    """The part of the enrolment in the mean of scores ``[S]``, each with the galleries of another session.

    Returns:
        variance of the turns over S, with S - 1 degrees of freedom; None for fewer than two turns.

    Example:
        >>> enrolment_part(np.array([1.0, 3.0]))
        Part(variance=1.0, df=1.0)
    """
    if turns is None or turns.size < 2 or not np.isfinite(turns).all():
        return None
    return Part(float(np.var(turns, ddof=1)) / turns.size, turns.size - 1.0)


def parts_of(draws: Draws) -> Parts:
    """The parts of one fold's score."""
    return Parts.of(
        scene_part(draws.bootstrap, draws.units), fit_part(draws.jackknife), enrolment_part(draws.enrolment)
    )


def t_interval(score: float, part: Part, level: float, bounds: Interval = (-math.inf, math.inf)) -> Interval:
    """The interval of a score by Student's t, cut at the bounds of what is scored.

    Args:
        score: the score.
        part: its variance and degrees of freedom.
        level: coverage, in (0, 1).
        bounds: least and greatest possible score.

    Example:
        >>> t_interval(0.9, Part(0.01, 1e9), 0.95, (0.0, 1.0))
        (0.7040036015459958, 1.0)
    """
    from scipy.special import stdtrit

    reach = float(stdtrit(part.df, (1.0 + level) / 2)) * math.sqrt(part.variance)
    return max(score - reach, bounds[0]), min(score + reach, bounds[1])


def t_p_value(difference: float, part: Part, *, one_sided: bool = False) -> float:
    """The p-value of no difference: two-sided, or one-sided and small where the difference is above zero.

    Where nothing varies, it is 0 for a difference that the side admits, and 1 otherwise.
    """
    from scipy.special import stdtr

    deviation = math.sqrt(part.variance)
    if deviation <= _ROUNDING:
        return 0.0 if (difference if one_sided else abs(difference)) > _ROUNDING else 1.0
    if one_sided:
        return float(stdtr(part.df, -difference / deviation))
    return min(1.0, 2.0 * float(stdtr(part.df, -abs(difference) / deviation)))


def less(first: Draws, second: Draws) -> Draws:
    """Draws of the difference of two scores on the same scenes.

    Where one of the two has no refits or no turns, those of the other stand alone.

    Raises:
        ValueError: the draws are of other resamples, fifths or turns.
    """
    if first.units != second.units:
        raise ValueError(f"draws over {first.units} and {second.units} units, expected the same scenes")
    return Draws(
        _difference(first.bootstrap, second.bootstrap),
        first.units,
        _either(first.jackknife, second.jackknife),
        _either(first.enrolment, second.enrolment),
    )


def _difference(first: FloatArray, second: FloatArray) -> FloatArray:
    if first.shape != second.shape:
        raise ValueError(f"draws of shapes {first.shape} and {second.shape}, expected the same resamples and turns")
    with np.errstate(invalid="ignore"):  # infinity less infinity: a difference that is not defined
        return first - second


def _either(first: FloatArray | None, second: FloatArray | None) -> FloatArray | None:
    if first is None or second is None:
        return second if first is None else first
    return _difference(first, second)


@dataclass(frozen=True)
class MeanDraws:
    """Draws of a mean over held-out values: scenes of each value are its own, fits and turns are shared by all.

    Attributes:
        by_value: bootstrap draws ``[V, R]``, widened about their means by the root of G / (G - 1).
        df: degrees of freedom ``[V]`` of the scenes of each value.
        scenes: the mean over values of ``by_value``, ``[R]``, on the scale asked for.
        jackknife: the mean score of every refit ``[g]``, or None.
        enrolment: the mean score of every turn ``[S]``, or None.
    """

    by_value: FloatArray
    df: FloatArray
    scenes: FloatArray
    jackknife: FloatArray | None
    enrolment: FloatArray | None

    @classmethod
    def of(cls, values: Sequence[Draws], transform: Transform = lambda score: score) -> Self:
        """Draws of the mean over ``values``, mapped by ``transform``.

        Raises:
            ValueError: no value, or draws that differ in number.
        """
        widths = {draws.bootstrap.size for draws in values}
        if len(widths) != 1:
            raise ValueError(f"draws: {sorted(widths)} resamples, expected the same number for every held-out value")
        units = np.array([draws.units for draws in values], np.float64)
        every = np.stack([draws.bootstrap for draws in values])
        with np.errstate(divide="ignore", invalid="ignore"):
            # One unit alone says nothing of its spread: NaN, and so no part of the scenes.
            widen = np.sqrt(units / (units - 1))
            centre = np.array([row[~np.isnan(row)].mean() if (~np.isnan(row)).any() else np.nan for row in every])
            by_value = centre[:, None] + widen[:, None] * (every - centre[:, None])
        return cls(
            by_value,
            units - 1,
            transform(by_value.mean(axis=0)),
            _mean([draws.jackknife for draws in values], transform),
            _mean([draws.enrolment for draws in values], transform),
        )

    def less(self, other: MeanDraws) -> MeanDraws:
        """Draws of the difference; ValueError where the draws are of other resamples, fifths or turns."""
        return MeanDraws(
            _difference(self.by_value, other.by_value),
            np.minimum(self.df, other.df),
            _difference(self.scenes, other.scenes),
            _either(self.jackknife, other.jackknife),
            _either(self.enrolment, other.enrolment),
        )

    def parts(self) -> Parts:
        """The parts of the mean; the degrees of freedom of its scenes are Satterthwaite's over the held-out values."""
        return Parts.of(self._scenes(), fit_part(self.jackknife), enrolment_part(self.enrolment))

    def _scenes(self) -> Part | None:
        defined = self.scenes[~np.isnan(self.scenes)]
        known = defined.size >= 2 and 2 * defined.size >= self.scenes.size and np.isfinite(defined).all()
        if not known or self.df.min() < 1:
            return None
        df = float(self.df.min())
        if np.isfinite(self.by_value).all():
            variances = np.var(self.by_value, axis=1)
            spread = float((variances**2 / self.df).sum())
            df = float(variances.sum()) ** 2 / spread if spread > 0 else df
        return Part(float(np.var(defined, ddof=1)), df)


def _mean(scores: Sequence[FloatArray | None], transform: Transform) -> FloatArray | None:
    """The mean over values of their scores by refit or turn, where every value has as many."""
    known = [score for score in scores if score is not None]
    if len(known) < len(scores) or len({score.size for score in known}) != 1:
        return None
    return transform(np.stack(known).mean(axis=0))


def average_parts(tasks: Sequence[MeanDraws]) -> Parts:
    """The parts of the mean over tasks, whose scenes, fits and enrolments are independent of one another's."""
    of_task = [task.parts() for task in tasks]
    share = 1.0 / len(of_task)

    def mean(parts: Iterable[Part | None]) -> Part | None:
        return added(scaled(part, share) for part in parts)

    known = all(parts.total is not None for parts in of_task)
    return Parts(
        mean(parts.scenes for parts in of_task) if known else None,
        mean(parts.fit for parts in of_task),
        mean(parts.enrolment for parts in of_task),
        mean(parts.total for parts in of_task) if known else None,
    )
