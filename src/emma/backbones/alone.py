"""A row is its own scene's: a few scenes of every file are embedded again by themselves, and held against their rows.

What depends on a batch (its mean, a batch normalisation that is still training) or on what came before (a count of
calls) does not give the same row twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.errors import InputError
from emma.backbones.base import IQ, Embeddings
from emma.backbones.features import Spread

#: Most that a column of a row may move with its neighbours, in the column's standard deviations: on a CPU, and on a
#: GPU, whose sums come in another order with every size of batch.
ALONE, ALONE_ON_GPU = 1e-4, 1e-2

#: Rounding of float32, of a column's greatest magnitude; readouts take columns that vary by less for constant.
ROUNDING = 16 * float(np.finfo(np.float32).eps)

#: Scenes with their index rows to embeddings ``[n, D]``.
Embed = Callable[[IQ, pa.Table], Embeddings]


@dataclass(frozen=True)
class Again:
    """Scenes of one file that are embedded again, with their first rows."""

    path: Path
    iq: IQ
    index: pa.Table
    rows: Embeddings

    @classmethod
    def of(cls, path: str | Path, iq: IQ, index: pa.Table, rows: Embeddings) -> Again:
        """The first scene of a chunk and one amid it: in a batch of several, no two have the same neighbours."""
        picked = np.unique([0, len(iq) // 2])
        return cls(Path(path), iq[picked], index.take(pa.array(picked)), rows[picked])

    def variants(self, embed: Embed) -> dict[str, Embeddings]:
        """The rows again: of each scene by itself, and of these scenes alone in the other order."""
        alone = [embed(self.iq[[row]], self.index.slice(row, 1)) for row in range(len(self.iq))]
        order = np.arange(len(self.iq))[::-1]
        others = embed(self.iq[order], self.index.take(pa.array(order)))[order]
        return {"by itself": np.concatenate(alone), "among others": others}


def check_alone(model: str, device: str, embed: Embed, kept: Iterable[Again], spread: Spread) -> None:
    """Embed scenes again; InputError names the model and the column that moves with the other scenes.

    Args:
        model: its name.
        device: what it runs on.
        embed: what embedded them.
        kept: the scenes.
        spread: of all rows of the table.
    """
    most = ALONE if device == "cpu" else ALONE_ON_GPU
    for again in kept:
        for how, rows in again.variants(embed).items():
            moved = moved_columns(rows, again.rows, spread)
            if moved.size and not moved.max() <= most:
                column = int(np.argmax(moved))
                raise InputError(
                    f"model {model}: {again.path}: column {column} of a scene's embedding is another {how}, by "
                    f"{moved[column]:.1e} of the column's standard deviation, expected at most {most:.0e}: a row may "
                    "depend on its own scene alone, not on its batch or on a count of calls"
                )


def moved_columns(rows: Embeddings, first: Embeddings, spread: Spread) -> NDArray[np.float64]:
    """The most that each column ``[D]`` moves between rows ``[n, D]``, in its standard deviations.

    What float32 rounds is taken off; a column that varies by less is constant to every readout, and 0.
    """
    rounding: NDArray[Any] = ROUNDING * spread.magnitude
    change = np.abs(rows.astype(np.float64) - first).max(axis=0, initial=0.0)
    over = np.maximum(change - rounding, 0.0)
    varies = spread.deviation > rounding
    return np.asarray(np.divide(over, spread.deviation, out=np.zeros_like(over), where=varies))
