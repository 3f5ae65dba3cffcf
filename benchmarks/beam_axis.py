"""E-CH-BEAM: what floor, textbooks, statistics and truth score on each unseen environment, and what unseen costs.

    python benchmarks/beam_axis.py [--dev 400] [--errors 1.0 20.0] [--hardware-seed 7301]

Top-3 accuracy of the pinned readout, fit on the other environments of v1.0, and the cost against as many fit scenes of
all of them, on the same scenes, with the standard error of the paired difference.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from emma.backbones.classical import beams
from emma.backbones.classical.arrays import array_covariance
from emma.backbones.dsp import build
from emma.data.extends import read_extended
from emma.data.release import load_release_config
from emma.metrics import METRICS, TopKAccuracy
from emma.readouts import make_readout
from emma.tasks import TaskID
from rfgen.channels import split_table
from rfgen.recipe import Recipe
from rfgen.scenes import generate

CONFIG = Path(__file__).parents[1] / "config" / "releases" / "v1.0.yaml"
TASK = TaskID.E_CH_BEAM


class Network:
    """Two hidden layers of 256 units, trained on the fit scenes."""

    def fit(self, features, target):
        """Train on features ``[N, D]``."""
        self.mean, self.scale = features.mean(axis=0), features.std(axis=0) + 1e-9
        options = {"batch_size": 64, "alpha": 1e-3, "max_iter": 40, "early_stopping": True, "random_state": 0}
        self.net = MLPRegressor(hidden_layer_sizes=(256, 256), **options)
        self.net.fit((features - self.mean) / self.scale, target)
        return self

    def scores(self, features):
        """Powers ``[N, 64]``."""
        return self.net.predict((features - self.mean) / self.scale)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", type=int, default=400, help="scored scenes an environment, a multiple of 40")
    parser.add_argument("--errors", type=float, nargs=2, help="gain [dB] and phase [deg] of the probes' weights")
    parser.add_argument("--hardware-seed", type=int, help="another draw of the sites")
    options = parser.parse_args()
    threadpool_limits(1)
    data, config = read_extended(CONFIG)["rfgen"], load_release_config(CONFIG)
    spec, block = config.tasks[TASK], data["tasks"][TASK.value]
    block["scenes"] |= {"DEV": options.dev}
    if options.errors:
        block["probe_errors"] = dict(zip(("gain_db", "phase_deg"), options.errors, strict=True))
    if options.hardware_seed is not None:
        data["hardware_seed"] = options.hardware_seed
    recipe = Recipe.from_mapping(data | {"tasks": {TASK.value: block}})
    sides = []
    for split in ("TRAIN", "DEV"):
        rays = split_table(recipe, split, config.seed)
        chunks = list(generate(recipe, TASK.value, split, rays, config.seed))
        power = np.concatenate([chunk.labels["beam_power"] for chunk in chunks]).astype(np.float32).astype(float)
        places = np.concatenate([chunk.metadata["environment"] for chunk in chunks])
        sides.append((np.concatenate([chunk.iq for chunk in chunks]), power, places))

    def embedded(backbone):
        return [
            np.concatenate([backbone.embed(iq[k : k + 200], 2e7, 28e9) for k in range(0, len(iq), 200)])
            for iq, _, _ in sides
        ]

    covariance = embedded(array_covariance())
    rows = {
        "prior": [np.zeros((len(iq), 0)) for iq, _, _ in sides],
        "strongest_probe": embedded(beams.strongest_probe()),
        "dsp": embedded(build()),
        "covariance": covariance,
        "network on it": covariance,
        "probe_capon": embedded(beams.probe_capon()),
        "probe_music": embedded(beams.probe_music()),
        "oracle": [power for _, power, _ in sides],
    }
    (_, known, fit_place), (_, power, place) = sides
    rng = np.random.default_rng(0)
    print("top 3 (cost of unseen), by environment; mean of each; top 1; loss in dB")
    for name, (fit, scored) in rows.items():
        make = Network if name.startswith("network") else lambda: make_readout(spec)
        cells, totals = [], []
        for value in spec.held_out:
            own, rest = place == value, np.flatnonzero(fit_place != value)
            mixed = np.sort(rng.choice(len(fit), len(rest), replace=False))
            unseen, met = (make().fit(fit[part], known[part]).scores(scored[own]) for part in (rest, mixed))
            best = power[own].argmax(axis=1)
            hits = [TopKAccuracy(spec.k).sample_scores(scores, best)[0] for scores in (unseen, met)]
            cost = hits[1] - hits[0]
            error = cost.std() / np.sqrt(len(cost))
            cells.append(f"{value[2:]} {hits[0].mean():.3f} ({cost.mean():+.3f} +- {error:.3f})")
            more = METRICS["Top1Accuracy"](unseen, best), METRICS["PowerLoss"](unseen, power[own])
            totals.append((hits[0].mean(), cost.mean(), error**2, *more))
        mean = np.mean(totals, axis=0)
        error = np.sqrt(mean[2] / len(totals))
        print(
            f"{name}: {', '.join(cells)}; {mean[0]:.3f} ({mean[1]:+.3f} +- {error:.3f}); {mean[3]:.3f}; {mean[4]:.1f}"
        )


if __name__ == "__main__":
    main()
