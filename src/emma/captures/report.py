"""The sim-to-real report: every model on every capture set, and each model's gap, which enters no aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from common.errors import InputError
from common.files import parse, read_json
from emma.captures.records import (
    CaptureRecord,
    CaptureScores,
    ConversionRecord,
    ModelGaps,
    ModelSet,
    SetRecord,
    SimToRealReport,
)
from emma.captures.scoring import capture_spec
from emma.captures.settings import CaptureSet
from emma.data.release import DataReleaseManifest
from emma.results.records import RunRecord, SimToReal, TaskGap
from emma.tasks import Split, TaskID
from emma.version import HARNESS_VERSION

#: Why a task has no set, where that is the nature of what is public.
_NO_SET = {TaskID.E_ID_FP: "no public set records the same devices over sessions and receivers"}


def sim_to_real_report(
    manifest: DataReleaseManifest,
    sets: Mapping[str, tuple[CaptureSet, ConversionRecord]],
    records: Sequence[CaptureRecord],
    release_scores: Mapping[str, Mapping[TaskID, float | None]],
    eval_split: Split,
    seed: int,
) -> SimToRealReport:
    """Put the records of every model and set together.

    Args:
        manifest: the release.
        sets: declaration and conversion record by set.
        records: one per model and set.
        release_scores: the release's own score by model and task, shown beside and never subtracted.
        eval_split: DEV or HOLDOUT.
        seed: the run's seed.

    Raises:
        InputError: records of another release, seed or set, or a pair of model and set twice.
    """
    kind: Literal["real", "surrogate"]
    kind = "real" if any(declared.kind == "real" for declared, _ in sets.values()) else "surrogate"
    split: Literal["dev", "holdout"] = "holdout" if eval_split is Split.HOLDOUT else "dev"
    models: dict[str, dict[str, ModelSet]] = {model: {} for model in release_scores}
    for record in records:
        where = f"{record.model} {record.set}"
        declared, conversion = sets[record.set]
        expected = {
            "data_release_hash": manifest.data_release_hash,
            "seed": seed,
            "eval_split": split,
            "record_sha256": conversion.record_sha256,
        }
        for key, value in expected.items():
            if getattr(record, key) != value:
                actual = getattr(record, key)
                raise InputError(f"{where}: {key}: {actual}, expected {value}: records of mixed provenance")
        if record.set in models[record.model]:
            raise InputError(f"{where}: occurs twice, expected one record per model and set")
        scores = {name: getattr(record, name) for name in CaptureScores.model_fields}
        beside = release_scores[record.model].get(declared.task)
        models[record.model][record.set] = ModelSet(**scores, task=declared.task, release_score=beside)
    return SimToRealReport(
        release=manifest.release,
        data_release_hash=manifest.data_release_hash,
        eval_split=split,
        seed=seed,
        harness_version=HARNESS_VERSION,
        kind=kind,
        sets={name: _set_record(manifest, *pair) for name, pair in sets.items()},
        models={
            model: ModelGaps(**dict(model_gap(manifest, kind, sets, scores)), sets=scores)
            for model, scores in models.items()
        },
    )


def _set_record(manifest: DataReleaseManifest, declared: CaptureSet, conversion: ConversionRecord) -> SetRecord:
    spec = capture_spec(manifest.spec(declared.task), declared)
    return SetRecord(
        kind=declared.kind,
        task=declared.task,
        adapter=conversion.adapter,
        licence=declared.licence,
        demonstration=declared.demonstration,
        caveats=declared.caveats,
        metric=spec.metric,
        unit=spec.unit,
        classes=spec.classes,
        anchors=spec.anchors,
        scenes=conversion.scenes,
        sessions=conversion.sessions,
        record_sha256=conversion.record_sha256,
        declared=declared,
    )


def model_gap(
    manifest: DataReleaseManifest,
    kind: Literal["real", "surrogate"],
    sets: Mapping[str, tuple[CaptureSet, object]],
    scores: Mapping[str, CaptureScores],
) -> SimToReal:
    """A model's gap: the mean over tasks that have both sides of the mean over that task's sets of one kind."""
    tasks: dict[TaskID, TaskGap] = {}
    for task in manifest.tasks:
        mine = {name: d for name, (d, _) in sets.items() if d.task is task and d.kind == kind}
        counted = [name for name, d in mine.items() if not d.demonstration and name in scores]
        gaps = {name: gap for name in counted if (gap := scores[name].gap_percentage_points) is not None}
        reason = None
        if not mine:
            reason = _NO_SET.get(task, f"no {kind} set is configured for this task")
        elif not counted:
            shown = all(declared.demonstration for declared in mine.values())
            reason = "the only set is a demonstration" if shown else "the model does not take this task"
        elif not gaps:
            reason = "; ".join(sorted({str(scores[name].undefined_reason) for name in counted}))
        gap = float(np.mean(list(gaps.values()))) if gaps else None
        tasks[task] = TaskGap(gap_percentage_points=gap, sets=tuple(gaps), undefined=reason)
    values = [record.gap_percentage_points for record in tasks.values() if record.gap_percentage_points is not None]
    return SimToReal(
        kind=kind,
        gap_percentage_points=float(np.mean(values)) if values else None,
        undefined=None if values else "no task has both sides",
        tasks=tasks,
    )


def read_report(path: Path, data_release_hash: str, seed: int, eval_split: str) -> SimToRealReport:
    """Read the report.

    Raises:
        InputError: no such report, or one of another release, seed or split than the board's.
    """
    report = parse(SimToRealReport, read_json(path), path)
    expected = {"data_release_hash": data_release_hash, "seed": seed, "eval_split": eval_split}
    for key, value in expected.items():
        if getattr(report, key) != value:
            raise InputError(f"{path}: {key}: expected {value}, that of the runs")
    return report


def read_gaps(path: Path, manifest: DataReleaseManifest, runs: Mapping[str, RunRecord]) -> dict[str, SimToReal]:
    """The board's sim-to-real blocks by model, from the report; raises what ``read_report`` raises."""
    first = next(iter(runs.values()))
    report = read_report(path, manifest.data_release_hash, first.run_manifest.seed, first.eval_split)
    return {model: gaps.block for model, gaps in report.models.items()}


