"""One model on one capture set: a pinned readout, fit on synthetic scenes, scored on both sides, and their gap.

The readout is fit on the TRAIN scenes of a set's twin, and scored on the twin's DEV scenes and on the captured ones. A
set in the release's own format has the release as its twin. The gap never enters an aggregate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.hashing import table_hash
from emma.captures.gap import SimToRealGap
from emma.captures.records import CaptureRecord, CaptureScores, ConversionRecord, GroupScore, SideHashes, SideScore
from emma.captures.settings import CaptureSet
from emma.data.embeddings import Embeddings
from emma.data.folds import fold_table
from emma.data.labels import label_field
from emma.data.provenance import Provenance
from emma.data.release import DataReleaseManifest, read_assigned
from emma.data.scenes import read_labelled
from emma.data.tables import matrix_to_lists
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.evaluation.scoring import point_score, score_predictions
from emma.metrics import METRICS
from emma.readouts import make_readout
from emma.results.layout import Layout
from emma.results.normalisation import normalise
from emma.tasks import Split, TaskSpec
from emma.version import HARNESS_VERSION


@dataclass(frozen=True)
class Side:
    """Scenes of one side: their index with its labels, and the embeddings that hold them."""

    index: pa.Table
    embeddings: Embeddings


def capture_spec(spec: TaskSpec, declared: CaptureSet) -> TaskSpec:
    """The task's pinned declaration with the set's shared classes and anchors, where its twin is its own."""
    if declared.twin == "release":
        return spec
    return TaskSpec.model_validate(dict(spec) | {"classes": declared.classes, "anchors": declared.anchors})


def score_capture(
    spec: TaskSpec,
    declared: CaptureSet,
    manifest: DataReleaseManifest,
    sides: tuple[Side, Side, Side],
    seed: int,
) -> tuple[CaptureScores, dict[str, pa.Table]]:
    """Fit on the twin's TRAIN scenes, score its DEV scenes and the captured ones.

    Args:
        spec: of ``capture_spec``.
        declared: the set.
        manifest: the release, for its bootstrap.
        sides: fit scenes, synthetic scored scenes, captured scenes.
        seed: the run's seed, which draws resamples.

    Returns:
        the scores, and the predictions by side, ``synth`` and ``captured``. The interval of the captured side is over
        sessions drawn whole, that of the synthetic side over scenes.

    Raises:
        InputError: the same samples on both sides, a label that the set does not declare, or an embedding missing.
    """
    predictions = predict_sides(spec, sides)
    return scored(spec, declared, manifest, predictions, sides[2].index, seed), predictions


def predict_sides(spec: TaskSpec, sides: tuple[Side, Side, Side]) -> dict[str, pa.Table]:
    """The predictions of ``score_capture`` by side, without their scores; the same arguments and errors."""
    fit, synth, captured = sides
    _apart(fit.index, synth.index, "the twin's scored scenes")
    _apart(fit.index, captured.index, "the captured scenes")
    train = fold_table(spec, fit.index, np.full(fit.index.num_rows, "fit"))
    readout = make_readout(spec)
    readout.fit(fit.embeddings.of(train["scene_id"]), np.asarray(train["target"]))
    predictions = {}
    for name, side in (("synth", synth), ("captured", captured)):
        rows = fold_table(spec, side.index, np.full(side.index.num_rows, "query"))
        session = pa.nulls(rows.num_rows, pa.string())
        if name == "captured":
            order = pc.index_in(rows["scene_id"], value_set=side.index["scene_id"].combine_chunks())
            session = side.index["session"].take(order)
        scores = matrix_to_lists(readout.scores(side.embeddings.of(rows["scene_id"])))
        columns = [rows["scene_id"], session, rows["target"], scores, pa.nulls(rows.num_rows, pa.int32())]
        predictions[name] = pa.table(columns, schema=PREDICTION_SCHEMA)
    return predictions


def scored(
    spec: TaskSpec,
    declared: CaptureSet,
    manifest: DataReleaseManifest,
    predictions: Mapping[str, pa.Table],
    captured: pa.Table,
    seed: int,
) -> CaptureScores:
    """The scores of both sides' predictions; ``captured`` is the labelled index of the captured scenes."""
    sides = {side: _side_score(spec, declared, manifest, side, table, seed) for side, table in predictions.items()}
    groups = {row["scene_id"]: _group(row["detail"]) for row in captured.select(["scene_id", "detail"]).to_pylist()}
    apart = {}
    for name in declared.apart:
        chosen = [groups[scene] == name for scene in predictions["captured"]["scene_id"].to_pylist()]
        part = predictions["captured"].filter(pa.array(chosen))
        if not part.num_rows:
            raise InputError(f"config/captures/{declared.name}.yaml: apart: no captured scene of {name}")
        metric = "PlainAccuracy" if spec.classes else spec.metric
        apart[name] = GroupScore(metric=metric, score=point_score(spec, metric, part), n=part.num_rows)
    synth, real = sides["synth"].normalized, sides["captured"].normalized
    return CaptureScores(
        synth=sides["synth"],
        captured=sides["captured"],
        apart=apart,
        gap_percentage_points=None if synth is None or real is None else SimToRealGap()(synth, real),
        hashes=SideHashes(**{side: table_hash(table) for side, table in predictions.items()}),
    )


