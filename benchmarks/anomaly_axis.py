"""E-SC-ANOM: what floor, textbooks, statistics and truth score on each unseen value, and what unseen costs.

    python benchmarks/anomaly_axis.py [--axis waveform] [--dev 640] [--components 256] [--noise 0] [--rows dsp]

AUROC of the pinned readout, fit on the normal TRAIN scenes of the other families or receivers of v1.0, and the cost
against as many fit scenes of all of them, on the same scenes, with the standard error of the paired difference (DeLong,
DeLong and Clarke-Pearson, Biometrics 44, 1988). By kind: the chance that an anomaly outscores the normal scenes of its
fold whose family can show the kind. The network alone is trained on anomalies, half of as many scenes as are scored.
"""

import argparse
import itertools
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from emma.backbones.classical import anomaly
from emma.backbones.config import load_model_config
from emma.backbones.dsp import build
from emma.backbones.load import load_backbone
from emma.data.extends import read_extended
from emma.data.release import load_release_config
from emma.readouts import make_readout
from emma.tasks import TaskID
from rfgen.recipe import Recipe
from rfgen.scenes import generate, truths
from rfgen.waveforms.intrusions import NEEDS

CONFIG = Path(__file__).parents[1] / "config"
TASK = TaskID.E_SC_ANOM


class Network:
    """Two hidden layers of 256 units, trained on labelled scenes."""

    def fit(self, features, target):
        """Train on features ``[N, D]`` and who is anomalous ``[N]``."""
        self.mean, self.scale = features.mean(axis=0), features.std(axis=0) + 1e-9
        options = {"batch_size": 64, "alpha": 1e-3, "max_iter": 60, "early_stopping": True, "random_state": 0}
        self.net = MLPClassifier(hidden_layer_sizes=(256, 256), **options)
        self.net.fit((features - self.mean) / self.scale, target)
        return self

    def scores(self, features):
        """Log odds ``[N, 1]``."""
        shares = np.clip(self.net.predict_proba((features - self.mean) / self.scale), 1e-12, None)
        return np.log(shares[:, 1:] / shares[:, :1])


class Side:
    """Scenes of a split: samples, who is anomalous, kind, axes and truth."""

    def __init__(self, recipe, split, seed):
        chunks = list(generate(recipe, TASK.value, split, None, seed))
        self.iq = np.concatenate([chunk.iq for chunk in chunks])
        self.kind = np.concatenate([chunk.labels["detail"] for chunk in chunks])
        self.wrong = self.kind != "normal"
        self.axes = {
            axis: np.concatenate([chunk.metadata[axis] for chunk in chunks]) for axis in ("receiver", "waveform")
        }
        self.truth = np.concatenate(list(truths(recipe, TASK.value, split, None, seed)))

    def embedded(self, backbone):
        """Features ``[N, D]``."""
        parts = [backbone.embed(self.iq[k : k + 100], 2e7, 2.44e9) for k in range(0, len(self.iq), 100)]
        return np.concatenate(parts).astype(float)


def placements(scores, wrong):
    """Share of normal scenes below each anomaly, and of anomalies above each normal scene; ties one half."""
    above = np.sign(scores[wrong][:, None] - scores[~wrong]) / 2 + 0.5
    return above.mean(axis=1), above.mean(axis=0)


