"""Names that every stage shares: tasks, axes, splits, and the base of validated records."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class TaskID(StrEnum):
    """The tasks, by the names of the protocol."""

    E_LOC_AOA = "E-LOC-AOA"
    E_LOC_LOS = "E-LOC-LOS"
    E_ID_DRONE = "E-ID-DRONE"
    E_ID_FP = "E-ID-FP"
    E_ID_AMC = "E-ID-AMC"
    E_SC_SENSE = "E-SC-SENSE"
    E_SC_ANOM = "E-SC-ANOM"
    E_SC_SEP = "E-SC-SEP"
    E_CH_BEAM = "E-CH-BEAM"
    E_CH_CSI = "E-CH-CSI"
    E_S2T_CAP = "E-S2T-CAP"
    E_S2T_QA = "E-S2T-QA"


class OODAxis(StrEnum):
    """The controlled dimension that a protocol holds out; the value is the scene column that carries it."""

    ENVIRONMENT = "environment"
    DEVICE = "device"
    FREQUENCY_BAND = "frequency_band"
    SNR_REGIME = "snr_regime"
    WAVEFORM = "waveform"
    RECEIVER = "receiver"


class Split(StrEnum):
    """TRAIN is fit on, DEV is scored in public runs, HOLDOUT in official runs that know the secret seed."""

    TRAIN = "TRAIN"
    DEV = "DEV"
    HOLDOUT = "HOLDOUT"


#: A name that folders and layered folds (``environment+band``) can carry.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Strict(BaseModel):
    """Base of every validated record: unknown keys, NaN, infinity and changes after construction are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
