"""What the board says of single models, beside what the release says of all: read off their run records alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from emma.data.provenance import Pretraining
from emma.data.release import DataReleaseManifest
from emma.metrics import METRICS
from emma.results.records import RANKED, RunRecord, TaskRecord


#: Why predictions alone have no rank on DEV.
PUBLIC_LABELS = "predictions alone, of scenes whose labels are public"

#: How near a score is to the best that its metric can give, of the metric's span, to be perfect.
_PERFECT = 1e-9


def model_caveats(manifest: DataReleaseManifest, runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """Sentences for the board: ends of grids, declarations that met nothing, equal models, devices, standings."""
    own = (*_edges(manifest, runs), *_unmatched(runs), *_alike(runs), *_devices(runs))
    return (*own, *_open(runs), *_submitted(runs), *_perfect(runs))


def row_caveats(runs: Sequence[RunRecord]) -> dict[str, tuple[str, ...]]:
    """Sentences for single rows by model: predictions that are another row's, perfect scores, what cannot be seen."""
    told: dict[str, list[str]] = {run.model: [] for run in runs}
    for run in runs:
        if run.kind == "submitted":
            told[run.model].append(_SUBMITTED[run.apart])
        for other in runs:
            tasks = _equal_tasks(run, other) if run is not other and not {run.kind, other.kind}.isdisjoint(RANKED) else []
            if tasks and _same(run, other):
                told[run.model].append(f"The same predictions throughout as {other.model}.")
            elif tasks and "submitted" in {run.kind, other.kind}:
                told[run.model].append(f"The same predictions on {_listed(tasks)} as {other.model}.")
        if tasks := _perfect_tasks(run):
            told[run.model].append(f"Every fold of {_listed(tasks)} is at the best that its metric can give.")
    return {model: tuple(sentences) for model, sentences in told.items()}


#: What is said of predictions alone, by whether their scenes' labels are public.
_SUBMITTED = {
    True: "Predictions alone, and the labels of DEV are public: nothing here shows that a model made them.",
    False: "Predictions alone: neither features nor readouts were seen here.",
}


def _submitted(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Rows that rest on predictions alone."""
    own = [run for run in runs if run.kind == "submitted"]
    if not own:
        return ()
    named = f"{_listed([run.model for run in own])} {'was' if len(own) == 1 else 'were'} submitted. "
    apart = " Such rows are listed apart, without a rank, and change no other row's." if own[0].apart else ""
    return (named + _SUBMITTED[own[0].apart] + apart,)


def _perfect(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Models with perfect scores."""
    told = [f"{run.model} ({', '.join(tasks)})" for run in runs if (tasks := _perfect_tasks(run))]
    if not told:
        return ()
    return (f"Every fold is at the best that its metric can give, as with copied labels, of {_listed(told)}.",)


def _perfect_tasks(run: RunRecord) -> list[str]:
    """Tasks of a competing row on which every held-out value has the metric's best score."""
    return [task.value for task, block in run.tasks.items() if _is_perfect(block)] if run.kind in RANKED else []


def _is_perfect(block: TaskRecord) -> bool:
    low, high = METRICS[block.metric].bounds
    best = high if block.direction == "higher" else low
    scores = [value.score for value in block.values.values()]
    if not math.isfinite(high - low) or not scores:
        return False
    return all(score is not None and abs(score - best) <= _PERFECT * (high - low) for score in scores)


def _open(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Models that nothing but good will kept from the files of results while they embedded."""
    told = [run.model for run in runs if run.run_manifest.model_provenance.isolation == "none"]
    if not told:
        return ()
    return (f"Nothing kept {_listed(told)} from the files of results in the process that embedded: the system lacks Landlock or seccomp.",)


def _edges(manifest: DataReleaseManifest, runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Which ranked models chose an end of the pinned grid, beyond which another value might have done better."""
    told = []
    for run in (run for run in runs if run.kind in RANKED):
        chosen = [
            fold.regularisation in (grid[0], grid[-1])
            for task, block in run.tasks.items()
            for grid in [manifest.spec(task).readout.regularisation]
            for record in (block, *block.secondary.values())
            for fold in record.values.values()
            if fold.regularisation is not None and len(grid) > 1
        ]
        if any(chosen):
            told.append(f"{run.model} in {sum(chosen)} of {len(chosen)} folds")
    if not told:
        return ()
    return (f"The regularisation was chosen at an end of its grid by {', '.join(told)}.",)


def _unmatched(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Ranked models that declare what pretraining saw, of which this release holds out nothing."""
    told = []
    for run in (run for run in runs if run.kind in RANKED):
        declared = run.run_manifest.model_provenance.pretraining
        met = (
            fold.met_in_pretraining
            for block in run.tasks.values()
            for record in (block, *block.secondary.values())
            for fold in record.values.values()
        )
        if isinstance(declared, Pretraining) and declared.declares and not any(met):
            told.append(run.model)
    if not told:
        return ()
    return (f"No held-out value of this release is among what {_listed(told)} declared of pretraining.",)


def _alike(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Models with the same predictions on every task that they share, of which one competes or more."""
    groups: list[list[RunRecord]] = []
    for run in runs:
        alike = next((group for group in groups if _same(group[0], run)), None)
        if alike is None:
            groups.append([run])
        else:
            alike.append(run)
    return tuple(
        f"{_listed([run.model for run in group])} have the same predictions throughout: one network under several names, "
        "weights that nothing reads, or a copy."
        for group in groups
        if len(group) > 1 and any(run.kind in RANKED for run in group)
    )


def _same(one: RunRecord, other: RunRecord) -> bool:
    hashes, others = (run.run_manifest.prediction_bundle_hashes for run in (one, other))
    shared = hashes.keys() & others.keys()
    return bool(shared) and len(_equal_tasks(one, other)) == len(shared)


def _equal_tasks(one: RunRecord, other: RunRecord) -> list[str]:
    """Tasks on which two runs have the same predictions."""
    hashes, others = (run.run_manifest.prediction_bundle_hashes for run in (one, other))
    return [task.value for task in hashes if task in others and hashes[task] == others[task]]


def _devices(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Models of any kind whose embeddings were not made on a CPU."""
    devices = {run.model: run.run_manifest.model_provenance.device for run in runs}
    told = [f"{model} ({device})" for model, device in devices.items() if device != "cpu"]
    if not told:
        return ()
    return (f"Embeddings of {_listed(told)} were made on another device than a CPU, which gives scores near these.",)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