def kind_rank(scores, kind, family):
    """By kind, the share of normal scenes below each anomaly, those of families that can show the kind."""
    found = {}
    for name in sorted(set(kind) - {"normal"}):
        told = np.isin(family, NEEDS.get(name, family)) & np.isin(kind, ["normal", name])
        found[name] = placements(scores[told], kind[told] == name)[0]
    return found


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axis", choices=("waveform", "receiver"), default="waveform", help="what is held out")
    parser.add_argument("--dev", type=int, default=640, help="scored scenes a receiver, a multiple of 40")
    parser.add_argument("--noise", type=int, default=0, help="columns of noise beside the statistics of dsp")
    parser.add_argument(
        "--components", type=int, nargs="*", default=[], help="numbers of components, for the pinned one"
    )
    parser.add_argument("--rows", nargs="*", default=[], help="rows that are shown, for all")
    options = parser.parse_args()
    threadpool_limits(1)
    path = CONFIG / "releases" / "v1.0.yaml"
    data, config = read_extended(path)["rfgen"], load_release_config(path)
    spec, block = config.tasks[TASK], data["tasks"][TASK.value]
    data |= {"environments": {}, "tasks": {TASK.value: block}}
    block["scenes"] |= {"DEV": options.dev}
    recipe = Recipe.from_mapping(data)
    train, dev = (Side(recipe, split, config.seed) for split in ("TRAIN", "DEV"))
    block["anomalous_share"] = 0.5
    shown = Side(Recipe.from_mapping(data), "DEV", config.seed + 1)
    rng = np.random.default_rng(0)

    def of(backbone):
        return [side.embedded(backbone) for side in (train, dev)]

    dsp = of(build())
    own = [anomaly.band_energies(), anomaly.spectral_kurtosis(), build()]
    rows = {
        "prior": [np.zeros((len(side.iq), 0)) for side in (train, dev)],
        "random_conv": of(load_backbone(load_model_config(CONFIG / "models" / "random_conv.yaml"))[0]),
        "spectral_flatness": of(anomaly.spectral_flatness()),
        "spectral_kurtosis": of(anomaly.spectral_kurtosis()),
        "band_energies": of(anomaly.band_energies()),
        "dsp": dsp,
        "network": [np.hstack([side.embedded(backbone) for backbone in own]) for side in (shown, dev)],
        "oracle": [train.truth, dev.truth],
    }
    if options.noise:
        rows["dsp and noise"] = [np.hstack([side, rng.standard_normal((len(side), options.noise))]) for side in dsp]
    values = dev.axes[options.axis]
    wanted = {name: row for name, row in rows.items() if name in (options.rows or rows)}
    heads = [
        spec.model_copy(
            update={"readout": spec.readout.model_copy(update={"components": count, "max_parameters": 2**22})}
        )
        for count in options.components or [spec.readout.components]
    ]
    for head, (name, (fit, scored)) in itertools.product(heads, wanted.items()):
        side = shown if name == "network" else train
        make = Network if name == "network" else partial(make_readout, head)
        cells, totals, kinds = [], [], {}
        for value in sorted(set(values)):
            mine, rest = values == value, np.flatnonzero(side.axes[options.axis] != value)
            mixed = np.sort(rng.choice(len(fit), len(rest), replace=False))
            unseen, met = (make().fit(fit[part], side.wrong[part]).scores(scored[mine])[:, 0] for part in (rest, mixed))
            ranks = [placements(scores, dev.wrong[mine]) for scores in (unseen, met)]
            cost = [after - before for before, after in zip(*ranks, strict=True)]
            error = sum(part.var(ddof=1) / len(part) for part in cost)
            totals.append((ranks[0][0].mean(), cost[0].mean(), error))
            cells.append(f"{value} {totals[-1][0]:.3f} ({totals[-1][1]:+.3f} +- {np.sqrt(error):.3f})")
            for kind, rank in kind_rank(unseen, dev.kind[mine], dev.axes["waveform"][mine]).items():
                kinds.setdefault(kind, []).extend(rank)
        mean = np.mean(totals, axis=0)
        error = np.sqrt(mean[2] / len(totals))
        print(f"{name}, {head.readout.components} components: {', '.join(cells)}")
        print(f"    mean {mean[0]:.3f} ({mean[1]:+.3f} +- {error:.3f})")
        print("    " + ", ".join(f"{kind} {np.mean(rank):.2f}" for kind, rank in sorted(kinds.items())), flush=True)


if __name__ == "__main__":
    main()
