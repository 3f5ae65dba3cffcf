"""What a task is: names, axes and the pinned declaration of each task (label, readout, metric, protocol, anchors)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TaskID(StrEnum):
    """The tasks of release v0.1, by the names of the protocol."""

    E_LOC_AOA = "E-LOC-AOA"
    E_LOC_LOS = "E-LOC-LOS"
    E_ID_DRONE = "E-ID-DRONE"
    E_ID_FP = "E-ID-FP"
    E_ID_AMC = "E-ID-AMC"


class OODAxis(StrEnum):
    """The controlled dimension that a protocol holds out; the value is the scene column that carries it."""

    ENVIRONMENT = "environment"
    DEVICE = "device"
    FREQUENCY_BAND = "frequency_band"
    SNR_REGIME = "snr_regime"


class Split(StrEnum):
    """TRAIN is fit on, DEV is scored in public runs, HOLDOUT in official runs that know the secret seed."""

    TRAIN = "TRAIN"
    DEV = "DEV"
    HOLDOUT = "HOLDOUT"


#: A name that folders and layered folds (``environment+band``) can carry.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]

#: Metrics that the scores of each readout can be measured by.
_METRICS = {
    "ridge_angle": ("MeanAngularError",),
    "logistic": ("BalancedAccuracy", "PlainAccuracy", "Top1Accuracy", "AUC"),
    "discriminant": ("BalancedAccuracy", "PlainAccuracy", "Top1Accuracy", "EER"),
}


class Strict(BaseModel):
    """Base of every validated record: unknown keys, NaN, infinity and changes after construction are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ReadoutSpec(Strict):
    """The pinned head of a task: what is fit on frozen embeddings, and how large it may be.

    ``regularisation`` is the L2 weight on the mean loss (ridge, logistic), or the share of the within-class scatter
    replaced by a multiple of the identity (discriminant). Standardisation uses the fit's own TRAIN scenes.
    """

    kind: Literal["ridge_angle", "logistic", "discriminant"]
    regularisation: Annotated[float, Field(gt=0)]
    class_balanced: bool = False
    max_embedding_dim: Annotated[int, Field(ge=1)] = 2048
    max_parameters: Annotated[int, Field(ge=1)]


class Anchors(Strict):
    """The frozen pair that maps a raw score to [0, 1]: the score of no skill and the perfect score."""

    minimum: float
    maximum: float

    @model_validator(mode="after")
    def _ordered(self) -> Anchors:
        if not self.minimum < self.maximum:
            raise ValueError("minimum must be below maximum")
        return self


class TaskSpec(Strict):
    """The pinned declaration of one task.

    ``label`` is the scene column that carries the target: degrees for ``ridge_angle``, else a name out of ``classes``
    (for a two-class task the last class is the positive one). ``held_out`` lists the axis values that take turns at
    being unseen; ``in_ood_avg`` says whether the score enters the OOD average.
    """

    label: Literal["label_azimuth_deg", "label_class"]
    classes: tuple[str, ...] = ()
    readout: ReadoutSpec
    metric: str
    unit: str
    secondary_metrics: tuple[str, ...] = ()
    ood_axis: OODAxis
    held_out: tuple[Name, ...]
    in_ood_avg: bool
    anchors: Anchors
    layered_band: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> TaskSpec:
        if len(set(self.held_out)) < 2 or len(set(self.held_out)) != len(self.held_out):
            raise ValueError("held_out: expected two or more distinct values, one to hold out of the others")
        is_angle = self.label == "label_azimuth_deg"
        if is_angle != (self.readout.kind == "ridge_angle") or is_angle != (not self.classes):
            raise ValueError("classes: expected with label_class alone; an angle takes readout.kind ridge_angle")
        if not is_angle and (len(set(self.classes)) < 2 or len(set(self.classes)) != len(self.classes)):
            raise ValueError("classes: expected two or more distinct names")
        if self.readout.kind == "discriminant" and (
            self.ood_axis is not OODAxis.DEVICE or self.classes != self.held_out
        ):
            raise ValueError(
                "readout.kind: discriminant enrols devices, so ood_axis is device and classes equals held_out"
            )
        if self.layered_band and not 1 < len(self.layered_band) == len(set(self.layered_band)):
            raise ValueError("layered_band: expected no band, or two or more distinct ones")
        metrics = (self.metric, *self.secondary_metrics)
        if odd := [metric for metric in metrics if metric not in _METRICS[self.readout.kind]]:
            expected = ", ".join(_METRICS[self.readout.kind])
            raise ValueError(f"metric: {odd[0]} does not measure a {self.readout.kind} readout, expected {expected}")
        if len(set(metrics)) != len(metrics):
            raise ValueError("secondary_metrics: a metric stands twice, expected each once")
        if self.readout.kind == "discriminant" and self.readout.regularisation > 1:
            raise ValueError("readout.regularisation: expected a share, at most 1")
        return self
