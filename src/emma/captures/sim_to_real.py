"""From captured scenes to the sim-to-real gap: one pinned readout, fit on synthetic scenes, scored on both sides.

The readout is fit on the TRAIN scenes of a set's twin, and scored on the twin's DEV scenes and on the captured ones. A
set in the release's own format has the release as its twin. The gap never enters an aggregate.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.files import parse, read_json
from emma.captures.gap import SimToRealGap
from emma.captures.settings import CaptureSet
from emma.data.embeddings import Embeddings
from emma.data.protocols import fold_table
from emma.data.release import DataReleaseManifest, read_assigned
from emma.data.scenes import read_index
from emma.data.tables import matrix_to_lists
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.evaluation.scoring import point_value, score_predictions
from emma.metrics import METRICS
from emma.readouts import make_readout
from emma.results.aggregate import normalise
from emma.results.records import RunRecord, SimToReal, TaskGap
from emma.tasks import Split, TaskID, TaskSpec
from emma.version import HARNESS_VERSION

#: Why a task has no set, where that is the nature of what is public.
_NO_SET = {TaskID.E_ID_FP: "no public set records the same devices over sessions and receivers"}


@dataclass(frozen=True)
class Side:
    """Scenes of one side: their index and the embeddings that hold them."""

    index: pa.Table
    embeddings: Embeddings


def capture_spec(spec: TaskSpec, declared: CaptureSet) -> TaskSpec:
    """The task's pinned declaration with the set's shared classes and anchors, where its twin is its own."""
    if declared.twin == "release":
        return spec
    changed = {"classes": declared.classes, "anchors": declared.anchors.model_dump()}
    return TaskSpec.model_validate(spec.model_dump() | changed)


def score_capture(
    spec: TaskSpec,
    declared: CaptureSet,
    manifest: DataReleaseManifest,
    sides: tuple[Side, Side, Side],
    seed: int,
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Fit on the twin's TRAIN scenes, score its DEV scenes and the captured ones.

    Args:
        spec: of ``capture_spec``.
        declared: the set.
        manifest: the release, for its bootstrap.
        sides: fit scenes, synthetic scored scenes, captured scenes.
        seed: the run's seed, which draws resamples.

    Returns:
        ``{"synth", "captured", "apart", "gap_percentage_points"}``, and the predictions by side. The interval of the
        captured side is over sessions drawn whole, that of the synthetic side over scenes.

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
        columns = [rows["scene_id"], session, rows["target"], scores]
        predictions[name] = pa.table(columns, schema=PREDICTION_SCHEMA)
    return predictions


def scored(
    spec: TaskSpec,
    declared: CaptureSet,
    manifest: DataReleaseManifest,
    predictions: Mapping[str, pa.Table],
    captured: pa.Table,
    seed: int,
) -> dict[str, Any]:
    """The record of both sides' predictions; ``captured`` is the index of the captured scenes."""
    groups = {row["scene_id"]: _group(row["detail"]) for row in captured.select(["scene_id", "detail"]).to_pylist()}
    record: dict[str, Any] = {}
    direction = METRICS[spec.metric].direction
    for side, table in predictions.items():
        seeded = (seed, "capture", declared.name, side)
        value, _ = score_predictions(spec, spec.metric, table, None, manifest.bootstrap, seeded)
        level = None if value["value"] is None else float(normalise(value["value"], spec.anchors, direction))
        sessions = len(set(table["session"].to_pylist())) if side == "captured" else None
        record[side] = {**value, "normalized": level, "sessions": sessions}
        if spec.classes and spec.metric == "PlainAccuracy":
            record[side]["balanced_accuracy"] = point_value(spec, "BalancedAccuracy", table)
    record["apart"] = {}
    for name in declared.apart:
        chosen = [groups[scene] == name for scene in predictions["captured"]["scene_id"].to_pylist()]
        part = predictions["captured"].filter(pa.array(chosen))
        if not part.num_rows:
            raise InputError(f"config/captures/{declared.name}.yaml: apart: no captured scene of {name}")
        metric = "PlainAccuracy" if spec.classes else spec.metric
        record["apart"][name] = {"metric": metric, "value": point_value(spec, metric, part), "n": part.num_rows}
    levels = [record[side]["normalized"] for side in ("synth", "captured")]
    record["gap_percentage_points"] = None if None in levels else SimToRealGap()(*levels)
    return record


def _group(detail: str | None) -> str | None:
    return None if detail is None else json.loads(detail).get("group")


