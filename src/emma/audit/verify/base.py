"""What a check of finished results is, and how a difference is said."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pydantic import BaseModel

from common.errors import InputError
from emma.audit.verify.levels import Level, Missed, told, united

if TYPE_CHECKING:
    from emma.audit.verify.results import Results

#: Relative difference that a number may have when it is computed again: from predictions, and from other numbers.
RESCORED, AGGREGATED = 1e-9, 1e-12

#: Differences of one document that are listed one by one.
_LISTED = 8


@dataclass(frozen=True)
class Outcome:
    """What one check found: how many things it looked at, every fault (path first), and what it could not look at.

    ``blocked``: things that a fault named by an earlier check kept from being checked. ``missed``: what was not there.
    """

    name: str
    checked: int
    faults: tuple[str, ...]
    note: str
    blocked: int = 0
    missed: tuple[Missed, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    def __str__(self) -> str:
        """One line, and one more per fault."""
        state = "FAULT" if self.faults else "part" if self.blocked else "ok"
        line = f"{state:6}{self.name}: {self.checked} checked" + (f"; {self.note}" if self.note else "")
        line += told(self.missed)
        line += f"; {self.blocked} not checked for faults named above" if self.blocked else ""
        return "\n".join([line, *(f"      {fault}" for fault in self.faults)])


class Check(ABC):
    """One thing that must hold of finished results; ``run`` looks at all of it and collects every fault."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.checked, self.note = 0, ""
        self.faults: list[str] = []
        self.missed: list[Missed] = []

    @abstractmethod
    def run(self, results: Results) -> None:
        """Look at everything that this check is about."""

    def fault(self, path: str | Path, message: str) -> None:
        """Record a fault of the file at ``path``."""
        self.faults.append(f"{path}: {' '.join(message.split())}")

    def miss(self, what: str, level: Level | None = None, number: int = 1) -> None:
        """Count things that cannot be checked; see ``Missed``."""
        self.missed.append(Missed(what, number, level))

    def compare(self, path: str | Path, actual: Any, expected: Any, tolerance: float = 0.0) -> None:
        """Record where a JSON value, or a record, differs from what was computed again."""
        actual, expected = plain(actual), plain(expected)
        listed = list(itertools.islice(differences(actual, expected, tolerance), _LISTED + 1))
        for message in listed[:_LISTED]:
            self.fault(path, message)
        if len(listed) > _LISTED:
            self.fault(path, "and more differences")

    @contextlib.contextmanager
    def item(self, path: str | Path) -> Iterator[None]:
        """Count one thing looked at; an error within is a fault, and the next thing is looked at all the same."""
        self.checked += 1
        try:
            yield
        except InputError as error:
            self.faults.append(" ".join(str(error).split()))
        except (ValueError, ArithmeticError, LookupError, TypeError, OSError, pa.ArrowException) as error:
            self.fault(path, f"cannot be checked ({type(error).__name__}: {str(error)[:200]})")

    def outcome(self, known: set[str]) -> Outcome:
        """The outcome; faults that an earlier check has named are counted, not repeated."""
        new = tuple(dict.fromkeys(fault for fault in self.faults if fault not in known))
        return Outcome(self.name, self.checked, new, self.note, len(set(self.faults) & known), united(self.missed))


def differences(actual: Any, expected: Any, tolerance: float = 0.0, field: str = "") -> Iterator[str]:
    """Where two JSON values differ: ``field: expected ..., found ...``.

    Args:
        actual: the value as written.
        expected: the value as computed again.
        tolerance: relative difference that two numbers may have; 0 for none.
        field: the dotted place of the values in their document.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in dict.fromkeys([*expected, *actual]):
            where = f"{field}.{key}" if field else str(key)
            if key not in actual:
                yield f"{where}: missing, expected {shown(expected[key])}"
            elif key not in expected:
                yield f"{where}: not expected, found {shown(actual[key])}"
            else:
                yield from differences(actual[key], expected[key], tolerance, where)
    elif _is_list(expected) and _is_list(actual) and len(expected) == len(actual):
        for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
            yield from differences(one, other, tolerance, f"{field}[{number}]")
    elif not _same(actual, expected, tolerance):
        yield f"{field or 'content'}: expected {shown(expected)}, found {shown(actual)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _same(actual: Any, expected: Any, tolerance: float) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (actual, expected))
    if numbers:
        return bool(actual == expected or math.isclose(actual, expected, rel_tol=tolerance, abs_tol=tolerance * 1e-3))
    return type(actual) is type(expected) and bool(actual == expected)


def plain(value: Any) -> Any:
    """A JSON value; records in it, also as values of mappings, are written out."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return {key: plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def shown(value: Any) -> str:
    """A value in a few characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
