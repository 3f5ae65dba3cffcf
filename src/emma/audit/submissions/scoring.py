"""Scoring a bundle that the checks found nothing wrong with, as the workflow scores its own models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.files import parse, read_json, write_json
from emma.audit.submissions.bundle import Bundle, Expected, FoldKey, scores_of
from emma.data.folds import Fold, fold_metadata, row_keys, typed
from emma.data.protocols import board_protocols
from emma.data.provenance import Provenance, with_sets
from emma.data.tables import write_table
from emma.evaluation.fitting import PREDICTION_SCHEMA, Predicted, PredictedFold, predictions_hash
from emma.evaluation.records import FoldHashes, FoldRecord, Replicates
from emma.evaluation.replicates import ReplicateSource, write_replicates
from emma.evaluation.scoring import fold_record, score_task
from emma.results.layout import Layout
from emma.results.records import RunRecord
from emma.results.runs import run_record, task_record
from emma.tasks import Split, Target, TaskID, target_of


@dataclass(frozen=True)
class Scored:
    """A scored submission.

    Attributes:
        record: its run record.
        provenance: what its manifest says of the model.
        predictions: by fold, its scores joined to frozen targets; without rows where the fold is undefined.
        metrics: the metrics of each fold.
        replicates: bootstrap replicates by task.
        sources: what drew them, by task.
    """

    record: RunRecord
    provenance: Provenance
    predictions: Mapping[FoldKey, pa.Table]
    metrics: Mapping[FoldKey, FoldRecord]
    replicates: Mapping[TaskID, Replicates]
    sources: Mapping[TaskID, ReplicateSource]


def score(bundle: Bundle, expected: Expected) -> Scored:
    """Score a bundle that ``validate`` found nothing wrong with."""
    release, declared, seed = expected.manifest, bundle.manifest, bundle.manifest.seed
    provenance = Provenance.of(declared.model, declared, declared.pretraining, readouts=declared.readouts)
    release_hash = release.data_release_hash
    predictions = {
        key: joined(bundle.table(*key), expected.folds[key], target_of(release.tasks[key[0]]))
        for key in expected.of(bundle)
    }
    records, replicates, sources = {}, {}, {}
    hashes: dict[TaskID, dict[str, dict[str, str]]] = {}
    metrics: dict[FoldKey, FoldRecord] = {}
    for task in (task for task in release.tasks if task in declared.readouts):
        spec, protocols = release.tasks[task], list(board_protocols(release.tasks[task]).values())
        keys = [(task, protocol.name, value) for protocol in protocols for value in protocol.eval_values()]
        folds: dict[str, dict[str, Predicted]] = {}
        hashes[task] = {protocol.name: {} for protocol in protocols}
        for key in keys:
            folds.setdefault(key[1], {})[key[2]] = Predicted(predictions[key], expected.folds[key].undefined_reason)
            hashes[task][key[1]][key[2]] = predictions_hash(predictions[key])
        scores, replicates[task] = score_task(spec, task.value, folds, release.bootstrap, seed)
        records[task] = task_record(spec, protocols, scores, with_sets(declared.pretraining, release.rfgen))
        for key in keys:
            fold = PredictedFold(
                predictions[key],
                expected.folds[key].undefined_reason,
                "holdout" if expected.eval_split is Split.HOLDOUT else "dev",
                FoldHashes(predictions=hashes[task][key[1]][key[2]], readout=None, refits=None),
                provenance,
            )
            metrics[key] = fold_record(declared.model, task, key[1:], scores, fold, release_hash, seed)
        sources[task] = ReplicateSource(
            declared.model,
            task.value,
            release_hash,
            seed,
            metrics[keys[0]].eval_split,
        )
    record = run_record(release, declared, provenance, records, hashes, seed=seed, eval_split=expected.eval_split)
    return Scored(record, provenance, predictions, metrics, replicates, sources)


def write_scored(scored: Scored, expected: Expected, out: Path) -> None:
    """Write a scored submission as the workflow writes a model of its own, the run record last.

    Args:
        scored: the submission.
        expected: what it was held against.
        out: folder of ``folds/`` and ``runs/``.

    Raises:
        InputError: another model has its rows there.
    """
    layout, model, release = Layout(out), scored.record.model, expected.manifest.data_release_hash
    require_own(out, model)
    for key, table in scored.predictions.items():
        metadata = scored.provenance.metadata | fold_metadata(expected.folds[key], release)
        write_table(layout.predictions(model, *key), table, metadata)
        write_json(layout.metrics(model, *key), scored.metrics[key].model_dump(mode="json"))
    for task, replicates in scored.replicates.items():
        write_replicates(layout.replicates(model, task), replicates, scored.sources[task])
    write_json(layout.run(model), scored.record.model_dump(mode="json"))


def joined(submitted: pa.Table, fold: Fold, target: Target) -> pa.Table:
    """The fold's queries with frozen session and target and the submitted scores, by scene id and turn."""
    if fold.undefined_reason is not None:
        return typed(PREDICTION_SCHEMA, target).empty_table()
    queries = fold.queries
    rows = pc.index_in(row_keys(queries), value_set=row_keys(submitted).combine_chunks())
    scores = scores_of(submitted, target).take(rows)
    columns = {name: queries[name] for name in queries.column_names}
    columns["scores"] = target.stored(target.read(scores, "scores"))
    schema = typed(PREDICTION_SCHEMA, target)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def require_own(out: Path, model: str) -> None:
    """InputError where the rows that a submission would write are another model's: only a submission's give way."""
    layout = Layout(out)
    for path in sorted(layout.runs.glob("*.json")):
        if path.stem.lower() == model.lower():
            own = path.stem == model and parse(RunRecord, read_json(path), path).kind == "submitted"
            if not own:
                raise InputError(f"{path}: the rows of another model, expected a name of its own")
    # A model of the workflow's own has readouts before it has a run record.
    place = layout.at("folds", model)
    if any(place.glob("*/*/*/readout.safetensors")):
        raise InputError(f"{place}: the folds of another model, expected a name of its own")
