"""The records of a scored fold, the same from scoring to the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emma.data.provenance import Provenance
from emma.tasks import Strict, TaskID

#: Lower and upper edge.
Interval = tuple[float, float]
FloatArray = NDArray[np.float64]


class StandardErrors(Strict):
    """How far a score varies by cause, in its unit; None where nothing was drawn that would tell.

    Attributes:
        scenes: by the scenes that are scored, or the sessions where scenes of one session are alike.
        fit: by the scenes that the readout was fit on.
        enrolment: by the session that enrols the units.
    """

    scenes: float | None = None
    fit: float | None = None
    enrolment: float | None = None


class Score(Strict):
    """A metric of some scenes.

    Attributes:
        score: in the metric's unit; None where it is undefined.
        n: number of scenes.
        ci95: interval at the release's level by Student's t over ``standard_errors``, cut at the metric's bounds; by
            percentiles of the resamples where some are infinite; None where half of them define no score, or there is
            one unit alone.
        standard_errors: what the interval rests on: a cause without a number is not in it.
        undefined_reason: why there is no score.
    """

    score: float | None
    n: Annotated[int, Field(ge=0)]
    ci95: Interval | None
    standard_errors: StandardErrors = StandardErrors()
    undefined_reason: str | None


class FoldScore(Score):
    """One metric of one fold.

    Attributes:
        in_distribution: score, on the same scenes, of a readout that has met the held-out value;
            ``score - in_distribution`` is the generalisation gap.
        regularisation: the value of the pinned grid that the fold's readout chose; None for a submission.
        gap_ci95: interval of the gap, from the same resamples, refits and turns on both sides; None for references.
    """

    in_distribution: float | None
    regularisation: float | None = None
    gap_ci95: Interval | None = None


class FoldHashes(Strict):
    """Content hash of a fold's predictions, SHA-256 of its readout, and content hash of its refits.

    A submission has neither readout nor refits.
    """

    predictions: str
    readout: str | None
    refits: str | None


class FoldRecord(Strict):
    """``metrics.json`` of one fold: its place, what was scored, the scores by metric, and what made them."""

    model: str
    task: TaskID
    protocol: str
    held_out_value: str
    data_release_hash: str
    seed: int
    harness_version: str
    eval_split: Literal["dev", "holdout"]
    metrics: dict[str, FoldScore]
    hashes: FoldHashes
    model_provenance: Provenance


#: Scores of one fold by metric; of one task by protocol, held-out value and metric.
MetricScores = Mapping[str, FoldScore]
TaskScores = Mapping[str, Mapping[str, MetricScores]]


@dataclass(frozen=True)
class Draws:
    """What the uncertainty of one score is read off.

    Attributes:
        bootstrap: scores ``[R]`` of resampled scenes, NaN where a resample does not define the score.
        units: how many scenes, or sessions drawn whole, the resamples are drawn from; of enrolling tasks, how many
            sessions each turn queries.
        jackknife: scores ``[g]`` of readouts refit without one of g groups of fit scenes; None where none were refit.
        enrolment: scores ``[S]`` by enrolling session, whose mean is the score; None where the task does not enrol.
    """

    bootstrap: FloatArray
    units: int
    jackknife: FloatArray | None = None
    enrolment: FloatArray | None = None


#: Draws of one task by (protocol, held-out value, metric).
Replicates = Mapping[tuple[str, str, str], Draws]
