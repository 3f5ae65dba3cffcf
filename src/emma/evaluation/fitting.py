"""One fold: guard it, fit the pinned readout on its train scenes, predict its eval scenes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from common.doors import read_bytes
from common.errors import InputError
from common.files import atomic
from common.hashing import sha256, table_hash
from emma.data.draws import link_groups
from emma.data.embeddings import Embeddings
from emma.data.folds import Fold, fold_metadata, queries_of, read_side, row_keys, stored_schema, typed
from emma.data.guards import guard_fold
from emma.data.protocols import OODProtocol
from emma.data.provenance import Provenance, provenance_of
from emma.data.tables import check_entries, metadata_of, read_table, rows_of, unique_ids, write_table
from emma.evaluation.prediction import enrol, query_scores
from emma.evaluation.records import FoldHashes
from emma.evaluation.refits import REFIT_SCHEMA, REFITS_NAME, fifths, read_refits, refit_fold, refits_hash
from emma.readouts import Readout, load_readout, make_readout
from emma.tasks import TaskSpec, target_of

#: One row per scored scene; where units are enrolled, one per scene and turn of enrolment. ``target``: as in
#: FOLD_SCHEMA, of the task's type. ``scores``: of the task's type too: degrees, the positive class's logit, one score
#: per class, the numbers of a tensor or waveform, or texts. ``turn``: which session of each unit, in sorted order,
#: enrolled it.
PREDICTION_SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("session", pa.string()),
        pa.field("target", pa.float64(), nullable=False),
        pa.field("scores", pa.list_(pa.float64()), nullable=False),
        pa.field("turn", pa.int32()),
    ]
)


class Predicted(NamedTuple):
    """What is scored of a fold.

    Attributes:
        predictions: a table of PREDICTION_SCHEMA.
        undefined_reason: why the fold cannot be scored, if it cannot.
        refits: a table of REFIT_SCHEMA; None where nothing was refit, as for a submission.
        regularisation: the value that the readout chose; None where none was fit here.
    """

    predictions: pa.Table
    undefined_reason: str | None
    refits: pa.Table | None = None
    regularisation: float | None = None


@dataclass(frozen=True)
class FittedFold:
    """A fold after its fit: the readout's tensors, the predictions, those of its refits, and the fold's facts.

    The facts: why it is undefined, its evaluation split, and the seed of a draw.
    """

    tensors: dict[str, np.ndarray]
    predictions: pa.Table
    refits: pa.Table
    undefined_reason: str | None
    eval_split: str | None = None
    draw_seed: int | None = None

    @property
    def regularisation(self) -> float | None:
        """The value that the readout chose; None where nothing was fit, or there was nothing to choose."""
        chosen = self.tensors.get("regularisation")
        return None if chosen is None else float(chosen[0])

    @property
    def predicted(self) -> Predicted:
        """What is scored of it."""
        return Predicted(self.predictions, self.undefined_reason, self.refits, self.regularisation)

    @property
    def predictions_hash(self) -> str:
        """Content hash of the predictions."""
        return predictions_hash(self.predictions)


def fit_fold(
    spec: TaskSpec,
    protocol: OODProtocol,
    fold: Fold,
    assigned: tuple[pa.Table, pa.Table],
    embeddings: Embeddings,
) -> FittedFold:
    """Fit and predict one fold after every guard has passed.

    Args:
        spec: the task's pinned declaration.
        protocol: the protocol that the fold is said to follow.
        fold: its train and eval scenes.
        assigned: frozen TRAIN index and evaluation index, checked against the release manifest.
        embeddings: the model's embeddings of the task.

    Raises:
        SplitNotAvailable: the fold is not what protocol and manifest allow.
        InputError: the protocol is another task's, an embedding is missing, or the head is over its pinned capacity.
    """
    if protocol.spec != spec:
        raise InputError(f"{protocol.name}: made for another TaskSpec than the one that is fit")
    guard_fold(protocol, fold, *assigned)
    facts = (fold.undefined_reason, fold.eval_split, fold.draw_seed)
    if fold.undefined_reason is not None:
        none = typed(PREDICTION_SCHEMA, target_of(spec)).empty_table()
        return FittedFold({}, none, REFIT_SCHEMA.empty_table(), *facts)
    readout = make_readout(spec)
    rows = rows_of(assigned[0]["scene_id"], fold.train["scene_id"], f"fold {fold.protocol} {fold.held_out_value}")
    features, target = embeddings.rows(fold.train["scene_id"]), target_of(spec).numbers(fold.train["target"])
    readout.fit(features, target, link_groups(assigned[0])[rows])
    enrol(spec, readout, fold.eval, embeddings)
    queries = fold.queries
    scores = query_scores(readout, embeddings, queries)
    schema = typed(PREDICTION_SCHEMA, readout.target)
    predictions = queries.append_column(schema.field("scores"), readout.target.stored(scores))
    predictions = predictions.select(schema.names).cast(schema)
    refits = refit_fold(spec, readout, fold, (features, target, fifths(spec, assigned[0])[rows]), embeddings)
    return FittedFold(readout.tensors, predictions, refits, *facts)


def write_fitted(
    readout_path: str | Path,
    predictions_path: str | Path,
    fitted: FittedFold,
    data_release_hash: str,
    provenance: Provenance,
) -> None:
    """Write a fold's readout (safetensors) and predictions (Parquet), and ``refits.parquet`` beside these: all or none.

    Both tables carry the release, the model, the evaluation split, the seed of a draw and the reason that the fold
    is undefined, if there is one.
    """
    from safetensors.numpy import save

    metadata = provenance.metadata | fold_metadata(fitted, data_release_hash)
    with atomic(readout_path) as readout:
        readout.write_bytes(save({name: np.ascontiguousarray(fitted.tensors[name]) for name in sorted(fitted.tensors)}))
        with atomic(Path(predictions_path).with_name(REFITS_NAME)) as refits:
            write_table(refits, fitted.refits, metadata)
            write_table(predictions_path, fitted.predictions, metadata)


@dataclass(frozen=True)
class PredictedFold:
    """A fold's predictions as read, those of its refits, why it is undefined, if it is, and what made them."""

    predictions: pa.Table
    undefined_reason: str | None
    eval_split: Literal["dev", "holdout"]
    hashes: FoldHashes
    provenance: Provenance
    refits: pa.Table | None = None
    regularisation: float | None = None

    @property
    def predicted(self) -> Predicted:
        """What is scored of it."""
        return Predicted(self.predictions, self.undefined_reason, self.refits, self.regularisation)


