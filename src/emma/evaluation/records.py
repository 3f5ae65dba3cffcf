"""The records of a scored fold, the same from scoring to the board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emma.data.provenance import Provenance
from emma.tasks import Strict, TaskID

#: Lower and upper edge.
Interval = tuple[float, float]
FloatArray = NDArray[np.float64]


class Score(Strict):
    """A metric of some scenes.

    Attributes:
        score: in the metric's unit; None where it is undefined.
        n: number of scenes.
        ci95: bootstrap interval at the release's level; None where half of the resamples define no score.
        undefined_reason: why there is no score.
    """

    score: float | None
    n: Annotated[int, Field(ge=0)]
    ci95: Interval | None
    undefined_reason: str | None


class FoldScore(Score):
    """One metric of one fold.

    Attributes:
        in_distribution: score, on the same scenes, of a readout that has met the held-out value;
            ``score - in_distribution`` is the generalisation gap.
    """

    in_distribution: float | None


class FoldHashes(Strict):
    """Content hash of a fold's predictions, and SHA-256 of its readout, which a submission does not have."""

    predictions: str
    readout: str | None


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

#: Bootstrap draws ``[R]`` of one task by (protocol, held-out value, metric).
Replicates = Mapping[tuple[str, str, str], FloatArray]
