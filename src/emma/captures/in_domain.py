"""The in-domain reference: readouts fit on captured scenes of other sessions, and on as many synthetic ones.

Both are scored on the same captured scenes. A set that is hard for a model is hard for both; a shift from synthetic to
captured scenes is hard for the second alone; a model without skill has none in either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emma.data.draws import link_groups, stratified_draw
from emma.data.embeddings import Embeddings
from emma.data.folds import fold_table, typed
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.readouts import Readout, make_readout
from emma.readouts.selection import grouped_parts
from emma.tasks import Target, TaskSpec, target_of

#: Predictions of captured scenes by readouts fit on captured scenes of other sessions, and on as many synthetic ones.
IN_DOMAIN, SYNTHETIC = "in-domain", "equal-number"

#: Parts into which sessions are dealt; each part's scenes are scored by a readout that was fit on the others.
PARTS = 5


@dataclass(frozen=True)
class Side:
    """Scenes of one side: their index with its labels, and the embeddings that hold them."""

    index: pa.Table
    embeddings: Embeddings

    def lined(self, spec: TaskSpec) -> Lined:
        """The scenes as readouts take them."""
        table = fold_table(spec, self.index, np.full(self.index.num_rows, "query"))
        rows = pc.index_in(table["scene_id"], value_set=self.index["scene_id"].combine_chunks())
        kind = target_of(spec)
        return Lined(
            kind,
            table["scene_id"],
            table["target"],
            kind.numbers(table["target"]),
            self.embeddings.of(table["scene_id"]),
            self.index["session"].take(rows),
            link_groups(self.index)[np.asarray(rows)],
        )


class Lined(NamedTuple):
    """Scenes of one side, row by row.

    Attributes:
        kind: the kind of their labels.
        scene_id: their ids.
        encoded: their encoded labels as a column.
        target: the same as an array.
        features: ``[N, D]``.
        session: their sessions.
        links: their links, if any.
    """

    kind: Target
    scene_id: pa.ChunkedArray
    encoded: pa.ChunkedArray
    target: Any
    features: NDArray[Any]
    session: pa.ChunkedArray
    links: NDArray[np.str_]

    def scores(self, readout: Readout, rows: Any = slice(None)) -> Any:
        """Scores ``[N, K]`` of some of the scenes."""
        given = self.kind.given(self.target)
        return readout.scores(self.features[rows], None if given is None else given[rows])


def predicted(scenes: Lined, scores: Any, *, sessions: bool = True) -> pa.Table:
    """A table of PREDICTION_SCHEMA.

    Args:
        scenes: the scenes.
        scores: scores ``[N, K]`` of their features.
        sessions: whether scenes are drawn by session.
    """
    n = len(scenes.target)
    session = scenes.session if sessions else pa.nulls(n, pa.string())
    columns = [scenes.scene_id, session, scenes.encoded, scenes.kind.stored(scores), pa.nulls(n, pa.int32())]
    return pa.table(columns, schema=typed(PREDICTION_SCHEMA, scenes.kind))


def dealt(spec: TaskSpec, sessions: NDArray[np.str_], target: Any) -> NDArray[np.int64] | str:
    """The part ``[N]`` of each captured scene, sessions whole, or why the reference is undefined.

    Args:
        spec: the task's declaration.
        sessions: the scenes' sessions ``[N]``.
        target: their encoded labels ``[N]``.
    """
    count = min(PARTS, len(np.unique(sessions)))
    if count < 2:
        return "one session alone: nothing is left to fit on"
    strata = target_of(spec).strata(target)
    parts = grouped_parts(sessions, strata, count)
    if strata is not None:
        for part in range(count):
            if missing := sorted(set(strata) - set(strata[parts != part])):
                return f"class {spec.classes[int(missing[0])]} is in too few sessions to be both fit and scored"
    return parts


def undefined_reason(spec: TaskSpec, captured: pa.Table) -> str | None:
    """Why there is no in-domain reference of captured scenes, None where there is one."""
    kind = target_of(spec)
    target = kind.numbers(kind.encode(captured[kind.column]))
    parts = dealt(spec, np.array(captured["session"].to_pylist()), target)
    return parts if isinstance(parts, str) else None


def in_domain(spec: TaskSpec, name: str, fit: Lined | None, captured: Lined, seed: int) -> dict[str, pa.Table]:
    """Predictions of the captured scenes by readouts of other sessions, and by readouts of as many synthetic scenes.

    Args:
        spec: the task's declaration.
        name: the set's name, which seeds the draw of scenes to fit on.
        fit: synthetic scenes to draw from; None where there are none.
        captured: the captured scenes.
        seed: the run's seed.

    Returns:
        tables of PREDICTION_SCHEMA under IN_DOMAIN and SYNTHETIC; none where the reference is undefined. Where the task
        enrols units, those of a fit are enrolled by its own scenes.
    """
    sessions = np.array(captured.session.to_pylist())
    parts = dealt(spec, sessions, captured.target)
    if isinstance(parts, str):
        return {}
    pools = {IN_DOMAIN: (captured, sessions)}
    if fit is not None:
        pools[SYNTHETIC] = (fit, fit.links)
    scores: dict[str, Any] = {key: [None] * len(parts) for key in pools}
    for part in np.unique(parts):
        size = min(int(np.count_nonzero(parts != part)), *(len(scenes.target) for scenes, _ in pools.values()))
        for key, (scenes, groups) in pools.items():
            rows = np.flatnonzero(parts != part) if key == IN_DOMAIN else np.arange(len(scenes.target))
            drawn = _drawn(spec, scenes, groups, rows, size, f"{seed}/{name}/{part}")
            known = scenes.features[drawn], scenes.target[drawn]
            readout = make_readout(spec).fit(*known, groups[drawn])
            if target_of(spec).enrols:
                readout.enrol(*known, np.zeros(len(drawn), np.int64))
            asked = np.flatnonzero(parts == part)
            for row, answer in zip(asked, captured.scores(readout, asked), strict=True):
                scores[key][row] = answer
    return {key: predicted(captured, np.stack(scores[key])) for key in pools}


def _drawn(
    spec: TaskSpec, scenes: Lined, groups: NDArray[np.str_], rows: NDArray[np.int64], size: int, salt: str
) -> NDArray[np.int64]:
    """``size`` of the rows, drawn by label and group."""
    ids, strata = scenes.scene_id.to_pylist(), target_of(spec).strata(scenes.target[rows])
    mask = stratified_draw(
        [np.full(len(rows), "") if strata is None else strata.astype(str)],
        [f"{salt}/{groups[row]}" for row in rows],
        [f"{salt}/{ids[row]}" for row in rows],
        size,
    )
    return rows[mask]
