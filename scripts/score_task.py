"""Score the folds of one model and task: one metrics file a fold, and the bootstrap replicates of all."""

import argparse
from pathlib import Path

from emma.files import run_script, write_json
from emma.folds import read_fitted
from emma.release import load_manifest
from emma.scoring import fold_metrics, score_task, write_replicates
from emma.tasks import TaskID


def main() -> None:
    """Read every fold's predictions, score them, write the metrics."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--model", required=True, help="the model's name")
    parser.add_argument("--task", required=True, help="a task of the release")
    parser.add_argument("--folder", type=Path, required=True, help="folder PROTOCOL/VALUE/predictions.parquet")
    parser.add_argument("--folds", nargs="+", required=True, help="PROTOCOL/VALUE of each fold to score")
    parser.add_argument("--reference", help="PROTOCOL/VALUE of the in-distribution fold, where it is not scored itself")
    parser.add_argument("--seed", type=int, required=True, help="the run's seed, which draws resamples")
    parser.add_argument("--replicates", type=Path, required=True, help="Parquet table of bootstrap replicates")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    spec, task = manifest.spec(arguments.task), TaskID(arguments.task)
    scored = [fold.split("/") for fold in arguments.folds]
    wanted = scored if arguments.reference is None else [*scored, arguments.reference.split("/")]
    folds: dict[str, dict[str, tuple]] = {}
    provenance = {}
    for protocol, value in wanted:
        folder = arguments.folder / protocol / value
        predictions, undefined, provenance[protocol, value] = read_fitted(folder, manifest.data_release_hash)
        folds.setdefault(protocol, {})[value] = (predictions, undefined)
    only = {protocol for protocol, _ in scored}
    results, replicates = score_task(spec, task, folds, manifest.bootstrap, arguments.seed, only=only)
    for protocol, value in scored:
        record = fold_metrics(
            arguments.model, task, protocol, value, results[protocol][value], manifest, arguments.seed
        )
        write_json(arguments.folder / protocol / value / "metrics.json", record | provenance[protocol, value])
    write_replicates(arguments.replicates, replicates)


if __name__ == "__main__":
    run_script(main)
