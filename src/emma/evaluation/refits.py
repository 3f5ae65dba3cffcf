"""Refits: what a fold would have predicted without each fifth of its fit scenes, for the fit's part of an interval.

A grouped delete-a-group jackknife (Shao and Tu, "The Jackknife and Bootstrap", Springer 1995, section 2.3): the fifths
are dealt out over the whole TRAIN split of a task, so that fifth i is the same scenes in every fold and every model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.errors import InputError
from common.hashing import table_hash
from emma.data.draws import link_groups
from emma.data.embeddings import Embeddings
from emma.data.folds import Fold, stored_schema, typed
from emma.data.tables import check_entries, metadata_of, read_table
from emma.evaluation.prediction import enrol, query_scores
from emma.readouts import Readout
from emma.readouts.base import Features
from emma.readouts.selection import grouped_parts
from emma.tasks import TaskSpec, target_of

#: The file of a fold's refits, beside its predictions.
REFITS_NAME = "refits.parquet"

#: Groups of fit scenes that are left out in turn.
FIFTHS = 5

#: Turns of enrolment that refits predict: a refit's deviation shows in a few turns as it does in all.
REFIT_TURNS = 4

#: One row per refit and scored scene (and turn). ``without``: the fifth that the refit did not see, 0 to 4.
REFIT_SCHEMA = pa.schema(
    [
        pa.field("without", pa.int8(), nullable=False),
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32()),
        pa.field("scores", pa.list_(pa.float64()), nullable=False),
    ]
)


def fifths(spec: TaskSpec, train_index: pa.Table) -> NDArray[np.int64]:
    """The fifth ``[rows]`` of each scene of a TRAIN index with labels; links and sessions are never torn."""
    target = target_of(spec)
    encoded = target.numbers(target.encode(train_index[target.column]))
    return grouped_parts(link_groups(train_index), target.strata(encoded), FIFTHS)


def refit_fold(
    spec: TaskSpec,
    readout: Readout,
    fold: Fold,
    fit: tuple[Features, Any, NDArray[np.int64]],
    embeddings: Embeddings,
) -> pa.Table:
    """Fit a fold's readout anew without each fifth, at the regularisation that the fold chose, and predict.

    Args:
        spec: the task's pinned declaration.
        readout: the fold's own, fitted.
        fold: the fold, past its guards.
        fit: features ``[N, D]``, encoded labels ``[N]`` and fifths ``[N]`` of the fit scenes.
        embeddings: the model's embeddings of the task.

    Returns:
        a table of REFIT_SCHEMA; without rows for a task outside the OOD average, whose intervals show the scenes alone.
    """
    if not spec.in_ood_avg or fold.undefined_reason is not None:
        return REFIT_SCHEMA.empty_table()
    features, target, part = fit
    evaluation, queries = fold.eval, fold.queries
    if target_of(spec).enrols:
        evaluation, queries = (side.filter(pc.less(side["turn"], REFIT_TURNS)) for side in (evaluation, queries))
    tables = []
    for fifth in range(FIFTHS):
        refit = readout.without(features, target, part != fifth)
        enrol(spec, refit, evaluation, embeddings)
        scores = refit.target.stored(query_scores(refit, embeddings, queries))
        without = pa.array(np.full(queries.num_rows, fifth), pa.int8())
        schema = typed(REFIT_SCHEMA, refit.target)
        tables.append(pa.table([without, queries["scene_id"], queries["turn"], scores], schema=schema))
    return pa.concat_tables(tables)


def read_refits(path: str | Path, data_release_hash: str) -> pa.Table:
    """Read a fold's refits; InputError for a broken file, numbers that are not finite, or another release."""
    table = read_table(path, stored_schema(path, REFIT_SCHEMA))
    check_entries(path, "scores", table["scores"])
    if metadata_of(table).get("data_release_hash") != data_release_hash:
        raise InputError(f"{path}: data_release_hash: expected {data_release_hash}, that of the release")
    return table


def refit_keys(refits: pa.Table) -> pa.ChunkedArray:
    """What names a row of REFIT_SCHEMA: the fifth left out, scene and turn, as text."""
    parts = [pc.fill_null(refits[name].cast(pa.string()), "") for name in ("without", "scene_id", "turn")]
    return pc.binary_join_element_wise(*parts, "/")


def refits_hash(refits: pa.Table) -> str:
    """Content hash of a table of REFIT_SCHEMA, whatever the order of its rows."""
    return table_hash(refits.append_column("row", refit_keys(refits)), "row")
