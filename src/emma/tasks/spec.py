"""The pinned declaration of a task: target, readout, metrics, protocol and anchors."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator, model_validator

from common.errors import unknown
from emma.tasks.names import Name, OODAxis, Strict
from emma.tasks.questions import QuestionKind, grammar
from emma.tasks.targets import TARGETS, Target

#: What an earlier spelling of a value is called now.
_RENAMED_READOUTS = {"ridge_angle": "ridge"}

#: Keys of a readout that only these kinds have, and must have.
_OWN_KEYS = {
    "reduced_ridge": ("components",),
    "mahalanobis": ("components",),
    "masking": ("window", "hop"),
    "consensus": ("neighbours",),
    "answers": ("questions",),
}

#: Kinds that choose nothing from a grid.
_WITHOUT_GRID = ("mahalanobis", "consensus")

_TARGET_NAMES = ", ".join(f"`{name}`" for name in TARGETS)


def _renamed(value: object) -> object:
    if value is None:
        return None
    raise ValueError(f"is now called target, expected one of {', '.join(TARGETS)}, found {value}")


def _now_secondary(value: object) -> object:
    if value is None:
        return None
    entry = "{ood_axis: frequency_band, held_out: [...], layered: true}"
    raise ValueError(f"is now called secondary, expected an entry {entry} there, found {value}")


class ReadoutSpec(Strict):
    """The pinned head of a task: what is fit on frozen embeddings, and how large it may be.

    ``kind`` is a readout of ``emma.readouts`` that fits the task's target. ``regularisation`` is the grid from which
    every fold chooses by inner cross-validation on its own fit scenes: for ridge and logistic the L2 weight on the mean
    loss of features of unit total variance, for a discriminant the share of the within-class scatter that is replaced
    by a multiple of the identity. Standardisation uses the fit's own TRAIN scenes. The optional keys stand where the
    kind needs them, and nowhere else.
    """

    kind: Annotated[
        str, Field(description="a readout that fits the task's target: `ridge`, `logistic`, `discriminant`")
    ]
    regularisation: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(
            description="values to choose from in each fold, increasing: the L2 weight on the mean loss, features "
            "standardised and divided by the root of their number; for `discriminant` the share of the within-class "
            "scatter replaced by a multiple of the identity; none for a kind that chooses nothing",
        ),
    ]
    class_balanced: Annotated[bool, Field(description="weight the classes alike")] = False
    max_embedding_dim: Annotated[int, Field(ge=1, description="widest embedding that is fit")] = 2048
    max_parameters: Annotated[int, Field(ge=1, description="most parameters of the head")]
    components: Annotated[int | None, Field(ge=1, description="number of leading components that are kept")] = None
    neighbours: Annotated[int | None, Field(ge=1, description="number of nearest fit scenes that are asked")] = None
    window: Annotated[
        int | None, Field(ge=2, description="samples of the windows of a scene, each of which is embedded by itself")
    ] = None
    hop: Annotated[int | None, Field(ge=1, description="samples from the start of a window to that of the next")] = None
    questions: Annotated[
        dict[str, QuestionKind] | None,
        Field(description="kinds of question by name, each with a head for every argument that it may ask about"),
    ] = None

    @field_validator("kind")
    @classmethod
    def _current(cls, value: str) -> str:
        if value in _RENAMED_READOUTS:
            raise ValueError(f"{value} is now called {_RENAMED_READOUTS[value]}")
        return value

    @field_validator("regularisation")
    @classmethod
    def _increasing(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        if list(grid) != sorted(set(grid)):
            raise ValueError("expected increasing values")
        return grid

    @model_validator(mode="after")
    def _own_keys(self) -> ReadoutSpec:
        for key in ("components", "neighbours", "window", "hop", "questions"):
            needed = key in _OWN_KEYS.get(self.kind, ())
            if (getattr(self, key) is not None) != needed:
                raise ValueError(f"{key}: expected {'a value' if needed else 'none'} with kind {self.kind}")
        if bool(self.regularisation) == (self.kind in _WITHOUT_GRID):
            wanted = "no value" if self.regularisation else "one value or more"
            raise ValueError(f"regularisation: expected {wanted} with kind {self.kind}")
        # Every text has one meaning.
        grammar(self.questions or {})
        return self


class Anchors(Strict):
    """The frozen pair that maps a raw score to [0, 1]: the score of no skill and the perfect score."""

    minimum: Annotated[float, Field(description="the score of no skill or the perfect score, whichever is less")]
    maximum: Annotated[float, Field(description="the other one")]

    @model_validator(mode="after")
    def _ordered(self) -> Anchors:
        if not self.minimum < self.maximum:
            raise ValueError("minimum must be below maximum")
        return self


class SecondaryAxis(Strict):
    """Another axis of which values are held out, shown beside the task's score and never part of the average."""

    ood_axis: Annotated[OODAxis, Field(description="the axis")]
    held_out: Annotated[tuple[Name, ...], Field(description="values of it that take turns at being unseen")]
    layered: Annotated[bool, Field(description="held out together with each value of the task's own axis")] = False

    @model_validator(mode="after")
    def _several(self) -> SecondaryAxis:
        if not 1 < len(self.held_out) == len(set(self.held_out)):
            raise ValueError("held_out: expected two or more distinct values, one to hold out of the others")
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
    shape: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(description="shape of a label that is a tensor or a waveform: antennas and subcarriers, or samples"),
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
        None, BeforeValidator(_now_secondary), Field(exclude=True, description="now an entry of `secondary`")
    ] = None
    secondary: Annotated[
        tuple[SecondaryAxis, ...], Field(description="other axes that are held out, shown beside the task's score")
    ] = ()
    new_holdout_units: Annotated[
        bool, Field(description="HOLDOUT has other units under the same names: no reference has met them")
    ] = False
    k: Annotated[int | None, Field(ge=1, description="k of `TopKAccuracy`; 5 where none is pinned")] = None
    tokenizer: Annotated[
        str | None, Field(description="tokenizer of the caption metrics; `13a-lower` where none is pinned")
    ] = None

    @field_validator("target")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in TARGETS:
            raise ValueError(unknown(value, TARGETS))
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
        if bool(self.shape) != kind.shaped:
            raise ValueError(f"shape: expected {'one' if kind.shaped else 'none'} with target {self.target}")
        kind.check(self)
        if self.new_holdout_units and not kind.enrols:
            raise ValueError(f"new_holdout_units: expected with a target that enrols, not {self.target}")
        axes = (self.ood_axis, *(entry.ood_axis for entry in self.secondary))
        if len(set(axes)) != len(axes):
            raise ValueError("secondary: an axis occurs twice or is ood_axis itself, expected each once")
        metrics = (self.metric, *self.secondary_metrics)
        if len(set(metrics)) != len(metrics):
            raise ValueError("secondary_metrics: a metric occurs twice, expected each once")
        return self


def target_of(spec: TaskSpec) -> Target:
    """The target that a TaskSpec names, with the task's classes and shape."""
    return TARGETS[spec.target](spec.classes, spec.shape)
