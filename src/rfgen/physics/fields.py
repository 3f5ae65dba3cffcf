"""Types of a recipe's fields: strict numbers, ordered ranges, names; and the base of its models."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def _ordered(value: tuple[float, float]) -> tuple[float, float]:
    if not all(map(math.isfinite, value)) or value[0] > value[1]:
        raise ValueError("expected two finite numbers, the lower first")
    return value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(gt=0)]
Range = Annotated[tuple[float, float], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Counts = Annotated[tuple[Count, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Rates = Annotated[tuple[Positive, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Offsets = Annotated[tuple[float, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class Model(BaseModel):
    """A frozen mapping of a recipe: unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
