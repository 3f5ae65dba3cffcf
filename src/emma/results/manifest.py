"""The RunManifest: which model, which data, which scored outputs; the auditable triple behind a row of the board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from common.hashing import content_hash
from emma.data.provenance import Hash, Provenance
from emma.tasks import Strict, TaskID


class RunManifest(Strict):
    """What ran. Every field is required and none may be empty.

    Attributes:
        model_provenance: what made the model.
        data_release_hash: content hash of the DataReleaseManifest.
        prediction_bundle_hashes: by task, the hash of the scored predictions of every fold.
        task_metrics: by task, the metric values by metric name (null where undefined).
        seed: the run's seed, which drew the fit scenes of references and bootstrap resamples.
        harness_version: version of this package.
    """

    model_provenance: Provenance
    data_release_hash: Hash
    prediction_bundle_hashes: dict[TaskID, Hash]
    task_metrics: dict[TaskID, dict[str, float | None]]
    seed: Annotated[int, Field(ge=0)]
    harness_version: Annotated[str, Field(min_length=1)]

    @field_validator("prediction_bundle_hashes", "task_metrics")
    @classmethod
    def _not_empty(cls, value: dict[TaskID, object]) -> dict[TaskID, object]:
        if not value:
            raise ValueError("expected at least one entry")
        return value

    @model_validator(mode="after")
    def _complete(self) -> RunManifest:
        if set(self.task_metrics) != set(self.prediction_bundle_hashes):
            raise ValueError("prediction_bundle_hashes: expected one hash for every task of task_metrics")
        if empty := [task for task, metrics in self.task_metrics.items() if not metrics]:
            raise ValueError(f"task_metrics.{empty[0]}: expected at least one metric")
        return self


def bundle_hash(fold_hashes: Mapping[str, Mapping[str, str]]) -> str:
    """Hash of a task's scored predictions, from their content hashes by protocol and value."""
    return content_hash(fold_hashes)
