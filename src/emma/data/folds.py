"""Folds: the scenes that a readout is fit on and those that it is scored on, as tables with roles and targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.errors import InputError
from emma.data.enrolment import session_turns
from emma.data.tables import metadata_of, open_parquet, read_table, unique_ids, write_table
from emma.tasks import TARGETS, Target, TaskSpec, target_of

#: One row per scene of a fold. ``role``: fit, query (scored) or enrol (gallery alone). ``session``: the bootstrap's
#: unit, where captures of one session are alike. ``target``: degrees, the index of the class in the TaskSpec, or what
#: else the task's target encodes (``typed``).
#: ``turn``: where units are enrolled, the turn in which the session of an evaluation capture enrols its unit, whatever
#: the role.
FOLD_SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("session", pa.string()),
        pa.field("target", pa.float64(), nullable=False),
        pa.field("turn", pa.int32()),
    ]
)


#: Columns whose type is the target's own, and the attribute that names it.
_TYPED = {"target": "encoded_type", "scores": "score_type"}


def typed(schema: pa.Schema, target: Target) -> pa.Schema:
    """A schema whose columns ``target`` and ``scores`` are of the target's types."""
    return _retyped(schema, {column: getattr(target, attribute) for column, attribute in _TYPED.items()})


def stored_schema(path: str | Path, schema: pa.Schema) -> pa.Schema:
    """The schema with the types of ``target`` and ``scores`` that a file has, where they are those of some target."""
    with open_parquet(path) as file:
        found = {field.name: field.type for field in file.schema_arrow}
    own = {
        column: found[column]
        for column, attribute in _TYPED.items()
        if any(found.get(column) == getattr(target, attribute) for target in TARGETS.values())
    }
    return _retyped(schema, own)


def _retyped(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    for column, kind in types.items():
        if (place := schema.get_field_index(column)) >= 0:
            schema = schema.set(place, schema.field(place).with_type(kind))
    return schema


class SplitNotAvailable(InputError):  # noqa: N818 (the protocol's own name)
    """A fold whose train and eval scenes are not what the protocol and the manifest allow; it is never scored."""


@dataclass(frozen=True)
class Fold:
    """One fold: FOLD_SCHEMA tables of fit scenes and of evaluation scenes, and why it is undefined, if it is.

    ``eval_split``: the split that it is scored on; ``draw_seed``: what drew its fit scenes, where they are drawn.
    """

    protocol: str
    held_out_value: str
    train: pa.Table
    eval: pa.Table
    undefined_reason: str | None = None
    eval_split: str | None = None
    draw_seed: int | None = None

    @property
    def queries(self) -> pa.Table:
        """What is predicted: see ``queries_of``."""
        return queries_of(self.eval)


class FoldFacts(Protocol):
    """What is known of a fold before and after its fit."""

    @property
    def eval_split(self) -> str | None:
        """The split that it is scored on."""

    @property
    def draw_seed(self) -> int | None:
        """What drew its fit scenes, where they are drawn."""

    @property
    def undefined_reason(self) -> str | None:
        """Why it cannot be scored, if it cannot."""


def split_of(index: pa.Table) -> str | None:
    """The one split of an index; None where it is empty."""
    return str(index["split"][0]) if index.num_rows else None


def fold_table(spec: TaskSpec, index: pa.Table, roles: NDArray[np.str_]) -> pa.Table:
    """A FOLD_SCHEMA table of index rows, with the task's type of target, in scene-id order."""
    kind = target_of(spec)
    if kind.column not in index.column_names:
        raise InputError(f"{kind.column}: column missing, expected scenes of the task with their labels")
    target = kind.encode(index[kind.column])
    if target.null_count:
        raise InputError(f"{kind.column}: a scene without a label of the task, expected one for every scene")
    session = kind.groups(index)
    turn = pa.nulls(index.num_rows, pa.int32())
    if kind.enrols and "fit" not in roles:
        units, sessions = (np.asarray(column.to_pylist(), str) for column in (index[kind.column], session))
        turn = pa.array(session_turns(units, sessions), pa.int32())
    table = pa.table(
        [index["scene_id"], pa.array(roles, pa.string()), session, target, turn],
        schema=typed(FOLD_SCHEMA, kind),
    )
    return table.sort_by("scene_id")


def queries_of(evaluation: pa.Table) -> pa.Table:
    """The rows that are predicted of a fold's evaluation side, in the order of scenes and turns.

    One per scene with role ``query``; where units are enrolled, one per such scene and turn in which another session
    than its own enrols its unit.

    Returns:
        columns ``scene_id``, ``session``, ``target`` and ``turn``, null where nothing is enrolled.
    """
    asked = evaluation.filter(pc.equal(evaluation["role"], "query")).drop_columns("role")
    if asked["turn"].null_count or not asked.num_rows:
        return asked
    turns = np.unique(np.asarray(evaluation["turn"]))
    scene, turn = np.repeat(np.arange(asked.num_rows), len(turns)), np.tile(turns, asked.num_rows)
    other = np.asarray(asked["turn"])[scene] != turn
    rows = asked.take(pa.array(scene[other]))
    return rows.set_column(rows.schema.get_field_index("turn"), "turn", pa.array(turn[other], pa.int32()))


def row_keys(table: pa.Table) -> pa.ChunkedArray:
    """What tells the rows of queries or predictions apart: the scene's id, and the turn after it where there is one."""
    turned = pc.binary_join_element_wise(table["scene_id"], pc.cast(table["turn"], pa.string()), " turn ")
    return pc.coalesce(turned, table["scene_id"])


def fold_metadata(fold: FoldFacts, data_release_hash: str) -> dict[str, str]:
    """What the schema metadata of a fold's files says: release, evaluation split, seed of a draw, why undefined."""
    facts = {
        "data_release_hash": data_release_hash,
        "eval_split": fold.eval_split,
        "draw_seed": fold.draw_seed,
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
    table = read_table(path, stored_schema(path, FOLD_SCHEMA))
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
    seed = metadata.get("draw_seed")
    if seed is not None and not (seed.isascii() and seed.isdecimal()):
        raise InputError(f"{evaluation}: draw_seed: {seed}, expected a number of 0 or more")
    if differing := {*metadata.items()} ^ {*metadata_of(sides[0]).items()}:
        raise InputError(f"{train}: {min(differing)[0]}: differs from {evaluation}, expected the same on both sides")
    drawn = None if seed is None else int(seed)
    return Fold(*place, *sides, metadata.get("undefined_reason"), metadata.get("eval_split"), drawn)
