"""Where models stand, and which ranks hold: intervals, paired comparisons, jackknives, the test against the floor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from common.errors import InputError
from emma.evaluation.records import Draws, Interval, StandardErrors
from emma.evaluation.statistics import holm
from emma.evaluation.uncertainty import MeanDraws, Part, average_parts, t_interval, t_p_value
from emma.metrics import UndefinedMetricError
from emma.results.aggregate import FoldScores, OODAvg
from emma.results.records import RankFlip, RankFlips, RankRange, RankRanges, RankStatistics
from emma.tasks import TaskID


@dataclass(frozen=True)
class Entrant:
    """What ranking needs to know of a model.

    Attributes:
        name: the model's name.
        scores: fold scores of the scored tasks.
        replicates: draws in the same places, of the same resamples, fifths and turns for every model.
        ranked: False for a row that sets the scale.
    """

    name: str
    scores: FoldScores
    replicates: Mapping[TaskID, Mapping[str, Draws]]
    ranked: bool = True


@dataclass
class Standing:
    """Where a model stands, and how firmly."""

    ood_avg: float | None = None
    undefined_reason: str | None = None
    ci95: Interval | None = None
    standard_errors: StandardErrors | None = None
    rank: int | None = None
    rank_range: RankRange | None = None
    rank_ranges: RankRanges | None = None
    separable_from_next: bool | None = None
    p_value_against_next: float | None = None
    leave_one_task_out: dict[str, float] = field(default_factory=dict)
    leave_one_value_out: dict[str, float] = field(default_factory=dict)
    leave_one_fifth_out: dict[str, float] = field(default_factory=dict)
    fragile: bool | None = None
    draws: dict[TaskID, MeanDraws] = field(default_factory=dict)


def rank(aggregator: OODAvg, entrants: Sequence[Entrant], level: float) -> tuple[dict[str, Standing], RankStatistics]:
    """Rank models by OOD average and say which ranks hold.

    Neighbours in rank are compared by the difference of their averages over its standard error, whose parts (scenes,
    fits, enrolments) are paired: two-sided by Student's t with Satterthwaite's degrees of freedom, Holm-corrected over
    the comparisons (Holm, 1979). ``fragile``: the range of the leave-one-task-out averages exceeds the median gap
    between adjacent ranked models.

    Args:
        aggregator: the release's OODAvg.
        entrants: the models.
        level: coverage of the intervals; ranks are told apart at 1 - level.

    Returns:
        standings by model, and the board's statistics.

    Raises:
        InputError: a model with an OOD average lacks draws of a scored fold, or has those of other scenes.
    """
    standings = {entrant.name: _stand(aggregator, entrant, level) for entrant in entrants}
    averages = {e.name: average for e in entrants if e.ranked and (average := standings[e.name].ood_avg) is not None}
    ranked = sorted(averages, key=lambda name: (-averages[name], name))
    for place, name in enumerate(ranked):
        above = ranked[place - 1] if place else None
        tied = above is not None and averages[above] == averages[name]
        standings[name].rank = standings[above].rank if above is not None and tied else place + 1
    pairs = list(itertools.pairwise(ranked))
    gaps = [averages[better] - averages[worse] for better, worse in pairs]
    p_values = [_p_value(standings, *pair) for pair in pairs]
    for (name, _), p_value in zip(pairs, holm(p_values) if p_values else [], strict=True):
        standings[name].p_value_against_next = float(p_value)
        standings[name].separable_from_next = bool(p_value < 1.0 - level)
    median_gap = float(np.median(gaps)) if gaps else None
    for name in ranked:
        averages_without = list(standings[name].leave_one_task_out.values())
        if median_gap is not None and averages_without:
            standings[name].fragile = bool(max(averages_without) - min(averages_without) > median_gap)
    _range_ranks(standings, ranked)
    flips = RankFlips(
        leave_one_task_out=_flips({name: standings[name].leave_one_task_out for name in ranked}),
        leave_one_value_out=_flips({name: standings[name].leave_one_value_out for name in ranked}),
    )
    return standings, RankStatistics(median_gap=median_gap, gaps=tuple(gaps), ranking=tuple(ranked), rank_flips=flips)


def _stand(aggregator: OODAvg, entrant: Entrant, level: float) -> Standing:
    standing = Standing()
    try:
        standing.ood_avg = aggregator(entrant.scores)
    except UndefinedMetricError as error:
        standing.undefined_reason = str(error)
        return standing
    try:
        standing.draws = aggregator.draws(entrant.replicates)
    except ValueError as error:
        raise InputError(f"model {entrant.name}: bootstrap replicates: {error}") from None
    parts = average_parts(list(standing.draws.values()))
    standing.standard_errors = parts.standard_errors
    if parts.total is not None:
        standing.ci95 = t_interval(standing.ood_avg, parts.total, level, (0.0, 1.0))
    if len(aggregator.tasks) > 1:
        standing.leave_one_task_out = aggregator.leave_one_task_out(entrant.scores)
    standing.leave_one_value_out = aggregator.leave_one_value_out(entrant.scores)
    standing.leave_one_fifth_out = {
        f"{task.value}/{fifth}": standing.ood_avg + float(score - draws.jackknife.mean()) / len(standing.draws)
        for task, draws in standing.draws.items()
        if draws.jackknife is not None and np.isfinite(draws.jackknife).all()
        for fifth, score in enumerate(draws.jackknife)
    }
    return standing


def _p_value(standings: Mapping[str, Standing], better: str, worse: str) -> float:
    """The two-sided p-value of two averages that do not differ; 1 where nothing says how they vary."""
    first, second = standings[better], standings[worse]
    try:
        part = _part_of_averages(first.draws, second.draws)
    except ValueError as error:
        raise InputError(f"models {better} and {worse}: replicates: {error}") from None
    if part is None or first.ood_avg is None or second.ood_avg is None:
        return 1.0
    return t_p_value(first.ood_avg - second.ood_avg, part)


def gain_interval(gain: float, own: MeanDraws, other: MeanDraws, level: float) -> Interval | None:
    """The interval of the difference of two task scores on the same scenes; None where nothing says how it varies.

    Raises:
        ValueError: draws of other scenes, fifths or turns.
    """
    part = own.less(other).parts().total
    return None if part is None else t_interval(gain, part, level)


def average_interval(
    gain: float, own: Mapping[TaskID, MeanDraws], other: Mapping[TaskID, MeanDraws], level: float
) -> Interval | None:
    """The interval of the difference of two OOD averages of the same tasks; see ``gain_interval``."""
    part = _part_of_averages(own, other)
    return None if part is None else t_interval(gain, part, level)


def _part_of_averages(own: Mapping[TaskID, MeanDraws], other: Mapping[TaskID, MeanDraws]) -> Part | None:
    """How the difference of two OOD averages of the same tasks varies; ValueError for draws of other scenes."""
    return average_parts([draws.less(other[task]) for task, draws in own.items()]).total


def p_no_better(gain: float, own: Sequence[Draws], other: Sequence[Draws]) -> float | None:
    """The one-sided p-value of a task score that is no better than another on the same scenes.

    Args:
        gain: how much better the task score is, in the metric's unit: above zero is better.
        own: draws of the task's held-out values.
        other: draws of the other's, in the same order.

    Returns:
        small where the score is better; None where nothing says how the two vary.

    Raises:
        ValueError: draws of other scenes, fifths or turns.
    """
    part = MeanDraws.of(own).less(MeanDraws.of(other)).parts().total
    return None if part is None else t_p_value(gain, part, one_sided=True)


def _range_ranks(standings: Mapping[str, Standing], ranked: Sequence[str]) -> None:
    """Set the range of ranks of every ranked model: what is dropped is dropped for all of them at once."""
    kinds = ("leave_one_task_out", "leave_one_value_out", "leave_one_fifth_out")
    ranges: dict[str, dict[str, RankRange | None]] = {name: {} for name in ranked}
    for kind in kinds:
        places = [_places(averages) for averages in _without(standings, ranked, kind)]
        for index, name in enumerate(ranked):
            own = [int(place[index]) for place in places]
            ranges[name][kind] = (min(own), max(own)) if own else None
    for name in ranked:
        own_rank = standings[name].rank
        spans = [span for span in ranges[name].values() if span is not None]
        if own_rank is not None:
            ends = [own_rank, *itertools.chain.from_iterable(spans)]
            standings[name].rank_range = (min(ends), max(ends))
        standings[name].rank_ranges = RankRanges(**ranges[name])


def _without(standings: Mapping[str, Standing], ranked: Sequence[str], kind: str) -> Iterator[list[float]]:
    """Averages of the ranked models by what is dropped; one that lacks a refit stays where it stands."""
    averages = {name: getattr(standings[name], kind) for name in ranked}
    for dropped in dict.fromkeys(drop for own in averages.values() for drop in own):
        yield [averages[name].get(dropped, standings[name].ood_avg) for name in ranked]


def _places(averages: Sequence[float]) -> list[int]:
    """Ranks from 1, equal averages sharing the better one."""
    values = np.asarray(averages)
    return [1 + int((values > value).sum()) for value in values]


def _flips(averages: Mapping[str, Mapping[str, float]]) -> tuple[RankFlip, ...]:
    """The drops after which ranked models stand in another order; averages by model, in rank order, and drop."""
    ranked = list(averages)
    flips = []
    for dropped in averages[ranked[0]] if ranked else []:
        without = {name: by_drop[dropped] for name, by_drop in averages.items()}
        order = [name for _, name in sorted((-average, name) for name, average in without.items())]
        if order != ranked:
            flips.append(RankFlip(dropped=dropped, ranking=tuple(order)))
    return tuple(flips)
