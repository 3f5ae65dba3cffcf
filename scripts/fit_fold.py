"""Guard one fold, fit its readout, predict its eval scenes."""

from pathlib import Path

import pyarrow as pa
from threadpoolctl import threadpool_limits

from common.errors import OneLineParser, run_script
from emma.data.embeddings import Embeddings
from emma.data.folds import read_fold
from emma.data.protocols import protocol_named
from emma.data.release import load_manifest, read_assigned
from emma.data.tables import without_pandas
from emma.evaluation.fitting import fit_fold, write_fitted
from emma.tasks import Split, TaskID


def main() -> None:
    """Fit one fold and write its readout and predictions, both or neither."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--task", required=True, help="a task of the release")
    parser.add_argument("--protocol", required=True, help="one of the task's protocols")
    parser.add_argument("--value", required=True, help="the held-out value")
    parser.add_argument("--train", type=Path, required=True, help="the fold's train scenes")
    parser.add_argument("--eval", type=Path, required=True, help="the fold's eval scenes")
    parser.add_argument("--train-index", type=Path, required=True, help="index of the task's TRAIN scenes")
    parser.add_argument("--eval-index", type=Path, required=True, help="index of its evaluation scenes")
    parser.add_argument("--eval-split", type=Split, required=True, help="DEV or HOLDOUT")
    parser.add_argument("--embeddings", type=Path, required=True, help="the model's embeddings of the task")
    parser.add_argument("--readout", type=Path, required=True, help="the fitted readout, safetensors")
    parser.add_argument("--predictions", type=Path, required=True, help="its predictions, one row per scored scene")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    spec, task = manifest.spec(arguments.task), TaskID(arguments.task)
    protocol = protocol_named(arguments.protocol, spec, manifest.stress_regimes.get(task, ()))
    train = read_assigned(manifest, task, Split.TRAIN, arguments.train_index)
    evaluation = read_assigned(manifest, task, arguments.eval_split, arguments.eval_index)
    place = (arguments.protocol, arguments.value)
    fold = read_fold(arguments.train, arguments.eval, *place, manifest.data_release_hash)
    wanted = pa.chunked_array([*fold.train["scene_id"].chunks, *fold.eval["scene_id"].chunks], pa.string())
    embeddings = Embeddings.read(arguments.embeddings, wanted)
    with threadpool_limits(1):
        fitted = fit_fold(spec, protocol, fold, (train, evaluation), embeddings)
    files = arguments.readout, arguments.predictions
    write_fitted(*files, fitted, manifest.data_release_hash, embeddings.provenance)


if __name__ == "__main__":
    run_script(main)