def report_text(report: SimToRealReport) -> str:
    """The report as a Markdown table: one row per model and set, then what each set is and its caveats."""
    lines = [f"# Sim-to-real gap of release {report.release} ({report.kind} captures)", ""]
    if report.kind == "surrogate":
        lines += ["Surrogate: no real captures are configured; these sets are synthetic.", ""]
    head = ["model", "set", "kind", "task", "metric", "synth", "captured", "95 % over sessions", "gap, points", "n"]
    head += ["sessions", "licence"]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for model, gaps in report.models.items():
        for name, scores in gaps.sets.items():
            lines.append("| " + " | ".join([model, name, *_cells(report.sets[name], scores)]) + " |")
    lines += ["", "| model | gap, points | tasks |", "|---|---|---|"]
    for model, gaps in report.models.items():
        tasks = [task.value for task, gap in gaps.tasks.items() if gap.gap_percentage_points is not None]
        lines.append(f"| {model} | {_number(gaps.gap_percentage_points, 1)} | {', '.join(tasks) or gaps.undefined} |")
    every = [item for gaps in report.models.values() for item in gaps.tasks.items()]
    absent = sorted({f"- {task.value}: {gap.undefined}" for task, gap in every if gap.undefined})
    lines += ["", "Tasks without a gap, for some or all models:", "", *absent] if absent else []
    for name, about in report.sets.items():
        lines += ["", f"## {name} ({about.kind})", "", f"{about.declared.source}. Licence: {about.licence}."]
        lines += ["", *(f"- {caveat}" for caveat in about.caveats)]
    return "\n".join(lines) + "\n"


def _cells(about: SetRecord, scores: ModelSet) -> list[str]:
    kind = about.kind + (", demonstration" if about.demonstration else "")
    cells = [kind, scores.task.value, about.metric]
    if scores.synth is None or scores.captured is None:
        return [*cells, "-", "-", "-", str(scores.undefined_reason), "-", "-", about.licence]
    captured, interval = scores.captured, scores.captured.ci95
    cells += [_number(scores.synth.score), _number(captured.score)]
    cells += ["-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"]
    cells += [_number(scores.gap_percentage_points, 1), str(captured.n), str(captured.sessions)]
    return [*cells, about.licence]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
