"""What a fitted readout predicts: scores of scenes, under units that are enrolled in turn where the task enrols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.rows import blocks, held
from emma.data.embeddings import Embeddings
from emma.readouts import Readout
from emma.tasks import TaskSpec, target_of


def enrol(spec: TaskSpec, readout: Readout, evaluation: pa.Table, embeddings: Embeddings) -> None:
    """Enrol the units of a fold's evaluation side, every session in its turn; nothing where the task enrols nobody."""
    kind = target_of(spec)
    if kind.enrols:
        captures, targets, turns = (evaluation[name] for name in ("scene_id", "target", "turn"))
        readout.enrol(embeddings.rows(captures), kind.numbers(targets), np.asarray(turns))


def query_scores(readout: Readout, embeddings: Embeddings, queries: pa.Table) -> Any:
    """Scores ``[rows, K]`` of scenes, each under the units enrolled in its turn.

    Of a label the readout gets what is given with the scene alone (``Target.given``).

    Args:
        readout: fitted, and enrolled where the task enrols.
        embeddings: the model's embeddings of the task.
        queries: table with ``scene_id``, ``target`` and ``turn``, as ``Fold.queries`` or predictions.
    """
    scenes = queries["scene_id"].unique()
    rows = np.asarray(pc.index_in(queries["scene_id"], value_set=scenes))
    turns = np.asarray(pc.fill_null(queries["turn"], 0))
    given = readout.target.given(readout.target.numbers(queries["target"]))
    if given is not None:
        given = given[np.asarray(pc.index_in(scenes, value_set=queries["scene_id"].combine_chunks()))]
    scored = [
        readout.turn_scores(block, None if given is None else given[place])
        for place, block in blocks(held(embeddings.rows(scenes)))
    ]
    return np.concatenate(scored, axis=1)[turns, rows]