def _side_score(
    spec: TaskSpec, declared: CaptureSet, manifest: DataReleaseManifest, side: str, table: pa.Table, seed: int
) -> SideScore:
    resamples = (manifest.bootstrap, (seed, "capture", declared.name, side))
    score, _ = score_predictions(spec, spec.metric, table, None, *resamples)
    scale = (spec.anchors, METRICS[spec.metric].direction)
    plain = bool(spec.classes) and spec.metric == "PlainAccuracy"
    return SideScore(
        **dict(score),
        normalized=None if score.score is None else normalise(score.score, *scale),
        sessions=len(set(table["session"].to_pylist())) if side == "captured" else None,
        balanced_accuracy=point_score(spec, "BalancedAccuracy", table) if plain else None,
    )


def _group(detail: str | None) -> str | None:
    group = None if detail is None else json.loads(detail).get("group")
    return None if group is None else str(group)


def read_sides(
    manifest: DataReleaseManifest,
    declared: CaptureSet,
    layout: Layout,
    model: str,
    eval_split: Split,
    embeddings: Embeddings,
) -> tuple[Side, Side, Side]:
    """Fit, synthetic and captured scenes of a model and set, as ``score_capture`` takes them.

    Args:
        manifest: the release.
        declared: the set.
        layout: where the release's results are.
        model: the model's name; its embeddings of the release are read where that is the twin.
        eval_split: the split that is scored where the release is the twin.
        embeddings: the model's embeddings of the set.
    """
    label = label_field(manifest.spec(declared.task))
    captured = Side(read_labelled(layout.capture_index(declared.name), label), embeddings)
    if declared.twin != "release":
        paths = (layout.twin_index(declared.name, split) for split in Layout.twin_splits)
        fit, synth = (Side(read_labelled(path, label), embeddings) for path in paths)
        return fit, synth, captured
    own = Embeddings.read(layout.embeddings(model, declared.task))
    fit, synth = (
        Side(read_assigned(manifest, declared.task, split, layout.index(declared.task, split)), own)
        for split in (Split.TRAIN, eval_split)
    )
    return fit, synth, captured


def _apart(fit: pa.Table, other: pa.Table, what: str) -> None:
    """InputError where scenes that are fit on are among those that are scored."""
    if pc.any(pc.is_in(other["iq_sha256"], value_set=fit["iq_sha256"].combine_chunks())).as_py():
        raise InputError(f"iq_sha256: {what} share samples with the scenes that the readout is fit on, expected none")


def capture_record(
    model: str,
    declared: CaptureSet,
    conversion: ConversionRecord,
    manifest: DataReleaseManifest,
    eval_split: Split,
    seed: int,
    scores: CaptureScores,
    provenance: Provenance,
) -> CaptureRecord:
    """The record of one model and set; ``scores`` are of ``scored``, or say why there are none."""
    return CaptureRecord(
        model=model,
        set=declared.name,
        task=declared.task,
        data_release_hash=manifest.data_release_hash,
        eval_split="holdout" if eval_split is Split.HOLDOUT else "dev",
        seed=seed,
        harness_version=HARNESS_VERSION,
        record_sha256=conversion.record_sha256,
        **dict(scores),
        model_provenance=provenance,
    )
