"""What the board says of single models, beside what the release says of all: read off their run records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emma.data.provenance import Pretraining
from emma.data.release import DataReleaseManifest
from emma.results.records import RANKED, RunRecord


def model_caveats(manifest: DataReleaseManifest, runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """Sentences for the board: ends of grids, declarations that met nothing, equal models, devices."""
    return (*_edges(manifest, runs), *_unmatched(runs), *_alike(runs), *_devices(runs))


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
    """Ranked models with the same predictions on every task that they share: equal embeddings under several names."""
    groups: list[list[RunRecord]] = []
    for run in (run for run in runs if run.kind in RANKED):
        alike = next((group for group in groups if _same(group[0], run)), None)
        if alike is None:
            groups.append([run])
        else:
            alike.append(run)
    return tuple(
        f"{_listed([run.model for run in group])} have the same predictions throughout: one network under several names, "
        "or weights that nothing reads."
        for group in groups
        if len(group) > 1
    )


def _same(one: RunRecord, other: RunRecord) -> bool:
    hashes, others = (run.run_manifest.prediction_bundle_hashes for run in (one, other))
    shared = hashes.keys() & others.keys()
    return bool(shared) and all(hashes[task] == others[task] for task in shared)


def _devices(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Models of any kind whose embeddings were not made on a CPU."""
    devices = {run.model: run.run_manifest.model_provenance.device for run in runs}
    told = [f"{model} ({device})" for model, device in devices.items() if device != "cpu"]
    if not told:
        return ()
    return (f"Embeddings of {_listed(told)} were made on another device than a CPU, which gives scores near these.",)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
