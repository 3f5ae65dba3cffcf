"""Folds: the scenes that a readout is fit on and those that it is scored on, as tables with roles and targets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.errors import InputError
from emma.data.tables import metadata_of, read_table, unique_ids, write_table
from emma.tasks import TaskSpec, target_of

#: One row per scene of a fold. ``role``: fit, query (scored) or enrol (gallery). ``session``: the bootstrap's unit,
#: where captures of one session are alike. ``target``: degrees, or the index of the class in the TaskSpec.
FOLD_SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("session", pa.string()),
        pa.field("target", pa.float64(), nullable=False),
    ]
)


class SplitNotAvailable(InputError):  # noqa: N818 (the protocol's own name)
    """A fold whose train and eval scenes are not what the protocol and the manifest allow; it is never scored."""


@dataclass(frozen=True)
class Fold:
    """One fold: FOLD_SCHEMA tables of fit scenes and of evaluation scenes, and why it is undefined, if it is.

    ``eval_split``: the split that it is scored on; ``enrolment_seed``: what drew its gallery, where it has one.
    """

    protocol: str
    held_out_value: str
    train: pa.Table
    eval: pa.Table
    undefined_reason: str | None = None
    eval_split: str | None = None
    enrolment_seed: int | None = None

    @property
    def queries(self) -> pa.Table:
        """The evaluation scenes that are scored."""
        return self.eval.filter(pc.equal(self.eval["role"], "query"))


class FoldFacts(Protocol):
    """What is known of a fold before and after its fit."""

    @property
    def eval_split(self) -> str | None:
        """The split that it is scored on."""

    @property
    def enrolment_seed(self) -> int | None:
        """What drew its gallery, where it has one."""

    @property
    def undefined_reason(self) -> str | None:
        """Why it cannot be scored, if it cannot."""


def fold_table(spec: TaskSpec, index: pa.Table, roles: NDArray[np.str_]) -> pa.Table:
    """A FOLD_SCHEMA table of index rows, in scene-id order."""
    kind = target_of(spec)
    if kind.column not in index.column_names:
        raise InputError(f"{kind.column}: column missing, expected scenes of the task with their labels")
    target = kind.encode(index[kind.column])
    if target.null_count:
        raise InputError(f"{kind.column}: a scene without a label of the task, expected one for every scene")
    session = kind.groups(index)
    table = pa.table([index["scene_id"], pa.array(roles, pa.string()), session, target], schema=FOLD_SCHEMA)
    return table.sort_by("scene_id")


def fold_metadata(fold: FoldFacts, data_release_hash: str) -> dict[str, str]:
    """What the schema metadata of a fold's files says: release, evaluation split, enrolment seed, why undefined."""
    facts = {
        "data_release_hash": data_release_hash,
        "eval_split": fold.eval_split,
        "enrolment_seed": fold.enrolment_seed,
        "undefined_reason": fold.undefined_reason,
    }
    return {key: str(fact) for key, fact in facts.items() if fact is not None}


def write_side(path: str | Path, fold: Fold, side: Literal["train", "eval"], data_release_hash: str) -> None:
    """Write one side of a fold with its name and what ``fold_metadata`` says of it."""
    naming = {"protocol": fold.protocol, "held_out_value": fold.held_out_value}
    table = fold.train if side == "train" else fold.eval
    write_table(path, table, naming | fold_metadata(fold, data_release_hash))


def read_side(path: str | Path, protocol: str, held_out_value: str, data_release_hash: str) -> pa.Table:
    """Read one side that ``write_side`` wrote.

    Raises:
        InputError: a broken file.
        SplitNotAvailable: another fold's, or one of another release.
    """
    table = read_table(path, FOLD_SCHEMA)
    metadata = metadata_of(table)
    if (metadata.get("protocol"), metadata.get("held_out_value")) != (protocol, held_out_value):
        actual = f"{metadata.get('protocol')} {metadata.get('held_out_value')}"
        raise SplitNotAvailable(f"{path}: fold {actual}, expected {protocol} {held_out_value}")
    if metadata.get("data_release_hash") != data_release_hash:
        raise SplitNotAvailable(f"{path}: data_release_hash: expected {data_release_hash}, that of the release")
    unique_ids(path, table["scene_id"])
    return table


def read_fold(
    train: str | Path, evaluation: str | Path, protocol: str, held_out_value: str, data_release_hash: str
) -> Fold:
    """Read the sides that ``write_side`` wrote; raises what ``read_side`` raises."""
    place = (protocol, held_out_value)
    sides = read_side(train, *place, data_release_hash), read_side(evaluation, *place, data_release_hash)
    metadata = metadata_of(sides[1])
    seed = metadata.get("enrolment_seed")
    if seed is not None and not (seed.isascii() and seed.isdecimal()):
        raise InputError(f"{evaluation}: enrolment_seed: {seed}, expected a number of 0 or more")
    if differing := {*metadata.items()} ^ {*metadata_of(sides[0]).items()}:
        raise InputError(f"{train}: {min(differing)[0]}: differs from {evaluation}, expected the same on both sides")
    drawn = None if seed is None else int(seed)
    return Fold(*place, *sides, metadata.get("undefined_reason"), metadata.get("eval_split"), drawn)