def read_sides(
    manifest: DataReleaseManifest,
    declared: CaptureSet,
    results: Path,
    model: str,
    eval_split: Split,
    embeddings: Embeddings,
) -> tuple[Side, Side, Side]:
    """Fit, synthetic and captured scenes of a model and set, as ``score_capture`` takes them.

    Args:
        manifest: the release.
        declared: the set.
        results: the release's results, with ``captures/SET/``.
        model: the model's name; its embeddings of the release are read where that is the twin.
        eval_split: the split that is scored where the release is the twin.
        embeddings: the model's embeddings of the set.
    """
    folder = results / "captures" / declared.name
    captured = Side(read_index(folder / "index.parquet"), embeddings)
    if declared.twin != "release":
        paths = (folder / "twin" / f"{split}.index.parquet" for split in ("TRAIN", "DEV"))
        fit, synth = (Side(read_index(path), embeddings) for path in paths)
        return fit, synth, captured
    own = Embeddings.read(results / "embeddings" / model / f"{declared.task}.parquet")
    scenes = results / "scenes" / declared.task
    fit, synth = (
        Side(read_assigned(manifest, declared.task, split, scenes / f"{split}.index.parquet"), own)
        for split in (Split.TRAIN, eval_split)
    )
    return fit, synth, captured


def _apart(fit: pa.Table, other: pa.Table, what: str) -> None:
    """InputError where scenes that are fit on are among those that are scored."""
    if pc.any(pc.is_in(other["iq_sha256"], value_set=fit["iq_sha256"].combine_chunks())).as_py():
        raise InputError(f"iq_sha256: {what} share samples with the scenes that the readout is fit on, expected none")


def sim_to_real_report(
    manifest: DataReleaseManifest,
    sets: Mapping[str, tuple[CaptureSet, Mapping[str, Any]]],
    records: Sequence[Mapping[str, Any]],
    release_scores: Mapping[str, Mapping[TaskID, float | None]],
    eval_split: str,
    seed: int,
) -> dict[str, Any]:
    """``results/reports/sim_to_real.json``.

    Args:
        manifest: the release.
        sets: declaration and conversion record by set.
        records: one a model and set, as ``capture_record`` makes them.
        release_scores: the release's own score by model and task, shown beside and never subtracted.
        eval_split: DEV or HOLDOUT.
        seed: the run's seed.

    Raises:
        InputError: records of another release, seed or set, or a pair of model and set twice.
    """
    kind = "real" if any(declared.kind == "real" for declared, _ in sets.values()) else "surrogate"
    models: dict[str, dict[str, Any]] = {model: {} for model in release_scores}
    for record in records:
        where = f"{record['model']} {record['set']}"
        wanted = {"data_release_hash": manifest.data_release_hash, "seed": seed, "eval_split": eval_split.lower()}
        wanted |= {"record_sha256": sets[record["set"]][1]["record_sha256"]}
        for key, value in wanted.items():
            if record[key] != value:
                raise InputError(f"{where}: {key}: {record[key]}, expected {value}: records of mixed provenance")
        if record["set"] in models[record["model"]]:
            raise InputError(f"{where}: stands twice, expected one record a model and set")
        declared = sets[record["set"]][0]
        beside = release_scores[record["model"]].get(declared.task)
        kept = {
            key: record[key] for key in ("synth", "captured", "apart", "gap_percentage_points", "undefined", "hashes")
        }
        models[record["model"]][record["set"]] = {"task": declared.task.value, **kept, "release_score": beside}
    return {
        "release": manifest.release,
        "data_release_hash": manifest.data_release_hash,
        "eval_split": eval_split.lower(),
        "seed": seed,
        "harness_version": HARNESS_VERSION,
        "kind": kind,
        "sets": {name: _set_record(manifest, *pair) for name, pair in sets.items()},
        "models": {
            model: {**model_gap(manifest, kind, sets, found).model_dump(mode="json"), "sets": found}
            for model, found in models.items()
        },
    }


def _set_record(manifest: DataReleaseManifest, declared: CaptureSet, record: Mapping[str, Any]) -> dict[str, Any]:
    spec = capture_spec(manifest.spec(declared.task), declared)
    return {
        "kind": declared.kind,
        "task": declared.task.value,
        "adapter": record["adapter"],
        "licence": declared.licence,
        "demonstration": declared.demonstration,
        "caveats": list(declared.caveats),
        "metric": spec.metric,
        "unit": spec.unit,
        "classes": list(spec.classes),
        "anchors": spec.anchors.model_dump(),
        "scenes": record["scenes"],
        "sessions": record["sessions"],
        "record_sha256": record["record_sha256"],
        "declared": declared.model_dump(mode="json"),
    }