def read_fitted(path: str | Path, data_release_hash: str, seed: int) -> PredictedFold:
    """Read a fold's predictions; ``readout.safetensors`` and ``refits.parquet`` are beside them.

    Raises:
        InputError: broken file, repeated row, predictions made on another release or on a draw of another seed.
    """
    predictions = read_table(path, stored_schema(path, PREDICTION_SCHEMA))
    unique_ids(path, row_keys(predictions))
    for column in ("target", "scores"):
        check_entries(path, column, predictions[column])
    metadata = metadata_of(predictions)
    if metadata.get("data_release_hash") != data_release_hash:
        raise InputError(f"{path}: data_release_hash: expected {data_release_hash}, that of the release")
    if metadata.get("eval_split") not in {"DEV", "HOLDOUT"}:
        raise InputError(f"{path}: eval_split: expected DEV or HOLDOUT in the schema metadata")
    if metadata.get("draw_seed", str(seed)) != str(seed):
        raise InputError(f"{path}: draw_seed: {metadata['draw_seed']}, expected {seed}, that of the run")
    beside = Path(path).with_name("readout.safetensors")
    content = read_bytes(beside)
    readout, chosen = sha256(content), chosen_regularisation(beside, content)
    refits = read_refits(Path(path).with_name(REFITS_NAME), data_release_hash)
    return PredictedFold(
        predictions,
        metadata.get("undefined_reason"),
        "holdout" if metadata["eval_split"] == "HOLDOUT" else "dev",
        FoldHashes(predictions=predictions_hash(predictions), readout=readout, refits=refits_hash(refits)),
        provenance_of(metadata, path),
        refits,
        chosen,
    )


