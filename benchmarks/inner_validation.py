"""A fold's fit with its inner cross-validation against one fit at the value that it chose, on embeddings at hand."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from fit_job import FOLDS
from measuring import Figure, deliver, figure, in_turn, parser, results_of

from emma.data.draws import link_groups
from emma.data.embeddings import Embeddings
from emma.data.release import load_manifest
from emma.data.scenes import read_index
from emma.data.tables import rows_of
from emma.readouts import make_readout
from emma.tasks import target_of

#: Most times as long as one fit, by kind of readout and whether there are two classes.
TARGETS = {"ridge": 1.5, "logistic 2": 10.0, "logistic 11": 3.0, "discriminant": 3.0}


def fold_figure(results: Path, model: str, fold: tuple[str, str, str], runs: int) -> Figure:
    """Time one fold's fit both ways."""
    spec = load_manifest(results / "release/manifest.json").spec(fold[0])
    train = pq.read_table(results / "splits" / Path(*fold) / "train.parquet")
    index = read_index(results / f"scenes/{fold[0]}/TRAIN.index.parquet")
    groups = link_groups(index)[rows_of(index["scene_id"], train["scene_id"], "index")]
    features = Embeddings.read(results / f"embeddings/{model}/{fold[0]}.parquet").of(train["scene_id"])
    target = target_of(spec).numbers(train["target"])
    chosen = make_readout(spec).fit(features, target, groups).regularisation
    ours, other = in_turn(
        lambda: make_readout(spec).fit(features, target, groups),
        lambda: make_readout(spec).fixed(chosen).fit(features, target, groups),
        runs,
    )
    kind = spec.readout.kind if spec.readout.kind != "logistic" else f"logistic {len(spec.classes)}"
    what = f"fit with inner cross-validation, {model}, {fold[0]} ({kind}), {len(features)} x {features.shape[1]}"
    checks = {"chosen": chosen, "values": len(spec.readout.regularisation)}
    limit = TARGETS.get(kind, max(TARGETS.values()))
    return figure(
        "inner_validation",
        what,
        "one fit at the chosen value",
        ours=ours,
        other=other,
        target=limit,
        sense="at most",
        checks=checks,
    )


def main() -> None:
    """Time a fold of every kind of readout, for two models."""
    options = parser(__doc__, 5, tree=True).parse_args()
    warnings.simplefilter("ignore")
    results = results_of(options.tree, options.release)
    folds, models = (FOLDS[:1], ("dsp",)) if options.tiny else (FOLDS, ("dsp", "ssl_conv"))
    np.seterr(all="ignore")
    deliver([fold_figure(results, model, fold, options.runs) for model in models for fold in folds], options)


if __name__ == "__main__":
    main()
