"""The reference symbol of scenes: an OFDM symbol that a receiver knows, in the scene file's schema metadata.

Its values may be dealt out to several symbols, of which each has a comb of known carriers and unknown data between.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from common.errors import InputError
from common.files import parse, parse_json
from common.hashing import canonical_json
from emma.tasks import Strict

#: Sample of the scene at which the symbol's body starts, after its prefix, for a path without delay.
REFERENCE_START = pa.field("reference_start", pa.int64())

_KEY = "reference"
_Number = Annotated[float, Field(ge=-1e6, le=1e6)]


class Reference(Strict):
    """What a receiver knows of the reference symbol.

    Attributes:
        size: samples of its body, the size of the FFT.
        prefix: samples of the cyclic prefix before it.
        carriers: numbers of the carriers in use, in order of frequency; 0 is DC.
        values: what they carry, pairs of real and imaginary part.
        combs: symbols in a row, of which the i-th carries the values from the i-th on, every one in so many.
    """

    size: Annotated[int, Field(ge=2, le=1 << 16)]
    prefix: Annotated[int, Field(ge=0, le=1 << 16)]
    carriers: Annotated[tuple[int, ...], Field(min_length=1, max_length=1 << 16)]
    values: Annotated[tuple[tuple[_Number, _Number], ...], Field(min_length=1, max_length=1 << 16)]
    combs: Annotated[int, Field(ge=1, le=1 << 16)] = 1

    @model_validator(mode="after")
    def _one_value_each(self) -> Reference:
        if len(self.values) != len(self.carriers) or (0.0, 0.0) in self.values:
            raise ValueError("values: expected one for each carrier, none of them zero")
        low, high = self.carriers[0], self.carriers[-1]
        if list(self.carriers) != sorted(set(self.carriers)) or low < -self.size // 2 or high >= self.size / 2:
            raise ValueError("carriers: expected numbers of an FFT of this size, in order of frequency, each once")
        if self.combs > len(self.carriers):
            raise ValueError("combs: expected at most as many as there are carriers")
        return self

    @property
    def sent(self) -> NDArray[np.complex128]:
        """The values as complex numbers ``[carriers]``."""
        sent: NDArray[np.complex128] = np.array(self.values) @ np.array([1, 1j])
        return sent

    def last_start(self, samples: int) -> int:
        """The last sample at which the body of the first symbol may start, for all to lie in so many samples."""
        return samples - self.size - (self.combs - 1) * (self.size + self.prefix)

    @property
    def metadata(self) -> dict[str, str]:
        """Entry of a scene file's schema metadata: canonical JSON, which says nothing of a single symbol's comb."""
        return {_KEY: canonical_json(self.model_dump(mode="json", exclude_defaults=True)).decode()}

    @classmethod
    def of(cls, known: Mapping[str, Any] | None) -> Reference | None:
        """The record of what a generator says of its symbol; None of None, InputError where it is no such mapping."""
        return None if known is None else parse(cls, known, _KEY)


def reference_of(schema: pa.Schema, path: str | Path = "scenes") -> Reference | None:
    """The reference symbol of scenes by their table's schema; None where they carry none, InputError if broken."""
    text = (schema.metadata or {}).get(_KEY.encode())
    return None if text is None else parse(Reference, parse_json(text, f"{path}: {_KEY}"), f"{path}: {_KEY}")


def with_reference(recipe: Mapping[str, Any]) -> list[str]:
    """Names of the tasks whose scenes carry a reference symbol by a release's ``rfgen`` mapping."""
    tasks = recipe.get("tasks")
    known = tasks.items() if isinstance(tasks, Mapping) else ()
    return [name for name, task in known if isinstance(task, Mapping) and task.get("reference")]


def check_start(path: str | Path, columns: Mapping[str, Any], reference: Reference | None) -> None:
    """InputError where scenes have a reference without the column of its start, or the column without one."""
    if (REFERENCE_START.name in columns) != (reference is not None):
        raise InputError(f"{path}: {REFERENCE_START.name}: expected with a reference symbol, and only then")
