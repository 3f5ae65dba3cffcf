"""The probe report: every model under every probe, and the ranks that each probe would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from common.errors import InputError
from common.files import parse, read_json
from emma.data.provenance import Hash
from emma.data.release import DataReleaseManifest
from emma.evaluation.probes import ModelProbes, TaskProbes
from emma.metrics import METRICS
from emma.results.normalisation import normalise_clipped
from emma.tasks import Strict, TaskID

#: The key of the ranks of a model's normalised average over the tasks of the OOD average.
AVERAGE = "average"

CAVEATS = (
    "Probes are read beside the board and never enter it: no intervals, no ranks of their own.",
    "At another value of the regularisation, or fewer scenes, the head is not the one that the task pins.",
)


class ProbesReport(Strict):
    """``reports/probes.json``.

    ``ranks``: by probe, and by task or ``average``, the rank of each model of kind ``backbone`` that has a score (equal
    scores share the better rank). Probes: ``pinned``, ``neighbours``, ``regularisation K of L`` (the K-th weakest of the
    task's grid), ``scenes N`` (the mean over draws of N fit scenes).
    """

    release: str
    data_release_hash: Hash
    eval_split: Literal["dev", "holdout"]
    seed: int
    caveats: tuple[str, ...]
    models: dict[str, ModelProbes]
    ranks: dict[str, dict[str, dict[str, int]]]


def probes_report(manifest: DataReleaseManifest, paths: Sequence[Path]) -> ProbesReport:
    """Put the probes of all models together.

    Args:
        manifest: the data release.
        paths: files ``probes/MODEL.json``.

    Raises:
        InputError: a broken record, one of another release, split or seed than the others, or two of one model.
    """
    models: dict[str, ModelProbes] = {}
    for path in paths:
        record = parse(ModelProbes, read_json(path), path)
        if record.data_release_hash != manifest.data_release_hash:
            raise InputError(f"{path}: data_release_hash: expected {manifest.data_release_hash}, that of the release")
        if record.model in models:
            raise InputError(f"{path}: model: {record.model} is given twice, expected each once")
        first = next(iter(models.values()), record)
        if (record.eval_split, record.seed) != (first.eval_split, first.seed):
            raise InputError(f"{path}: eval_split, seed: expected {first.eval_split}, {first.seed} as of {first.model}")
        models[record.model] = record
    if not models:
        raise InputError("probes: no model, expected at least one")
    first = next(iter(models.values()))
    return ProbesReport(
        release=manifest.release,
        data_release_hash=manifest.data_release_hash,
        eval_split=first.eval_split,
        seed=first.seed,
        caveats=(*manifest.caveats, *CAVEATS),
        models=models,
        ranks=ranks_by_probe(manifest, models),
    )


def scores_of(task: TaskProbes) -> dict[str, float | None]:
    """The score of each probe by its name."""
    scores = {"pinned": task.pinned.score, "neighbours": task.neighbours.score}
    count = len(task.strengths)
    scores |= {f"regularisation {k} of {count}": each.probed.score for k, each in enumerate(task.strengths, 1)}
    scores |= {f"scenes {each.scenes}": each.mean for each in task.label_efficiency if each.scenes is not None}
    return scores


def ranks_by_probe(
    manifest: DataReleaseManifest, models: Mapping[str, ModelProbes]
) -> dict[str, dict[str, dict[str, int]]]:
    """Ranks of the backbones by probe and by task or ``average``, from their scores on the anchors' scale."""
    levels: dict[str, dict[str, dict[str, float]]] = {}
    averaged = {task for task, spec in manifest.tasks.items() if spec.in_ood_avg}
    for name, record in models.items():
        if record.kind != "backbone":
            continue
        own: dict[str, dict[TaskID, float]] = {}
        for task, probes in record.tasks.items():
            spec = manifest.tasks[task]
            for probe, score in scores_of(probes).items():
                if score is not None:
                    level = normalise_clipped(score, spec.anchors, METRICS[spec.metric].direction)
                    own.setdefault(probe, {})[task] = level
                    levels.setdefault(probe, {}).setdefault(task.value, {})[name] = level
        for probe, by_task in own.items():
            if averaged and averaged <= set(by_task):
                mean = sum(by_task[task] for task in sorted(averaged)) / len(averaged)
                levels[probe].setdefault(AVERAGE, {})[name] = mean
    return {
        probe: {place: _ranks(by_model) for place, by_model in sorted(by_place.items())}
        for probe, by_place in levels.items()
    }


def _ranks(levels: Mapping[str, float]) -> dict[str, int]:
    return {name: 1 + sum(other > level for other in levels.values()) for name, level in sorted(levels.items())}
