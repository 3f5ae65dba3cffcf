"""Write the train and eval scenes of every fold of one task: ids, roles and labels."""

from pathlib import Path

from common.errors import InputError, OneLineParser, natural, one_of, run_script
from emma.data.folds import write_side
from emma.data.protocols import protocol_named
from emma.data.release import load_manifest, read_assigned
from emma.data.tables import without_pandas
from emma.results.layout import Layout
from emma.tasks import Split, TaskID


def main() -> None:
    """Build each fold from the frozen indexes and write its two tables."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--task", required=True, help="a task of the release")
    parser.add_argument("--train-index", type=Path, required=True, help="index of the task's TRAIN scenes")
    parser.add_argument("--eval-index", type=Path, required=True, help="index of its evaluation scenes")
    parser.add_argument("--eval-split", type=one_of(Split), required=True, help="DEV or HOLDOUT")
    parser.add_argument("--seed", type=natural, required=True, help="the run's seed, which draws references")
    parser.add_argument("--out", type=Path, nargs="+", required=True, help="files PROTOCOL/VALUE/{train,eval}.parquet")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    spec, task = manifest.spec(arguments.task), TaskID(arguments.task)
    train = read_assigned(manifest, task, Split.TRAIN, arguments.train_index)
    evaluation = read_assigned(manifest, task, arguments.eval_split, arguments.eval_index)
    folds = {}
    for path in arguments.out:
        name, value = place = Layout.protocol_of(path)
        if path.name not in ("train.parquet", "eval.parquet"):
            raise InputError(f"{path}: expected train.parquet or eval.parquet")
        if place not in folds:
            protocol = protocol_named(name, spec, manifest.stress_regimes.get(task, ()))
            folds[place] = protocol.fold(value, train, evaluation, arguments.seed)
    for path in arguments.out:
        write_side(path, folds[Layout.protocol_of(path)], path.stem, manifest.data_release_hash)


if __name__ == "__main__":
    run_script(main)
