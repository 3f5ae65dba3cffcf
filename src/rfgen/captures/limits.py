"""Types of the fields of matched and surrogate sets: each number within what hardware and air allow."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from rfgen.physics.fields import _as_tuple, _ordered

Hertz = Annotated[float, Field(ge=1.0, le=1e12)]
Seconds = Annotated[float, Field(ge=1e-12, le=1e3)]
Shift = Annotated[float, Field(ge=-1e12, le=1e12)]
Ratio = Annotated[float, Field(ge=-200.0, le=200.0)]
Spread = Annotated[float, Field(ge=0.0, le=60.0)]
Angle = Annotated[float, Field(ge=-360.0, le=360.0)]
Deviation = Annotated[float, Field(ge=0.0, le=360.0)]
Wavelengths = Annotated[float, Field(gt=0.0, le=1e4)]
Portion = Annotated[float, Field(ge=0.0, le=1.0)]
_Time = Annotated[float, Field(ge=0.0, le=1e3)]
_Number = Annotated[float, Field(ge=0.0, le=1e6)]
_Parts = Annotated[float, Field(ge=-1e4, le=1e4)]

Samples = Annotated[int, Field(ge=1, le=2**24)]
Elements = Annotated[int, Field(ge=1, le=4096)]
Scenes = Annotated[int, Field(ge=1, le=10**7)]

Decibels = Annotated[tuple[Ratio, Ratio], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Angles = Annotated[tuple[Angle, Angle], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Shifts = Annotated[tuple[Shift, Shift], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Delays = Annotated[tuple[_Time, _Time], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Durations = Annotated[tuple[Seconds, Seconds], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Frequencies = Annotated[tuple[Hertz, Hertz], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Numbers = Annotated[tuple[_Number, _Number], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
Portions = Annotated[tuple[Portion, Portion], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
PartsPerMillion = Annotated[tuple[_Parts, _Parts], BeforeValidator(_as_tuple), AfterValidator(_ordered)]
