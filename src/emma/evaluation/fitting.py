"""One fold: guard it, fit the pinned readout on its train scenes, predict its eval scenes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.files import atomic
from common.hashing import sha256, table_hash
from emma.data.embeddings import Embeddings
from emma.data.folds import Fold, fold_metadata, read_side
from emma.data.guards import guard_fold
from emma.data.protocols import OODProtocol
from emma.data.provenance import Provenance, provenance_of
from emma.data.tables import matrix_to_lists, metadata_of, read_table, unique_ids, write_table
from emma.evaluation.records import FoldHashes
from emma.readouts import make_readout
from emma.tasks import TaskSpec, target_of

#: One row per scored scene. ``scores``: degrees, the positive class's logit, or one score per class.
PREDICTION_SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("session", pa.string()),
        pa.field("target", pa.float64(), nullable=False),
        pa.field("scores", pa.list_(pa.float64()), nullable=False),
    ]
)


@dataclass(frozen=True)
class FittedFold:
    """A fold after its fit: the readout's tensors, the predictions, and why undefined, split and seed."""

    tensors: dict[str, np.ndarray]
    predictions: pa.Table
    undefined_reason: str | None
    eval_split: str | None = None
    enrolment_seed: int | None = None

    @property
    def predictions_hash(self) -> str:
        """Content hash of the predictions."""
        return table_hash(self.predictions)


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
    if fold.undefined_reason is not None:
        facts = (fold.undefined_reason, fold.eval_split, fold.enrolment_seed)
        return FittedFold({}, PREDICTION_SCHEMA.empty_table(), *facts)
    readout = make_readout(spec)
    readout.fit(embeddings.of(fold.train["scene_id"]), np.asarray(fold.train["target"]))
    if target_of(spec).enrols:
        gallery = fold.eval.filter(pc.equal(fold.eval["role"], "enrol"))
        readout.enrol(embeddings.of(gallery["scene_id"]), np.asarray(gallery["target"]))
    queries = fold.eval.filter(pc.equal(fold.eval["role"], "query"))
    scores = readout.scores(embeddings.of(queries["scene_id"]))
    columns = [queries["scene_id"], queries["session"], queries["target"], matrix_to_lists(scores)]
    predictions = pa.table(columns, schema=PREDICTION_SCHEMA)
    return FittedFold(readout.tensors, predictions, None, fold.eval_split, fold.enrolment_seed)


def write_fitted(
    readout_path: str | Path,
    predictions_path: str | Path,
    fitted: FittedFold,
    data_release_hash: str,
    provenance: Provenance,
) -> None:
    """Write a fold's readout (safetensors) and predictions (Parquet), both or neither.

    The predictions carry the release, the model, the evaluation split, the enrolment seed and the reason that the fold
    is undefined, if there is one.
    """
    from safetensors.numpy import save

    metadata = provenance.metadata | fold_metadata(fitted, data_release_hash)
    with atomic(readout_path) as readout:
        readout.write_bytes(save({name: np.ascontiguousarray(fitted.tensors[name]) for name in sorted(fitted.tensors)}))
        write_table(predictions_path, fitted.predictions, metadata)


@dataclass(frozen=True)
class PredictedFold:
    """A fold's predictions as read, why it is undefined, if it is, and what made them."""

    predictions: pa.Table
    undefined_reason: str | None
    eval_split: Literal["dev", "holdout"]
    enrolment_seed: int | None
    hashes: FoldHashes
    provenance: Provenance


def read_fitted(path: str | Path, data_release_hash: str, seed: int) -> PredictedFold:
    """Read a fold's predictions; ``readout.safetensors`` is beside them.

    Raises:
        InputError: broken file, repeated scene, predictions made on another release or whose gallery another seed drew.
    """
    predictions = read_table(path, PREDICTION_SCHEMA)
    unique_ids(path, predictions["scene_id"])
    for column, values in (("target", predictions["target"]), ("scores", pc.list_flatten(predictions["scores"]))):
        if not pc.all(pc.is_finite(values), skip_nulls=False, min_count=0).as_py():
            raise InputError(f"{path}: {column}: NaN, infinity or null, expected finite numbers")
    metadata = metadata_of(predictions)
    if metadata.get("data_release_hash") != data_release_hash:
        raise InputError(f"{path}: data_release_hash: expected {data_release_hash}, that of the release")
    if metadata.get("eval_split") not in {"DEV", "HOLDOUT"}:
        raise InputError(f"{path}: eval_split: expected DEV or HOLDOUT in the schema metadata")
    if metadata.get("enrolment_seed", str(seed)) != str(seed):
        raise InputError(f"{path}: enrolment_seed: {metadata['enrolment_seed']}, expected {seed}, that of the run")
    beside = Path(path).with_name("readout.safetensors")
    try:
        readout = sha256(beside.read_bytes())
    except OSError as error:
        raise InputError(f"{beside}: cannot be read ({error.strerror})") from None
    return PredictedFold(
        predictions,
        metadata.get("undefined_reason"),
        "holdout" if metadata["eval_split"] == "HOLDOUT" else "dev",
        seed if "enrolment_seed" in metadata else None,
        FoldHashes(predictions=table_hash(predictions), readout=readout),
        provenance_of(metadata, path),
    )


def query_fault(predictions: pa.Table, evaluation: pa.Table) -> str | None:
    """What keeps predictions from being one row a query of a fold's eval side, in its order; None where nothing does.

    Args:
        predictions: a table of PREDICTION_SCHEMA.
        evaluation: the fold's eval side; without rows where the fold is undefined.

    Returns:
        the column, what is wrong with it, and what was expected.
    """
    expected = evaluation.filter(pc.equal(evaluation["role"], "query"))
    actual_ids, expected_ids = predictions["scene_id"].to_pylist(), expected["scene_id"].to_pylist()
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
    """Refuse predictions that are not of every query of their fold.

    Args:
        path: the predictions' file.
        predictions: its content.
        side: the fold's ``eval.parquet``.
        protocol: the fold's protocol.
        value: its held-out value.

    Raises:
        InputError: a scene is missing, foreign or out of order, has another target or session, or the two files
            differ in release, evaluation split, enrolment seed or the reason that the fold is undefined.
    """
    actual = metadata_of(predictions)
    evaluation = read_side(side, protocol, value, actual.get("data_release_hash", ""))
    expected = metadata_of(evaluation)
    for field in ("undefined_reason", "eval_split", "enrolment_seed"):
        if actual.get(field) != expected.get(field):
            raise InputError(f"{path}: {field}: {actual.get(field)}, expected {expected.get(field)}, as {side} says")
    fault = query_fault(predictions, evaluation.slice(0, 0) if "undefined_reason" in expected else evaluation)
    if fault is not None:
        raise InputError(f"{path}: {fault}")
