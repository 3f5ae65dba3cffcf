"""The job that fits a fold, as a warm worker runs it, against the same job with scikit-learn's estimators.

Both sides run in this process, with their libraries loaded: reading, guards, the fit, its five refits, writing.
"""

import contextlib
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from fit_fold_sklearn import one_value, scikit_learn
from measuring import ROOT, Figure, deliver, figure, in_turn, parser, results_of
from scipy.special import expit

#: The program's own ``main``.
PROGRAM = runpy.run_path(str(ROOT / "scripts/fit_fold.py"))["main"]

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


def scores_of(path: Path) -> np.ndarray:
    """Scores of a file of predictions."""
    return np.array(pq.read_table(path)["scores"].to_pylist())


def apart(task: str, scores: list[np.ndarray]) -> float:
    """How far two fits' predictions are from each other: degrees, share of captures, or probability."""
    if task == "E-LOC-AOA":
        return float(np.abs((scores[0] - scores[1] + 180) % 360 - 180).max())
    if task == "E-ID-FP":
        # The two scale a direction differently: the unit that is nearest counts.
        return float((scores[0].argmax(axis=1) != scores[1].argmax(axis=1)).mean())
    chances = [
        np.exp(s - np.logaddexp.reduce(s, axis=1, keepdims=True)) if s.shape[1] > 1 else expit(s) for s in scores
    ]
    return float(np.abs(chances[0] - chances[1]).max())


def fold_figures(results: Path, model: str, fold: tuple[str, str, str], runs: int) -> list[Figure]:
    """Time one fold's job on both sides: at one value of the regularisation, and with its choice."""
    made = []
    for what, target, setting in (("at one value", 1.0, one_value), ("with its choice", 2.0, contextlib.nullcontext)):
        with tempfile.TemporaryDirectory() as folder:

            def job(side: str, folder: str = folder, setting: Callable[..., Any] = setting) -> None:
                outputs = ("--readout", f"{folder}/{side}/r.safetensors", "--predictions", f"{folder}/{side}/p.parquet")
                words = [str(word) for word in (*arguments(results, model, fold), *outputs)]
                with patch.object(sys, "argv", ["fit_fold.py", *words]), setting():
                    PROGRAM()

            def other(job: Callable[[str], None] = job) -> None:
                with scikit_learn():
                    job("other")

            ours, theirs = in_turn(lambda job=job: job("ours"), other, runs)
            differ = apart(fold[0], [scores_of(Path(folder) / side / "p.parquet") for side in ("ours", "other")])
        made.append(
            figure(
                "fit_job",
                f"fit job {what}, libraries loaded, {model}, {fold[0]}",
                "with scikit-learn",
                ours=ours,
                other=theirs,
                target=target,
                sense="at least",
                checks={"scores_differ_by": differ},
            )
        )
    return made


def main() -> None:
    """Time one job of every kind of readout."""
    options = parser(__doc__, 5, tree=True).parse_args()
    results = results_of(options.tree, options.release)
    folds = FOLDS[:1] if options.tiny else FOLDS
    deliver([each for fold in folds for each in fold_figures(results, "ssl_conv", fold, options.runs)], options)


if __name__ == "__main__":
    main()