def model_gap(
    manifest: DataReleaseManifest,
    kind: str,
    sets: Mapping[str, tuple[CaptureSet, Any]],
    found: Mapping[str, Mapping[str, Any]],
) -> SimToReal:
    """A model's gap: the mean over tasks that have both sides of the mean over that task's sets of the wanted kind."""
    tasks: dict[TaskID, TaskGap] = {}
    for task in manifest.tasks:
        mine = {name: d for name, (d, _) in sets.items() if d.task is task and d.kind == kind}
        counted = [name for name, d in mine.items() if not d.demonstration and name in found]
        gaps = {name: found[name]["gap_percentage_points"] for name in counted}
        defined = [name for name, gap in gaps.items() if gap is not None]
        reason = None
        if not mine:
            reason = _NO_SET.get(task, f"no {kind} set is configured for this task")
        elif not counted:
            shown = all(declared.demonstration for declared in mine.values())
            reason = "the only set is a demonstration" if shown else "the model does not take this task"
        elif not defined:
            reason = "; ".join(sorted({str(found[name]["undefined"]) for name in counted}))
        gap = float(np.mean([gaps[name] for name in defined])) if defined else None
        tasks[task] = TaskGap(gap_percentage_points=gap, sets=tuple(defined), undefined=reason)
    values = [record.gap_percentage_points for record in tasks.values() if record.gap_percentage_points is not None]
    return SimToReal(
        kind=kind,
        gap_percentage_points=float(np.mean(values)) if values else None,
        undefined=None if values else "no task has both sides",
        tasks=tasks,
    )


def read_gaps(path: Path, manifest: DataReleaseManifest, runs: Mapping[str, RunRecord]) -> dict[str, SimToReal]:
    """The board's sim-to-real blocks by model, from the report.

    Raises:
        InputError: no such report, or one of another release, seed or split than the runs.
    """
    report = read_json(path)
    first = next(iter(runs.values()))
    wanted = {"data_release_hash": manifest.data_release_hash, "seed": first.run_manifest.seed}
    wanted |= {"eval_split": first.eval_split}
    for key, value in wanted.items():
        if not isinstance(report, dict) or report.get(key) != value:
            raise InputError(f"{path}: {key}: expected {value}, that of the runs")
    blocks = {model: {key: block[key] for key in SimToReal.model_fields} for model, block in report["models"].items()}
    return {model: parse(SimToReal, block, f"{path}: models.{model}") for model, block in blocks.items()}


def capture_record(
    model: str,
    declared: CaptureSet,
    conversion: Mapping[str, Any],
    manifest: DataReleaseManifest,
    eval_split: str,
    seed: int,
    content: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """``metrics.json`` of one model and set; ``content`` is of ``scored``, or the reason that there is none."""
    empty = {
        "synth": None,
        "captured": None,
        "apart": {},
        "gap_percentage_points": None,
        "undefined": None,
        "hashes": None,
    }
    return {
        "model": model,
        "set": declared.name,
        "task": declared.task.value,
        "data_release_hash": manifest.data_release_hash,
        "eval_split": eval_split.lower(),
        "seed": seed,
        "harness_version": HARNESS_VERSION,
        "record_sha256": conversion["record_sha256"],
        **empty,
        **content,
        "model_provenance": dict(provenance),
    }


def report_text(report: Mapping[str, Any]) -> str:
    """The report as a Markdown table: a row a model and set, then what each set is and its caveats."""
    kind = report["kind"]
    lines = [f"# Sim-to-real gap of release {report['release']} ({kind} captures)", ""]
    if kind == "surrogate":
        lines += ["Surrogate: no real captures are configured; these sets are synthetic.", ""]
    head = ["model", "set", "kind", "task", "metric", "synth", "captured", "95 % over sessions", "gap, points", "n"]
    head += ["sessions", "licence"]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for model, block in report["models"].items():
        for name, found in block["sets"].items():
            declared = report["sets"][name]
            cells = [model, name, declared["kind"] + (", demonstration" if declared["demonstration"] else "")]
            cells += [found["task"], declared["metric"]]
            if found["undefined"] is None:
                captured, interval = found["captured"], found["captured"]["ci95"]
                cells += [_number(found["synth"]["value"]), _number(captured["value"])]
                cells += ["-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"]
                cells += [_number(found["gap_percentage_points"], 1), str(captured["n"]), str(captured["sessions"])]
            else:
                cells += ["-", "-", "-", found["undefined"], "-", "-"]
            lines.append("| " + " | ".join([*cells, declared["licence"]]) + " |")
    lines += ["", "| model | gap, points | tasks |", "|---|---|---|"]
    for model, block in report["models"].items():
        tasks = [task for task, gap in block["tasks"].items() if gap["gap_percentage_points"] is not None]
        gap = _number(block["gap_percentage_points"], 1)
        lines.append(f"| {model} | {gap} | {', '.join(tasks) or block['undefined']} |")
    reasons = Counter(
        (task, gap["undefined"]) for block in report["models"].values() for task, gap in block["tasks"].items()
    )
    absent = sorted({f"- {task}: {reason}" for task, reason in reasons if reason})
    lines += ["", "Tasks without a gap, for some or all models:", "", *absent] if absent else []
    for name, declared in report["sets"].items():
        lines += [
            "",
            f"## {name} ({declared['kind']})",
            "",
            f"{declared['declared']['source']}. Licence: {declared['licence']}.",
        ]
        lines += ["", *(f"- {caveat}" for caveat in declared["caveats"])]
    return "\n".join(lines) + "\n"


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
