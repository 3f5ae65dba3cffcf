"""Guard folds of one held-out value, fit their readouts, predict their eval scenes."""

from pathlib import Path

import pyarrow as pa

from common.errors import InputError, OneLineParser, one_of, run_script
from common.threads import one_thread
from emma.data.embeddings import Embeddings
from emma.data.folds import read_fold
from emma.data.protocols import protocol_named
from emma.data.release import load_manifest, read_assigned
from emma.data.tables import without_pandas
from emma.evaluation.fitting import fit_fold, write_fitted
from emma.tasks import Split, TaskID


def main() -> None:
    """Fit each fold and write its readout and predictions, both or neither."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--task", required=True, help="a task of the release")
    parser.add_argument("--protocol", nargs="+", required=True, help="protocols of the task, one per fold")
    parser.add_argument("--value", required=True, help="the held-out value")
    parser.add_argument("--train", type=Path, nargs="+", required=True, help="train scenes of each fold")
    parser.add_argument("--eval", type=Path, nargs="+", required=True, help="eval scenes of each fold")
    parser.add_argument("--train-index", type=Path, required=True, help="index of the task's TRAIN scenes")
    parser.add_argument("--eval-index", type=Path, required=True, help="index of its evaluation scenes")
    parser.add_argument("--eval-split", type=one_of(Split), required=True, help="DEV or HOLDOUT")
    parser.add_argument("--embeddings", type=Path, required=True, help="the model's embeddings of the task")
    parser.add_argument("--readout", type=Path, nargs="+", required=True, help="each fitted readout, safetensors")
    predictions = "predictions of each, one row per scored scene"
    parser.add_argument("--predictions", type=Path, nargs="+", required=True, help=predictions)
    arguments = parser.parse_args()
    places = (arguments.protocol, arguments.train, arguments.eval, arguments.readout, arguments.predictions)
    if len({len(place) for place in places}) != 1:
        raise InputError("--protocol, --train, --eval, --readout, --predictions: expected as many of each")
    manifest = load_manifest(arguments.manifest)
    release = manifest.data_release_hash
    spec, task = manifest.spec(arguments.task), TaskID(arguments.task)
    protocols = [protocol_named(name, spec, manifest.stress_regimes.get(task, ())) for name in arguments.protocol]
    train = read_assigned(manifest, task, Split.TRAIN, arguments.train_index)
    evaluation = read_assigned(manifest, task, arguments.eval_split, arguments.eval_index)
    sides = zip(arguments.train, arguments.eval, arguments.protocol, strict=True)
    folds = [read_fold(*files, name, arguments.value, release) for *files, name in sides]
    scenes = [chunk for fold in folds for side in (fold.train, fold.eval) for chunk in side["scene_id"].chunks]
    embeddings = Embeddings.read(arguments.embeddings, pa.chunked_array(scenes, pa.string()), bounded=True)
    with one_thread():
        fitted = [
            fit_fold(spec, protocol, fold, (train, evaluation), embeddings)
            for protocol, fold in zip(protocols, folds, strict=True)
        ]
    for *files, made in zip(arguments.readout, arguments.predictions, fitted, strict=True):
        write_fitted(*files, made, release, embeddings.provenance)


if __name__ == "__main__":
    run_script(main)
