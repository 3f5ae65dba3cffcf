"""Score the folds of one model and task: one metrics file a fold, and the bootstrap replicates of all."""

from pathlib import Path

from common.errors import InputError, OneLineParser, natural, run_script
from common.files import write_json
from emma.data.protocols import InDistribution, place_of
from emma.data.release import load_manifest
from emma.data.tables import without_pandas
from emma.evaluation.fitting import check_complete, read_fitted
from emma.evaluation.metric_checks import check_metrics
from emma.evaluation.scoring import fold_metrics, score_task, write_replicates
from emma.tasks import TaskID


def main() -> None:
    """Read every fold's predictions, score them, write the metrics."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--model", required=True, help="the model's name")
    parser.add_argument("--task", required=True, help="a task of the release")
    files = "files PROTOCOL/VALUE/predictions.parquet, readouts beside them; with the in-distribution fold"
    parser.add_argument("--predictions", type=Path, nargs="+", required=True, help=files)
    sides = "files PROTOCOL/VALUE/eval.parquet of the same folds, which say what must be predicted"
    parser.add_argument("--folds", type=Path, nargs="+", required=True, help=sides)
    parser.add_argument("--metrics", type=Path, nargs="+", required=True, help="files PROTOCOL/VALUE/metrics.json")
    parser.add_argument("--seed", type=natural, required=True, help="the run's seed, which draws resamples")
    parser.add_argument("--replicates", type=Path, required=True, help="Parquet table of bootstrap replicates")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    spec, task = manifest.spec(arguments.task), TaskID(arguments.task)
    check_metrics({task: spec}, arguments.manifest)
    folds: dict[str, dict[str, tuple]] = {}
    provenance, sides = {}, {place_of(path): path for path in arguments.folds}
    for path in arguments.predictions:
        protocol, value = place_of(path)
        predictions, undefined, provenance[protocol, value] = read_fitted(
            path, manifest.data_release_hash, arguments.seed
        )
        if (protocol, value) not in sides:
            raise InputError(f"--folds: no {protocol}/{value}/eval.parquet, expected one a file of predictions")
        check_complete(path, predictions, sides[protocol, value])
        folds.setdefault(protocol, {})[value] = (predictions, undefined)
    wanted = {path: place_of(path) for path in arguments.metrics}
    for place in (*wanted.values(), (InDistribution.name, "all")):
        if place not in provenance:
            raise InputError(f"predictions: no {' '.join(place)}, expected among them")
    splits = {made["eval_split"] for made in provenance.values()}
    if len(splits) > 1:
        raise InputError("predictions: eval_split: both dev and holdout, expected one split")
    only = {protocol for protocol, _ in wanted.values()}
    results, replicates = score_task(spec, task, folds, manifest.bootstrap, arguments.seed, only=only)
    for path, (protocol, value) in wanted.items():
        record = fold_metrics(
            arguments.model, task, protocol, value, results[protocol][value], manifest, arguments.seed
        )
        write_json(path, record | provenance[protocol, value])
    write_replicates(arguments.replicates, replicates, record | provenance[protocol, value])


if __name__ == "__main__":
    run_script(main)
