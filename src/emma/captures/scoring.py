"""One model on one capture set: what its readouts predict of captured scenes, and the scores that follow.

A set in the release's own format is scored by the readouts of the release's folds, the same ones that the board scores
on held-out synthetic scenes. Any other set has a matched synthetic set: a readout is fit on that set's TRAIN scenes and
scored on its DEV scenes and on the captured ones. No gap enters an aggregate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.hashing import table_hash
from emma.captures.gap import SimToRealGap
from emma.captures.in_domain import IN_DOMAIN, SYNTHETIC, Side, in_domain, predicted, undefined_reason
from emma.captures.records import (
    CaptureRecord,
    CaptureScores,
    ConversionRecord,
    GroupScore,
    InDomain,
    SideScore,
)
from emma.captures.settings import CaptureSet
from emma.data.embeddings import Embeddings
from emma.data.labels import label_field
from emma.data.protocols import primary_protocol
from emma.data.provenance import Provenance
from emma.data.release import DataReleaseManifest, read_assigned
from emma.data.scenes import read_labelled
from emma.evaluation.fitting import read_readout
from emma.evaluation.records import Draws, Score
from emma.evaluation.scoring import interval_of, point_score, score_predictions
from emma.metrics import METRICS
from emma.readouts import Readout, make_readout
from emma.results.layout import Layout
from emma.results.normalisation import normalise
from emma.results.records import RunRecord, TaskRecord
from emma.tasks import Split, TaskSpec, target_of
from emma.version import HARNESS_VERSION

#: Predictions of the scored scenes of a matched synthetic set, and of the captured scenes: by one readout, or by
#: one of each fold of the release, whose held-out value follows.
SYNTH, CAPTURED = "synth", "captured"


@dataclass(frozen=True)
class Sides:
    """What a set is scored from.

    Attributes:
        fit: synthetic scenes that readouts are fit on: TRAIN of the matched synthetic set, or of the release; None for
            a set without a synthetic side.
        captured: the captured scenes.
        synth: scored scenes of the matched synthetic set; None for a set in the release's format.
        readouts: those of the release's folds by held-out value; none where the set has a matched synthetic set.
    """

    fit: Side | None
    captured: Side
    synth: Side | None = None
    readouts: Mapping[str, Readout] = field(default_factory=dict)


def unscored(embeddings: Embeddings, board: TaskRecord | None) -> str | None:
    """Why a model has no score on a set; None where it has one. ``board`` as ``board_record`` gives it."""
    if embeddings.unsuited is None and board is not None and board.score is None:
        return f"no score on the release's own scenes: {board.undefined}"
    return embeddings.unsuited


def capture_spec(spec: TaskSpec, declared: CaptureSet) -> TaskSpec:
    """The task's pinned declaration, with the set's classes and anchors where it is not in the release's format."""
    if declared.twin == "release":
        return spec
    own: dict[str, object] = {"classes": declared.classes, "anchors": declared.anchors}
    if target_of(spec).enrols:
        own["held_out"] = declared.classes  # units that are told apart are those that are scored
    return TaskSpec.model_validate(dict(spec) | own)


def predict_sides(spec: TaskSpec, declared: CaptureSet, sides: Sides, seed: int) -> dict[str, pa.Table]:
    """Every prediction that the scores of a set rest on, tables of PREDICTION_SCHEMA.

    Args:
        spec: of ``capture_spec``.
        declared: the set.
        sides: the scenes and the readouts.
        seed: the run's seed, which draws the synthetic scenes of the reference.

    Returns:
        by name: ``synth`` and ``captured``, or ``captured-VALUE`` for each fold of the release; and those of
        ``in_domain``, where they are defined.

    Raises:
        InputError: the same samples on both sides, a label that the set does not declare, or an embedding missing.
    """
    captured = sides.captured.lined(spec)
    if sides.fit is None:
        return in_domain(spec, declared.name, None, captured, seed)
    for other in (sides.captured, *([sides.synth] if sides.synth else [])):
        if pc.any(pc.is_in(other.index["iq_sha256"], value_set=sides.fit.index["iq_sha256"].combine_chunks())).as_py():
            raise InputError(
                f"{declared.name}: iq_sha256: scored scenes share samples with those that the readout is fit on, "
                "expected none"
            )
    fit, predictions = sides.fit.lined(spec), {}
    readouts = {f"{CAPTURED}-{value}": readout for value, readout in sides.readouts.items()}
    if sides.synth is not None:
        readout, synth = make_readout(spec).fit(fit.features, fit.target, fit.links), sides.synth.lined(spec)
        readouts = {CAPTURED: readout}
        predictions[SYNTH] = predicted(synth, synth.scores(readout), sessions=False)
    predictions |= {name: predicted(captured, captured.scores(one)) for name, one in readouts.items()}
    return predictions | in_domain(spec, declared.name, fit, captured, seed)


