"""The record of what a model costs, which the board shows: counted, and so the same everywhere."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from common.files import parse, read_json
from emma.data.provenance import Provenance
from emma.tasks import Strict, TaskID


class TaskCost(Strict):
    """What a task's scenes cost.

    Attributes:
        macs: multiply-accumulates per scene, with everything that the contract does to a scene (windows, antennas).
        uncounted: why ``macs`` is null.
        width: numbers of an embedding.
        dead_features: features that are the same for all TRAIN scenes; null where there are no embeddings.
    """

    macs: int | None
    uncounted: str | None
    width: int
    dead_features: int | None

    @model_validator(mode="after")
    def _has_a_reason(self) -> TaskCost:
        if (self.macs is None) != (self.uncounted is not None):
            raise ValueError("uncounted: expected where macs is null, and only there")
        return self


class Cost(Strict):
    """``results/costs/MODEL.json``: what a model is and costs, apart from every score.

    Attributes:
        model: its name.
        parameters: distinct floating parameters of its torch modules; else of its ONNX graph, else of its weights.
        weights_bytes: size of its file of weights; null without one.
        tasks: by task.
        description: one line, as its config says.
        link: where it comes from.
        licence: of its weights.
        model_provenance: which model was counted.
    """

    model: str
    parameters: int
    weights_bytes: int | None
    tasks: dict[TaskID, TaskCost]
    description: str | None
    link: str | None
    licence: str | None
    model_provenance: Provenance


def read_cost(path: str | Path) -> Cost:
    """Read ``results/costs/MODEL.json``; InputError where it is none."""
    return parse(Cost, read_json(path), path)
