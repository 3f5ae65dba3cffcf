"""Score the folds of one model and task: one metrics file per fold, and the bootstrap replicates of all."""

from pathlib import Path

from common.errors import InputError, OneLineParser, natural, run_script
from common.files import write_json
from emma.data.protocols import reference_name
from emma.data.release import load_manifest
from emma.data.tables import without_pandas
from emma.evaluation.fitting import Predicted, PredictedFold, check_complete, read_fitted
from emma.evaluation.replicates import ReplicateSource, write_replicates
from emma.evaluation.scoring import fold_record, score_task
from emma.evaluation.task_metrics import check_metrics
from emma.results.layout import Layout
from emma.tasks import TaskID


def main() -> None:
    """Read every fold's predictions, score them, write the metrics."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--model", required=True, help="the model's name")
    parser.add_argument("--task", required=True, help="a task of the release")
    files = "files PROTOCOL/VALUE/predictions.parquet, readouts beside them; with those of their references"
    parser.add_argument("--predictions", type=Path, nargs="+", required=True, help=files)
    sides = "files PROTOCOL/VALUE/eval.parquet of the same folds, which say what must be predicted"
    parser.add_argument("--folds", type=Path, nargs="+", required=True, help=sides)
    parser.add_argument("--metrics", type=Path, nargs="+", required=True, help="files PROTOCOL/VALUE/metrics.json")
    parser.add_argument("--seed", type=natural, required=True, help="the run's seed, which draws resamples")
    parser.add_argument("--replicates", type=Path, required=True, help="Parquet table of bootstrap replicates")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    release = manifest.data_release_hash
    spec, task = manifest.spec(arguments.task), TaskID(arguments.task)
    check_metrics({task: spec}, arguments.manifest)
    folds: dict[tuple[str, str], PredictedFold] = {}
    sides = {Layout.protocol_of(path): path for path in arguments.folds}
    for path in arguments.predictions:
        place = Layout.protocol_of(path)
        folds[place] = read_fitted(path, release, arguments.seed)
        if place not in sides:
            raise InputError(f"--folds: no {'/'.join(place)}/eval.parquet, expected one per file of predictions")
        check_complete(path, folds[place].predictions, sides[place], *place)
    scored = {path: Layout.protocol_of(path) for path in arguments.metrics}
    for place in dict.fromkeys(
        each for name, value in scored.values() for each in ((name, value), (reference_name(spec, name), value))
    ):
        if place not in folds:
            raise InputError(f"predictions: no {' '.join(place)}, expected among them")
    splits = {fold.eval_split for fold in folds.values()}
    if len(splits) > 1:
        raise InputError("predictions: eval_split: both dev and holdout, expected one split")
    inputs: dict[str, dict[str, Predicted]] = {}
    for (protocol, value), fold in folds.items():
        inputs.setdefault(protocol, {})[value] = fold.predicted
    only = {protocol for protocol, _ in scored.values()}
    scores, replicates = score_task(spec, task, inputs, manifest.bootstrap, arguments.seed, only=only)
    for path, place in scored.items():
        record = fold_record(arguments.model, task, place, scores, folds[place], release, arguments.seed)
        write_json(path, record.model_dump(mode="json"))
    made = (arguments.model, task.value, release, arguments.seed, splits.pop())
    write_replicates(arguments.replicates, replicates, ReplicateSource(*made))


if __name__ == "__main__":
    run_script(main)