def scored(
    spec: TaskSpec,
    declared: CaptureSet,
    manifest: DataReleaseManifest,
    predictions: Mapping[str, pa.Table],
    captured: pa.Table,
    board: TaskRecord | None,
    seed: int,
) -> CaptureScores:
    """The scores of a set's predictions.

    Args:
        spec: of ``capture_spec``.
        declared: the set.
        manifest: the release, for its bootstrap.
        predictions: of ``predict_sides``.
        captured: the labelled index of the captured scenes.
        board: of ``board_record``: the synthetic score of a set in the release's format.
        seed: the run's seed, which draws resamples.

    Returns:
        the scores. The interval of the captured side is over sessions drawn whole; over the folds of the release, of
        their mean. That of a matched synthetic set is over scenes.
    """
    tables = [table for name, table in predictions.items() if name.partition("-")[0] == CAPTURED]
    reference = _reference(spec, declared, manifest, predictions, captured, seed)
    hashes = {name: table_hash(table) for name, table in predictions.items()}
    if not tables:
        reason = "no synthetic scenes are like this set's"
        return CaptureScores(in_domain=reference, undefined_reason=reason, hashes=hashes)
    if board is None:
        synth = _side(spec, declared, manifest, SYNTH, [predictions[SYNTH]], seed)
    else:
        synth = _board_side(spec, board)
    real = _side(spec, declared, manifest, CAPTURED, tables, seed)
    groups = {row["scene_id"]: _group(row["detail"]) for row in captured.select(["scene_id", "detail"]).to_pylist()}
    metric, apart = "PlainAccuracy" if spec.classes else spec.metric, {}
    for name in declared.apart:
        chosen = pa.array([groups[scene] == name for scene in tables[0]["scene_id"].to_pylist()])
        if not pc.any(chosen).as_py():
            raise InputError(f"config/captures/{declared.name}.yaml: apart: no captured scene of {name}")
        parts = [table.filter(chosen) for table in tables]
        apart[name] = GroupScore(metric=metric, score=_mean_point(spec, metric, parts), n=parts[0].num_rows)
    gap = None
    if synth.normalized is not None and real.normalized is not None:
        gap = SimToRealGap()(synth.normalized, real.normalized)
    return CaptureScores(
        synth=synth,
        captured=real,
        in_domain=reference,
        apart=apart,
        gap_percentage_points=gap,
        undefined_reason=None if gap is not None else synth.undefined_reason or real.undefined_reason,
        hashes=hashes,
    )


def _side(
    spec: TaskSpec, declared: CaptureSet, manifest: DataReleaseManifest, side: str, tables: list[pa.Table], seed: int
) -> SideScore:
    """The mean score of several readouts on the same scenes, with the interval of that mean."""
    resamples = (manifest.bootstrap, (seed, "capture", declared.name, side))
    every = [score_predictions(spec, spec.metric, table, None, *resamples) for table in tables]
    score = every[0][0]
    if len(every) > 1:
        draws = [drawn for _, drawn in every if drawn is not None]
        undefined = next((one.undefined_reason for one, _ in every if one.score is None), None)
        score = Score(score=None, n=score.n, ci95=None, undefined_reason=undefined)
        if undefined is None:
            mean = Draws(np.mean([drawn.bootstrap for drawn in draws], axis=0), draws[0].units)
            value = float(np.mean([one.score for one, _ in every]))
            score = score.model_copy(
                update={"score": value, "ci95": interval_of(spec, spec.metric, value, mean, manifest.bootstrap.level)}
            )
    plain = bool(spec.classes) and spec.metric == "PlainAccuracy"
    return SideScore(
        **dict(score),
        normalized=_normalised(spec, score.score),
        sessions=len(set(tables[0]["session"].to_pylist())) if side != SYNTH else None,
        balanced_accuracy=_mean_point(spec, "BalancedAccuracy", tables) if plain else None,
    )


