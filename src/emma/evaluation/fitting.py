"""One fold: guard it, fit the pinned readout on its train scenes, predict its eval scenes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.files import atomic
from common.hashing import sha256, table_hash
from emma.data.embeddings import Embeddings
from emma.data.protocols import Fold, OODProtocol, guard_fold, place_of, read_side
from emma.data.tables import matrix_to_lists, metadata_of, read_table, unique_ids, write_table
from emma.readouts import make_readout
from emma.tasks import TaskSpec, target_of

#: One row a scored scene. ``scores``: degrees, the positive class's logit, or one score a class.
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
    undefined: str | None
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
    if fold.undefined is not None:
        return FittedFold({}, PREDICTION_SCHEMA.empty_table(), fold.undefined, fold.eval_split, fold.enrolment_seed)
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
    provenance: Mapping[str, Any],
) -> None:
    """Write a fold's readout (safetensors) and predictions (Parquet), both or neither.

    The predictions carry the release, the model, the evaluation split, the enrolment seed and the reason that the fold
    is undefined, if there is one.
    """
    from safetensors.numpy import save

    metadata = {"data_release_hash": data_release_hash, "model_provenance": json.dumps(provenance, sort_keys=True)}
    said = {"undefined": fitted.undefined, "eval_split": fitted.eval_split, "enrolment_seed": fitted.enrolment_seed}
    metadata |= {key: str(value) for key, value in said.items() if value is not None}
    with atomic(readout_path) as readout:
        readout.write_bytes(save({name: np.ascontiguousarray(fitted.tensors[name]) for name in sorted(fitted.tensors)}))
        write_table(predictions_path, fitted.predictions, metadata)


def read_fitted(path: str | Path, data_release_hash: str, seed: int) -> tuple[pa.Table, str | None, dict[str, Any]]:
    """Read a fold's predictions; ``readout.safetensors`` stands beside them.

    Returns:
        the predictions, the reason the fold is undefined or None, and what made them: the evaluation split, content
        hashes of predictions and readout, and the model's provenance.

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
        provenance = json.loads(metadata["model_provenance"])
    except OSError as error:
        raise InputError(f"{beside}: cannot be read ({error.strerror})") from None
    except (KeyError, ValueError):
        raise InputError(f"{path}: model_provenance: expected the model's provenance in the schema metadata") from None
    hashes = {"predictions": table_hash(predictions), "readout": readout}
    made = {"eval_split": metadata["eval_split"].lower(), "hashes": hashes, "model_provenance": provenance}
    return predictions, metadata.get("undefined"), made


def query_fault(predictions: pa.Table, evaluation: pa.Table) -> str | None:
    """What keeps predictions from being one row a query of a fold's eval side, in its order; None where nothing does.

    Args:
        predictions: a table of PREDICTION_SCHEMA.
        evaluation: the fold's eval side; without rows where the fold is undefined.

    Returns:
        the column, what is wrong with it, and what was expected.
    """
    wanted = evaluation.filter(pc.equal(evaluation["role"], "query"))
    ids, expected = predictions["scene_id"].to_pylist(), wanted["scene_id"].to_pylist()
    if ids != expected:
        lost = next(iter(sorted(set(expected) - set(ids))), None)
        foreign = next(iter(sorted(set(ids) - set(expected))), None)
        what = f"{lost} is missing" if lost else f"{foreign} is foreign" if foreign else "rows out of order"
        return f"scene_id: {what}, expected the {len(expected)} queries of the fold"
    for column in ("target", "session"):
        if predictions[column].to_pylist() != wanted[column].to_pylist():
            return f"{column}: differs from the fold's, expected that of the frozen index"
    return None


def check_complete(path: Path, predictions: pa.Table, side: str | Path) -> None:
    """Refuse predictions that are not of every query of their fold.

    Args:
        path: the predictions' file, in folders ``PROTOCOL/VALUE``.
        predictions: its content.
        side: the fold's ``eval.parquet``.

    Raises:
        InputError: a scene is missing, foreign or out of order, has another target or session, or the two files
            differ in evaluation split, enrolment seed or the reason that the fold is undefined.
    """
    evaluation = read_side(side, *place_of(path))
    said, wanted = metadata_of(predictions), metadata_of(evaluation)
    for field in ("undefined", "eval_split", "enrolment_seed"):
        if said.get(field) != wanted.get(field):
            raise InputError(f"{path}: {field}: {said.get(field)}, expected {wanted.get(field)}, as {side} says")
    fault = query_fault(predictions, evaluation.slice(0, 0) if "undefined" in wanted else evaluation)
    if fault is not None:
        raise InputError(f"{path}: {fault}")
