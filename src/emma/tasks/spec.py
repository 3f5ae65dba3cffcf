"""The pinned declaration of a task: target, readout, metrics, protocol and anchors."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator, model_validator

from emma.tasks.names import Name, OODAxis, Strict
from emma.tasks.targets import TARGETS, Target

#: What an earlier spelling of a value is called now.
_RENAMED_READOUTS = {"ridge_angle": "ridge"}

_TARGET_NAMES = ", ".join(f"`{name}`" for name in TARGETS)


def _renamed(value: object) -> object:
    if value is None:
        return None
    raise ValueError(f"is now called target, expected one of {', '.join(TARGETS)}, found {value}")


class ReadoutSpec(Strict):
    """The pinned head of a task: what is fit on frozen embeddings, and how large it may be.

    ``kind`` is a readout of ``emma.readouts`` that fits the task's target. ``regularisation`` is the L2 weight on the
    mean loss (ridge, logistic), or the share of the within-class scatter replaced by a multiple of the identity
    (discriminant). Standardisation uses the fit's own TRAIN scenes.
    """

    kind: Annotated[
        str, Field(description="a readout that fits the task's target: `ridge`, `logistic`, `discriminant`")
    ]
    regularisation: Annotated[
        float,
        Field(
            gt=0,
            description="L2 weight on the mean loss; for `discriminant` the share of the within-class scatter "
            "replaced by a multiple of the identity",
        ),
    ]
    class_balanced: Annotated[bool, Field(description="weight the classes alike")] = False
    max_embedding_dim: Annotated[int, Field(ge=1, description="widest embedding that is fit")] = 2048
    max_parameters: Annotated[int, Field(ge=1, description="most parameters of the head")]

    @field_validator("kind")
    @classmethod
    def _current(cls, value: str) -> str:
        if value in _RENAMED_READOUTS:
            raise ValueError(f"{value} is now called {_RENAMED_READOUTS[value]}")
        return value


class Anchors(Strict):
    """The frozen pair that maps a raw score to [0, 1]: the score of no skill and the perfect score."""

    minimum: Annotated[float, Field(description="the score of no skill or the perfect score, whichever is less")]
    maximum: Annotated[float, Field(description="the other one")]

    @model_validator(mode="after")
    def _ordered(self) -> Anchors:
        if not self.minimum < self.maximum:
            raise ValueError("minimum must be below maximum")
        return self


class TaskSpec(Strict):
    """The pinned declaration of one task.

    ``target`` names the kind of label (``emma.tasks.targets``); ``classes`` are its names where it has classes (for a
    ``binary`` target the last one is positive). ``held_out`` lists the axis values that take turns at being unseen;
    ``in_ood_avg`` says whether the score enters the OOD average. Whether the metrics measure the target is checked
    where metrics are known: ``emma.evaluation.task_metrics``.
    """

    label: Annotated[None, BeforeValidator(_renamed), Field(exclude=True, description="now called `target`")] = None
    target: Annotated[str, Field(description=f"a kind of label of `emma.tasks.targets`: {_TARGET_NAMES}")]
    classes: Annotated[
        tuple[str, ...], Field(description="names of the classes; for a `binary` target the last one is positive")
    ] = ()
    readout: Annotated[ReadoutSpec, Field(description="the pinned head")]
    metric: Annotated[str, Field(description="name of the metric ([docs/metrics.md](../docs/metrics.md))")]
    unit: Annotated[str, Field(description="unit of the metric")]
    secondary_metrics: Annotated[tuple[str, ...], Field(description="metrics that are shown beside it")] = ()
    ood_axis: Annotated[OODAxis, Field(description="the axis of which values are held out")]
    held_out: Annotated[tuple[Name, ...], Field(description="values of the axis that take turns at being unseen")]
    in_ood_avg: Annotated[bool, Field(description="whether the score enters the OOD average")]
    anchors: Annotated[
        Anchors, Field(description="the frozen pair of scores between which a score is mapped to [0, 1]")
    ]
    layered_band: Annotated[
        tuple[Name, ...], Field(description="bands that are held out together with the axis, as a secondary protocol")
    ] = ()
    k: Annotated[int | None, Field(ge=1, description="k of `TopKAccuracy`; 5 where none is pinned")] = None
    tokenizer: Annotated[
        str | None, Field(description="tokenizer of the caption metrics; `13a-lower` where none is pinned")
    ] = None

    @field_validator("target")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in TARGETS:
            raise ValueError(f"{value} is unknown, expected one of {', '.join(TARGETS)}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> TaskSpec:
        if len(set(self.held_out)) < 2 or len(set(self.held_out)) != len(self.held_out):
            raise ValueError("held_out: expected two or more distinct values, one to hold out of the others")
        kind = TARGETS[self.target]
        if self.readout.kind not in kind.readouts:
            expected = " or ".join(kind.readouts)
            raise ValueError(
                f"readout.kind: {self.readout.kind} does not fit target {self.target}, expected {expected}"
            )
        if self.readout.class_balanced and self.readout.kind != "logistic":
            raise ValueError("readout.class_balanced: expected with readout.kind logistic alone")
        kind.check(self)
        if self.layered_band and not 1 < len(self.layered_band) == len(set(self.layered_band)):
            raise ValueError("layered_band: expected no band, or two or more distinct ones")
        metrics = (self.metric, *self.secondary_metrics)
        if len(set(metrics)) != len(metrics):
            raise ValueError("secondary_metrics: a metric occurs twice, expected each once")
        return self


def target_of(spec: TaskSpec) -> Target:
    """The target that a TaskSpec names, with the task's classes."""
    return TARGETS[spec.target](spec.classes)
