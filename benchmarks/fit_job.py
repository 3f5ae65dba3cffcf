"""A whole fit job, interpreter start included, against the same program with scikit-learn's estimators."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from measuring import ROOT, Figure, Runs, deliver, figure, job, parser, processes_in_turn, results_of
from safetensors.numpy import load_file

from emma.data.embeddings import Embeddings
from emma.data.release import load_manifest
from emma.readouts import load_readout
from emma.readouts.cross_entropy import CrossEntropy

#: Task, protocol, held-out value: one per kind of readout.
FOLDS = (
    ("E-LOC-AOA", "leave-one-environment-out", "E_URBAN"),
    ("E-LOC-LOS", "leave-one-environment-out", "E_URBAN"),
    ("E-ID-AMC", "leave-one-snr-regime-out", "low"),
    ("E-ID-FP", "leave-one-unit-out", "U01"),
)


def arguments(results: Path, model: str, fold: tuple[str, str, str]) -> list[str | Path]:
    """Options of the fit program for one fold, but for its outputs."""
    task, protocol, value = fold
    sides, scenes = results / "splits" / task / protocol / value, results / "scenes" / task
    return [
        *("--manifest", results / "release/manifest.json", "--task", task, "--protocol", protocol, "--value", value),
        *("--train", sides / "train.parquet", "--eval", sides / "eval.parquet", "--eval-split", "DEV"),
        *("--train-index", scenes / "TRAIN.index.parquet", "--eval-index", scenes / "DEV.index.parquet"),
        *("--embeddings", results / f"embeddings/{model}/{task}.parquet"),
    ]


def objective(results: Path, model: str, fold: tuple[str, str, str], readout: Path) -> float | None:
    """The logistic objective that a job's readout reaches on the fold's train scenes; None for other readouts."""
    spec = load_manifest(results / "release/manifest.json").spec(fold[0])
    if spec.readout.kind != "logistic":
        return None
    table = pq.read_table(results / "splits" / Path(*fold) / "train.parquet")
    head = load_readout(spec, load_file(readout))
    features = Embeddings.read(results / f"embeddings/{model}/{fold[0]}.parquet").of(table["scene_id"])
    classes, count = np.asarray(table["target"]).astype(int), len(spec.classes)
    weights = (
        (1.0 / np.bincount(classes, minlength=count))[classes] if spec.readout.class_balanced else np.ones(len(classes))
    )
    loss = CrossEntropy(
        head._standardised(features),
        classes,
        weights / weights.sum(),
        head.regularisation,
        1 if count == 2 else count,
    )
    return loss.value_and_gradient(np.vstack([head.tensors["weights"], head.tensors["intercept"]]))[0]


def fold_figure(tree: Path, results: Path, model: str, fold: tuple[str, str, str], runs: int) -> Figure:
    """Time one fold on both sides."""
    with tempfile.TemporaryDirectory() as folder:
        programs = {"ours": ROOT / "scripts/fit_fold.py", "other": ROOT / "benchmarks/fit_fold_sklearn.py"}

        def run(side: str) -> Runs:
            outputs = ("--readout", f"{folder}/{side}/r.safetensors", "--predictions", f"{folder}/{side}/p.parquet")
            return job(["python", programs[side], *arguments(results, model, fold), *outputs], tree)

        ours, other = processes_in_turn([lambda: run("ours"), lambda: run("other")], runs)
        made = [pq.read_table(f"{folder}/{side}/p.parquet") for side in programs]
        reached = [objective(results, model, fold, Path(folder) / side / "r.safetensors") for side in programs]
    scores = [np.array(table["scores"].to_pylist()) for table in made]
    if fold[0] == "E-LOC-AOA":
        apart = np.abs((scores[0] - scores[1] + 180) % 360 - 180).max()
    elif fold[0] == "E-ID-FP":
        # The two scale a direction differently: the unit that is nearest counts.
        apart = (scores[0].argmax(axis=1) != scores[1].argmax(axis=1)).mean()
    else:
        chances = [np.exp(s - np.logaddexp.reduce(s, axis=1, keepdims=True)) if s.shape[1] > 1 else s for s in scores]
        apart = np.abs(chances[0] - chances[1]).max()
    checks = {"scores_differ_by": float(apart), "peak_mib": max(ours.peak)}
    if reached[0] is not None:
        checks |= {"objective": reached[0], "objective_equal": bool(abs(reached[1] - reached[0]) < 1e-6 * reached[0])}
    what = f"fit job, {model}, {fold[0]}"
    return figure(
        "fit_job", what, "with scikit-learn", ours=ours, other=other, target=2.0, sense="at least", checks=checks
    )


def main() -> None:
    """Time one job of every kind of readout."""
    options = parser(__doc__, 5, tree=True).parse_args()
    results = results_of(options.tree, options.release)
    folds = FOLDS[:1] if options.tiny else FOLDS
    deliver([fold_figure(options.tree, results, "ssl_conv", fold, options.runs) for fold in folds], options)


if __name__ == "__main__":
    main()
