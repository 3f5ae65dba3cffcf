"""The sim-to-real report: every model on every capture set, and each model's gap, which enters no aggregate."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
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
from emma.results.records import Gap, RunRecord, SimToReal, TaskGap
from emma.tasks import Split, TaskID
from emma.version import HARNESS_VERSION

Kind = Literal["real", "surrogate"]

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
    kind: Kind = "real" if any(declared.kind == "real" for declared, _ in sets.values()) else "surrogate"
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
        caveats=(*declared.caveats, *conversion.caveats),
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
    kind: Kind,
    sets: Mapping[str, tuple[CaptureSet, object]],
    scores: Mapping[str, CaptureScores],
) -> SimToReal:
    """A model's gaps: means over the tasks of the OOD average of the means over a task's sets of one kind."""
    tasks = {}
    for task in manifest.tasks:
        mine = {name: declared for name, (declared, _) in sets.items() if declared.task is task}
        own, matched = (_task_gap(task, kind, mine, scores, matched=matched) for matched in (False, True))
        tasks[task] = TaskGap(**dict(own), matched=matched)
    scored = {task: gap for task, gap in tasks.items() if manifest.tasks[task].in_ood_avg}
    none = "no scored task has both sides"
    own = _mean_gap({task.value: gap.gap_percentage_points for task, gap in scored.items()}, none)
    matched = _mean_gap({task.value: gap.matched.gap_percentage_points for task, gap in scored.items()}, none)
    return SimToReal(**dict(own), matched=matched, kind=kind, tasks=tasks)


def _mean_gap(points: Mapping[str, float | None], none: str) -> Gap:
    """The mean over the gaps that are defined, which are named; ``none`` says why there is none."""
    known = {name: gap for name, gap in points.items() if gap is not None}
    mean = float(np.mean(list(known.values()))) if known else None
    return Gap(gap_percentage_points=mean, over=tuple(known), undefined=None if known else none)


def _task_gap(
    task: TaskID, kind: Kind, sets: Mapping[str, CaptureSet], scores: Mapping[str, CaptureScores], *, matched: bool
) -> Gap:
    """The mean over a task's sets, either of those in the release's format or of those with a matched synthetic set."""
    mine = {name: d for name, d in sets.items() if d.kind == kind and d.matched is matched}
    counted = [name for name, declared in mine.items() if not declared.demonstration and name in scores]
    if not mine:
        others = any(declared.kind == kind for declared in sets.values())
        form = "with a matched synthetic set" if matched else "in the release's format"
        reason = f"no {kind} set {form}" if others else _NO_SET.get(task, f"no {kind} set is configured for this task")
    elif not counted:
        shown = all(declared.demonstration for declared in mine.values())
        reason = "the only set is a demonstration" if shown else "the model does not take this task"
    else:
        reason = "; ".join(sorted({str(scores[name].undefined_reason) for name in counted}))
    return _mean_gap({name: scores[name].gap_percentage_points for name in counted}, reason)


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
    """The report as Markdown tables: gaps by model, scores by model and set, then what each set is and its caveats."""
    lines = [f"# Sim-to-real gap of release {report.release} ({report.kind} captures)", ""]
    if report.kind == "surrogate":
        lines += ["Surrogate: no real captures are configured; these sets are synthetic.", ""]
    lines += _table(["model", "gap, points", "over", "matched gap, points", "over"])
    for model, gaps in report.models.items():
        cells = [cell for gap in (gaps, gaps.matched) for cell in _gap_cells(gap)]
        lines.append(_row([model, *cells]))
    lines += ["", *_table([*_ABOUT, *_SCORES])]
    for model, gaps in report.models.items():
        lines += [_row([model, name, *_cells(report.sets[name], scores)]) for name, scores in gaps.sets.items()]
    every = [item for gaps in report.models.values() for item in gaps.tasks.items()]
    none = ((task, gap.undefined) for task, gap in every if gap.undefined and gap.matched.undefined)
    absent = sorted({f"- {task.value}: {reason}" for task, reason in none})
    lines += ["", "Tasks without a gap, for some or all models:", "", *absent] if absent else []
    for name, about in report.sets.items():
        lines += [
            "",
            f"## {name} ({about.kind})",
            "",
            f"{_plain(about.declared.source)}. Licence: {_plain(about.licence)}.",
        ]
        lines += ["", *(f"- {_plain(caveat)}" for caveat in about.caveats)]
    return "\n".join(lines) + "\n"


_ABOUT = ("model", "set", "kind", "task", "metric")
_SCORES = (
    "synthetic",
    "captured",
    "95 % over sessions",
    "fit on captured scenes",
    "fit on as many synthetic",
    "gap, points",
    "n",
    "sessions",
    "licence",
)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """A text of a set in one line of Markdown, where it is no markup, link or end of a cell."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", escaped)


def _table(head: Sequence[str]) -> list[str]:
    return [_row(head), "|" + "---|" * len(head)]


def _gap_cells(gap: Gap) -> list[str]:
    return [_number(gap.gap_percentage_points, 1), ", ".join(gap.over) or str(gap.undefined)]


def _cells(about: SetRecord, scores: ModelSet) -> list[str]:
    kind = about.kind + (", demonstration" if about.demonstration else "")
    cells = [kind, scores.task.value, about.metric]
    captured, within, gap = scores.captured, scores.in_domain, scores.gap_percentage_points
    interval = None if captured is None else captured.ci95
    reference = [None, None] if within is None else [within.captured, within.synthetic]
    own, other, *references = (None if side is None else side.score for side in (scores.synth, captured, *reference))
    cells += [_number(own), _number(other), "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"]
    cells += [*map(_number, references), str(scores.undefined_reason) if gap is None else _number(gap, 1)]
    return [*cells, str(about.scenes), str(about.sessions), about.licence]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
