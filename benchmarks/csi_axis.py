"""E-CH-CSI: what floor, textbooks, statistics and truth score on each unseen environment, and what unseen costs.

    python benchmarks/csi_axis.py [--release v1.0] [--dev 120] [--axis environment] [--components 256] [--rows oracle]

NMSE in dB of the pinned readout, fit on the other environments, and the cost against as many fit scenes of all of them,
on the same scenes, with the standard error of the paired difference. Before the readout stand the estimates themselves.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from emma.backbones.classical import estimation
from emma.backbones.classical.arrays import array_covariance
from emma.backbones.dsp import build
from emma.backbones.views import channel_estimate
from emma.data.extends import read_extended
from emma.data.reference import Reference
from emma.data.release import load_release_config
from emma.readouts import make_readout
from emma.tasks import TaskID
from rfgen.channels import split_table
from rfgen.recipe import Recipe
from rfgen.scenes import generate, truths

CONFIG = Path(__file__).parents[1] / "config" / "releases"
TASK = TaskID.E_CH_CSI


class Network:
    """One hidden layer of 256 units that is trained on the fit scenes to correct what it is given."""

    def fit(self, features, target):
        """Train on features ``[N, D]`` and channels ``[N, D]`` as pairs."""
        options = {"batch_size": 64, "alpha": 1e-3, "max_iter": 30, "random_state": 0}
        self.net = MLPRegressor(hidden_layer_sizes=(256,), **options).fit(features, target)
        return self

    def scores(self, features):
        """Channels ``[N, D]`` as pairs."""
        return self.net.predict(features)


def errors(scores, target):
    """Each scene's share of the error: its energy over the mean energy of the channels."""
    return ((scores - target) ** 2).sum(axis=1) / (target**2).sum(axis=1).mean()


def decibels(ratio):
    """Ten times the decimal logarithm."""
    return 10 * np.log10(ratio)


def side(recipe, split, seed, axis):
    """Samples, least-squares estimates, the oracle's, labels as they are stored, and values of the axis of a split."""
    rays = split_table(recipe, split, seed)
    chunks = list(generate(recipe, TASK.value, split, rays, seed))
    truth = np.concatenate(list(truths(recipe, TASK.value, split, rays, seed)))
    start, place = (
        np.concatenate([np.asarray(chunk.metadata[name]) for chunk in chunks]) for name in ("reference_start", axis)
    )
    iq = np.concatenate([chunk.iq for chunk in chunks])
    heard = channel_estimate(iq, start, Reference.of(chunks[0].reference))
    label = np.concatenate([chunk.labels["channel"] for chunk in chunks]).astype(np.float32).astype(float)
    return iq, heard, truth, label, place


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default="v1.0", help="whose recipe is run")
    parser.add_argument("--train", type=int, help="fit scenes an environment and band, a multiple of 40")
    parser.add_argument("--dev", type=int, default=120, help="scored scenes an environment and band, a multiple of 40")
    parser.add_argument("--components", type=int, help="of the readout, instead of those pinned")
    parser.add_argument("--axis", default="environment", help="the column of which a value is unseen")
    parser.add_argument("--rows", nargs="+", help="the rows to score")
    parser.add_argument("--hardware-seed", type=int, help="another draw of the sites")
    options = parser.parse_args()
    threadpool_limits(1)
    warnings.simplefilter("ignore", ConvergenceWarning)  # the passes are counted
    path = CONFIG / f"{options.release}.yaml"
    data, config = read_extended(path)["rfgen"], load_release_config(path)
    spec, block = config.tasks[TASK], data["tasks"][TASK.value]
    block["scenes"] |= {"DEV": options.dev} | ({"TRAIN": options.train} if options.train else {})
    if options.components:
        readout = {"components": options.components, "max_parameters": 2 * options.components * 2049}
        spec = spec.model_copy(update={"readout": spec.readout.model_copy(update=readout)})
    if options.hardware_seed is not None:
        data["hardware_seed"] = options.hardware_seed
    recipe = Recipe.from_mapping(data | {"tasks": {TASK.value: block}})
    sides = [side(recipe, split, config.seed, options.axis) for split in ("TRAIN", "DEV")]

    def embedded(backbone, form):
        rate = (block["sample_rate_hz"], block["sample_rate_hz"] / block["subcarriers"])[form]
        return [
            np.concatenate([backbone.embed(part[form][k : k + 200], rate, 5e9) for k in range(0, len(part[0]), 200)])
            for part in sides
        ]

    exponential = embedded(estimation.lmmse_exponential(), 1)
    rows = {
        "prior": [np.zeros((len(part[0]), 0)) for part in sides],
        "covariance": embedded(array_covariance(), 0),
        "dsp": embedded(build(), 0),
        "least_squares": embedded(estimation.least_squares(), 1),
        "lmmse_exponential": exponential,
        "oracle": [part[2] for part in sides],
        "network on lmmse_exponential": exponential,
    }
    (*_, known, fit_place), (*_, channel, place) = sides
    rng = np.random.default_rng(0)
    print("NMSE in dB (cost of unseen), by value; mean of each; mean of the features as they are")
    for name in options.rows or rows:
        fit, scored = rows[name]
        make = Network if name.startswith("network") else lambda: make_readout(spec)
        cells, totals = [], []
        for value in np.unique(place):
            own, rest = place == value, np.flatnonzero(fit_place != value)
            mixed = np.sort(rng.choice(len(fit), len(rest), replace=False))
            unseen, met = (
                errors(make().fit(fit[part], known[part]).scores(scored[own]), channel[own]) for part in (rest, mixed)
            )
            cost = decibels(unseen.mean() / met.mean())
            paired = unseen / unseen.mean() - met / met.mean()
            error = 10 / np.log(10) * paired.std() / np.sqrt(len(paired))
            plain = errors(scored[own], channel[own]).mean() if scored.shape == channel.shape else np.nan
            spread = 10 / np.log(10) * unseen.std() / unseen.mean() / np.sqrt(len(paired))
            cells.append(f"{value} {decibels(unseen.mean()):.2f} +- {spread:.2f} ({cost:+.2f} +- {error:.2f})")
            totals.append((decibels(unseen.mean()), cost, error**2, decibels(plain)))
        mean = np.mean(totals, axis=0)
        error = np.sqrt(mean[2] / len(totals))
        print(f"{name}: {', '.join(cells)}; {mean[0]:.2f} ({mean[1]:+.2f} +- {error:.2f}); {mean[3]:.2f}", flush=True)


if __name__ == "__main__":
    main()