def _board_side(spec: TaskSpec, board: TaskRecord) -> SideScore:
    """The board's own score of a task, on the anchors' scale without a cut."""
    return SideScore(
        score=board.score,
        n=sum(record.n for record in board.values.values()),
        ci95=None,
        undefined_reason=board.undefined,
        normalized=_normalised(spec, board.score),
        sessions=None,
    )


def _normalised(spec: TaskSpec, score: float | None) -> float | None:
    return None if score is None else normalise(score, spec.anchors, METRICS[spec.metric].direction)


def _mean_point(spec: TaskSpec, metric: str, tables: list[pa.Table]) -> float | None:
    scores = [point_score(spec, metric, table) for table in tables]
    return None if None in scores else float(np.mean(np.array(scores, np.float64)))


def score_capture(
    spec: TaskSpec,
    declared: CaptureSet,
    manifest: DataReleaseManifest,
    sides: Sides,
    board: TaskRecord | None,
    seed: int,
) -> tuple[CaptureScores, dict[str, pa.Table]]:
    """``predict_sides``, and ``scored`` of what it gives: the scores and the predictions by name."""
    predictions = predict_sides(spec, declared, sides, seed)
    return scored(spec, declared, manifest, predictions, sides.captured.index, board, seed), predictions


def _reference(
    spec: TaskSpec,
    declared: CaptureSet,
    manifest: DataReleaseManifest,
    predictions: Mapping[str, pa.Table],
    captured: pa.Table,
    seed: int,
) -> InDomain:
    if IN_DOMAIN not in predictions:
        return InDomain(undefined_reason=undefined_reason(spec, captured))
    own, synthetic = (
        _side(spec, declared, manifest, name, [predictions[name]], seed) if name in predictions else None
        for name in (IN_DOMAIN, SYNTHETIC)
    )
    return InDomain(captured=own, synthetic=synthetic)


def _group(detail: str | None) -> str | None:
    group = None if detail is None else json.loads(detail).get("group")
    return None if group is None else str(group)


def board_record(declared: CaptureSet, run: Callable[[], RunRecord]) -> TaskRecord | None:
    """The model's scores on the release's own scenes, for a set in the release's format; None for any other.

    Args:
        declared: the set.
        run: what reads the model's run record, which only such a set needs.
    """
    return run().tasks[declared.task] if declared.twin == "release" else None


def read_sides(
    manifest: DataReleaseManifest, declared: CaptureSet, layout: Layout, model: str, embeddings: Embeddings
) -> Sides:
    """The scenes and readouts of a model and set, as ``predict_sides`` takes them.

    Args:
        manifest: the release.
        declared: the set.
        layout: where the release's results are.
        model: the model's name; its embeddings and readouts of the release are read for a set in its format.
        embeddings: the model's embeddings of the set.
    """
    spec = manifest.spec(declared.task)
    label = label_field(spec)
    captured = Side(read_labelled(layout.capture_index(declared.name), label), embeddings)
    if declared.twin == "none":
        return Sides(None, captured)
    if declared.matched:
        paths = (layout.twin_index(declared.name, split) for split in Layout.twin_splits)
        fit, synth = (Side(read_labelled(path, label), embeddings) for path in paths)
        return Sides(fit, captured, synth)
    train = read_assigned(manifest, declared.task, Split.TRAIN, layout.index(declared.task, Split.TRAIN))
    protocol = primary_protocol(spec)
    readouts = {
        value: read_readout(spec, layout.readout(model, declared.task, protocol.name, value))
        for value in protocol.eval_values()
    }
    return Sides(Side(train, Embeddings.read(layout.embeddings(model, declared.task))), captured, None, readouts)


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