def chosen_regularisation(path: Path, content: bytes) -> float | None:
    """The value that a readout's file says it chose, None in that of an undefined fold; InputError for a broken one."""
    chosen = _tensors(path, content).get("regularisation")
    if chosen is not None and (chosen.shape != (1,) or chosen.dtype.kind != "f"):
        raise InputError(f"{path}: regularisation: {chosen.dtype} {list(chosen.shape)}, expected one number")
    return None if chosen is None else float(chosen[0])


def read_readout(spec: TaskSpec, path: Path) -> Readout:
    """The readout of a fold; InputError for a file that is not there, is broken, or is that of an undefined fold."""
    tensors = _tensors(path, read_bytes(path))
    if not tensors:
        raise InputError(f"{path}: no tensors, expected those of a fold that is defined")
    return load_readout(spec, tensors)


def _tensors(path: Path, content: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(content)
    except SafetensorError as error:
        raise InputError(f"{path}: not a safetensors file ({error})") from None
    except KeyError as error:
        raise InputError(f"{path}: expected types that numpy has, found {error}") from None


def predictions_hash(predictions: pa.Table) -> str:
    """Content hash of a table of PREDICTION_SCHEMA, whatever the order of its rows."""
    return table_hash(predictions.append_column("row", row_keys(predictions)), "row")


def query_fault(predictions: pa.Table, evaluation: pa.Table) -> str | None:
    """What keeps predictions from being the rows that a fold asks for, in their order; None where nothing does.

    Args:
        predictions: a table of PREDICTION_SCHEMA.
        evaluation: the fold's eval side; without rows where the fold is undefined.

    Returns:
        the column, what is wrong with it, and what was expected.
    """
    expected = queries_of(evaluation)
    actual_ids, expected_ids = row_keys(predictions).to_pylist(), row_keys(expected).to_pylist()
    if actual_ids != expected_ids:
        lost = next(iter(sorted(set(expected_ids) - set(actual_ids))), None)
        foreign = next(iter(sorted(set(actual_ids) - set(expected_ids))), None)
        what = f"{lost} is missing" if lost else f"{foreign} is foreign" if foreign else "rows out of order"
        return f"scene_id: {what}, expected the {len(expected_ids)} queries of the fold"
    for column in ("target", "session"):
        if predictions[column].to_pylist() != expected[column].to_pylist():
            return f"{column}: differs from the fold's, expected that of the frozen index"
    return None


def check_complete(path: Path, predictions: pa.Table, side: str | Path, protocol: str, value: str) -> None:
    """Refuse predictions that are not of every query of their fold, in every turn.

    Args:
        path: the predictions' file.
        predictions: its content.
        side: the fold's ``eval.parquet``.
        protocol: the fold's protocol.
        value: its held-out value.

    Raises:
        InputError: a scene is missing, foreign or out of order, has another target or session, or the two files
            differ in release, evaluation split, seed of a draw or the reason that the fold is undefined.
    """
    actual = metadata_of(predictions)
    evaluation = read_side(side, protocol, value, actual.get("data_release_hash", ""))
    expected = metadata_of(evaluation)
    for field in ("undefined_reason", "eval_split", "draw_seed"):
        if actual.get(field) != expected.get(field):
            raise InputError(f"{path}: {field}: {actual.get(field)}, expected {expected.get(field)}, as {side} says")
    fault = query_fault(predictions, evaluation.slice(0, 0) if "undefined_reason" in expected else evaluation)
    if fault is not None:
        raise InputError(f"{path}: {fault}")
