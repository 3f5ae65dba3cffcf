"""The guards of a fold: train and eval scenes are those that the protocol and the manifest allow, and no others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.errors import InputError
from emma.data.enrolment import check_enrolment
from emma.data.folds import Fold, SplitNotAvailable, fold_table, split_of
from emma.data.protocols import OODProtocol
from emma.data.tables import rows_of
from emma.tasks import Split, TaskSpec, target_of


def guard_fold(protocol: OODProtocol, fold: Fold, train_index: pa.Table, eval_index: pa.Table) -> None:
    """Refuse a fold whose scenes are not those that the protocol and the manifest's assignments allow.

    Args:
        protocol: the protocol under which the fold is said to be.
        fold: the fold as it would be fit and scored.
        train_index: the frozen index of TRAIN, checked against the manifest.
        eval_index: the frozen index of the evaluation split, checked against the manifest.

    Raises:
        SplitNotAvailable: the fold is another protocol's, or a side draws from a split that is not its own; a scene
            is not assigned to its side's split, is on the wrong side of the held-out value, or is on both sides by id,
            by samples or by propagation link; a scene of the protocol's is missing or occurs twice; the fit scenes of
            a reference are not those that its seed draws, or not as many as its fold has; a label, session or role is
            not the one that index and protocol give it.
    """
    where = f"fold {fold.protocol} {fold.held_out_value}"
    sides: Mapping[str, tuple[pa.Table, pa.Table]] = {
        "train": (fold.train, train_index),
        "eval": (fold.eval, eval_index),
    }
    if fold.protocol != protocol.name or fold.held_out_value not in protocol.eval_values():
        raise SplitNotAvailable(f"{where}: expected a fold of {protocol.name}")
    rows = {}
    for side, (table, index) in sides.items():
        # Two indexes in each other's place agree with a fold made of them, though not with what their scenes say.
        splits = set(index["split"].unique().to_pylist())
        allowed = {Split.TRAIN.value} if side == "train" else {Split.DEV.value, Split.HOLDOUT.value}
        if len(splits) > 1 or not splits <= allowed:
            raise SplitNotAvailable(f"{where}: {side} draws from {', '.join(sorted(splits))}")
        try:
            rows[side] = index.take(pa.array(rows_of(index["scene_id"], table["scene_id"], where)))
        except InputError as error:
            raise SplitNotAvailable(f"{error}: not assigned to the split that {side} draws from") from None
    if not protocol.train_mask(rows["train"], fold.held_out_value, split_of(eval_index)).all():
        raise SplitNotAvailable(f"{where}: a train scene carries the held-out value")
    queries = np.asarray(fold.eval["role"].to_pylist()) == "query"
    if not protocol.eval_mask(rows["eval"], fold.held_out_value)[queries].all():
        raise SplitNotAvailable(f"{where}: an eval scene does not carry the held-out value")
    for column, what in (("scene_id", "scene"), ("iq_sha256", "samples"), ("link_id", "propagation link")):
        shared = pc.is_in(rows["eval"][column], value_set=rows["train"][column].combine_chunks().drop_null())
        if pc.any(shared).as_py():
            raise SplitNotAvailable(f"{where}: {column}: train and eval share a {what}")
    _guard_content(protocol, fold, rows, (train_index, eval_index))


def _guard_content(
    protocol: OODProtocol, fold: Fold, rows: Mapping[str, pa.Table], assigned: tuple[pa.Table, pa.Table]
) -> None:
    """Refuse a fold that is not all that the protocol makes of the indexes, or has other labels, sessions or roles."""
    where = f"fold {fold.protocol} {fold.held_out_value}"
    roles = {"train": fold.train["role"].to_pylist(), "eval": fold.eval["role"].to_pylist()}
    for side, table in {"train": fold.train, "eval": fold.eval}.items():
        if not fold_table(protocol.spec, rows[side], np.array(roles[side], str)).equals(table):
            raise SplitNotAvailable(f"{where}: {side}: order, session, target or turn differ from the split's index")
    value = fold.held_out_value
    fit_size = protocol.fit_size(assigned[0], value, split_of(assigned[1]))
    expected = fit_size, int(protocol.eval_mask(assigned[1], value).sum())
    actual = len(set(fold.train["scene_id"].to_pylist())), int(protocol.eval_mask(rows["eval"], value).sum())
    if (fold.train.num_rows, *actual) != (actual[0], *expected):
        raise SplitNotAvailable(f"{where}: scenes are missing or occur twice, expected every scene of the value once")
    _guard_draw(where, protocol, fold, assigned)
    enrol = np.array(roles["eval"], str) == "enrol"
    if set(roles["train"]) - {"fit"} or set(roles["eval"]) - {"enrol", "query"}:
        raise SplitNotAvailable(f"{where}: role: expected fit in train, query or enrol in eval")
    enrols = target_of(protocol.spec).enrols
    if not enrols and enrol.any():
        raise SplitNotAvailable(f"{where}: role: enrol, expected query alone for this task")
    if (enrol & protocol.eval_mask(rows["eval"], value)).any():
        raise SplitNotAvailable(f"{where}: role: enrol, expected query for every capture that has the held-out value")
    if enrols:
        _guard_enrolment(where, protocol.spec, rows["eval"], ~enrol, assigned[1])
    reason = protocol.undefined_reason(fold)
    if reason != fold.undefined_reason:
        raise SplitNotAvailable(f"{where}: undefined_reason: {fold.undefined_reason}, expected {reason}")


def _guard_draw(where: str, protocol: OODProtocol, fold: Fold, assigned: tuple[pa.Table, pa.Table]) -> None:
    """Refuse fit scenes that are not exactly those that protocol and seed draw, and a draw where none is made."""
    if (fold.draw_seed is None) != (protocol.axis is not None):
        expected = "none" if fold.draw_seed is not None else "the seed that drew the fit scenes"
        raise SplitNotAvailable(f"{where}: draw_seed: {fold.draw_seed}, expected {expected}")
    index, split = assigned[0], split_of(assigned[1])
    mask = protocol.fit_mask(index, fold.held_out_value, fold.draw_seed, split)
    drawn = index["scene_id"].filter(pa.array(mask))
    if set(drawn.to_pylist()) != set(fold.train["scene_id"].to_pylist()):
        raise SplitNotAvailable(f"{where}: train: other scenes than seed {fold.draw_seed} draws")


def _guard_enrolment(where: str, spec: TaskSpec, rows: pa.Table, queries: NDArray[np.bool_], index: pa.Table) -> None:
    """Refuse an evaluation side that lacks a capture, or of which not every session can enrol while others query."""
    if rows.num_rows != index.num_rows:
        raise SplitNotAvailable(f"{where}: scenes are missing, expected every evaluation capture of every unit")
    try:
        check_enrolment(rows, spec.classes, queries)
    except InputError as error:
        raise SplitNotAvailable(f"{where}: {error}") from None
