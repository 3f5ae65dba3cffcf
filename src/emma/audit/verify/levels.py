"""How far a check of finished results reached, and its verdict: what rests on what, and what could not be checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from emma.audit.verify.base import Outcome


class Level(IntEnum):
    """What was computed again: each level holds those before it.

    CONSISTENT: from predictions, every number, table and figure above them. RESCORED: from embeddings, the predictions.
    REPRODUCED: from the recipe, scenes; from scenes, embeddings; from embeddings, fits; at places that the reader drew.
    """

    CONSISTENT = 1
    RESCORED = 2
    REPRODUCED = 3


_RESTS = {
    Level.CONSISTENT: "every number follows from the predictions, which rest on nothing that was checked",
    Level.RESCORED: "predictions follow from the embeddings through the readouts, and every number from predictions; "
    "that the models give these embeddings was not checked (--deep)",
    Level.REPRODUCED: "scenes follow from the recipe, embeddings from scenes by the models of this checkout, fits from "
    "embeddings, and every number from predictions",
}

#: Of a check that was asked for more: what lies below the predictions was made again, but for what is counted.
_PARTLY = (
    "predictions follow from the embeddings through the readouts, and every number from predictions; scenes and "
    "embeddings were made again but for those that are counted here"
)


class Missed(NamedTuple):
    """Things of one kind that could not be checked.

    ``level``: the lowest level that is not reached without them; None where a higher one makes them again.
    """

    what: str
    number: int
    level: Level | None


def united(missed: Iterable[Missed]) -> tuple[Missed, ...]:
    """The same with one entry a kind, in the order of their first."""
    counts: Counter[tuple[str, Level | None]] = Counter()
    for what, count, level in missed:
        counts[what, level] += count
    return tuple(Missed(what, count, level) for (what, level), count in counts.items())


def told(missed: Iterable[Missed]) -> str:
    """What could not be checked, with the number of each kind, to follow a line; empty for nothing."""
    counted = ", ".join(f"{what} ({number})" for what, number, _ in missed)
    return f"; not checked: {counted}" if counted else ""


@dataclass(frozen=True)
class Verdict:
    """What all checks together say.

    Attributes:
        asked: the level that was asked for.
        faults: the number of faults.
        missed: what could not be checked.
        where: at which places a sample was made again; empty for all, or where none was.
    """

    asked: Level
    faults: int
    missed: tuple[Missed, ...]
    where: str = ""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], asked: Level, where: str = "") -> Verdict:
        """The verdict on the outcomes of every check."""
        outcomes = list(outcomes)
        missed = united(entry for outcome in outcomes for entry in outcome.missed)
        return cls(asked, sum(len(outcome.faults) for outcome in outcomes), missed, where)

    @property
    def reached(self) -> Level:
        """The level that holds, where there is no fault."""
        lacking = [entry.level for entry in self.missed if entry.level is not None]
        return max(min([self.asked, *(Level(max(level - 1, 1)) for level in lacking)]), Level.CONSISTENT)

    @property
    def complete(self) -> bool:
        """Whether everything that the level asked for rests on was checked."""
        return all(entry.level is None or entry.level > self.asked for entry in self.missed)

    @property
    def status(self) -> int:
        """0 verified at the level asked for, 1 faults, 3 not all of it could be checked."""
        return 1 if self.faults else 0 if self.complete else 3

    def __str__(self) -> str:
        """One line: the level, what rests on what, and the number of things that could not be checked."""
        partly = self.asked > self.reached is Level.RESCORED
        rests = f"{self.reached.name.lower()}: {_PARTLY if partly else _RESTS[self.reached]}"
        rests += f"; {self.where}" if self.where and self.reached is Level.REPRODUCED else ""
        if self.faults:
            said = f"{self.faults} {'fault' if self.faults == 1 else 'faults'}"
        elif self.complete:
            said = f"verified, {rests}"
        else:
            said = f"not verified as {self.asked.name.lower()}, only {rests}"
        return said + told(self.missed)
