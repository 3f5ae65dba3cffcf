"""E-SC-SEP: what floor, textbooks, statistics, a network and the truth score on each unseen interferer, and its cost.

    python benchmarks/separation_axis.py [--dev 80] [--noise-db 25.0] [--rows dsp network]

SI-SDR in dB of the pinned readout, fit on the other interferers of v1.0, with the improvement over the mixture, and the
cost against as many fit scenes of all of them, on the same scenes, with the standard error of the paired difference.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from common.masks import spectra, waveform
from emma.backbones.base import prior
from emma.backbones.classical.separation import line_excision, wiener_mask
from emma.backbones.dense import task_contract
from emma.backbones.dsp import build
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import Contract
from emma.data.extends import read_extended
from emma.data.release import load_release_config
from emma.metrics import SISDR
from emma.readouts import make_readout
from emma.tasks import TaskID, target_of
from rfgen.recipe import Recipe
from rfgen.scenes import generate, truths

CONFIG = Path(__file__).parents[1] / "config" / "releases" / "v1.0.yaml"
TASK = TaskID.E_SC_SEP
EPOCHS = 30


class Network:
    """Two hidden layers of 512 units, from the log spectrum of a window to a gain for each line, trained end to end.

    The loss is the share of the source's energy in a window that is missed or added.
    """

    def __init__(self, window: int, hop: int) -> None:
        self.cut = window, hop

    def _shown(self, mixture):
        lines = spectra(mixture, *self.cut).reshape(-1, self.cut[0])
        lines = lines / np.sqrt(np.mean(np.abs(lines) ** 2, axis=1, keepdims=True))
        return lines, torch.from_numpy(np.log(np.abs(lines) ** 2 + 1e-4).astype(np.float32))

    def fit(self, features, target):
        """Train on mixtures and sources ``[N, 2, T]``; nothing of an embedding is used."""
        del features
        torch.manual_seed(0)
        size = self.cut[0]
        self.net = nn.Sequential(
            nn.Linear(size, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, size)
        )
        lines, shown = self._shown(target[:, 0])
        level = np.sqrt(np.mean(np.abs(spectra(target[:, 0], *self.cut)) ** 2, axis=2).reshape(-1, 1))
        wanted = spectra(target[:, 1], *self.cut).reshape(-1, size) / level
        mixed, source = (torch.from_numpy(part.astype(np.complex64)) for part in (lines, wanted))
        steps = torch.optim.Adam(self.net.parameters(), 1e-3, weight_decay=1e-5)
        self.net.train()
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(shown)).split(256):
                gain = torch.sigmoid(self.net(shown[rows]))
                missed = (gain * mixed[rows] - source[rows]).abs().square().sum(dim=1)
                loss = (missed / source[rows].abs().square().sum(dim=1)).clamp(max=10).mean()
                steps.zero_grad()
                loss.backward()
                steps.step()
        self.net.eval()
        return self

    def scores(self, features, given):
        """Waveforms ``[N, 2 T]``."""
        del features
        _, shown = self._shown(given)
        with torch.no_grad():
            gain = torch.sigmoid(self.net(shown)).numpy()
        lines = spectra(given, *self.cut)
        return waveform(gain.reshape(lines.shape) * lines, self.cut[1]).view(np.float64)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", type=int, default=80, help="scored scenes an interferer, a multiple of 40")
    parser.add_argument("--noise-db", type=float, help="of the noise below the signal of interest")
    parser.add_argument("--rows", nargs="*", help="rows that are fit; all of them by default")
    options = parser.parse_args()
    threadpool_limits(1)
    torch.set_num_threads(1)
    data, config = read_extended(CONFIG)["rfgen"], load_release_config(CONFIG)
    spec, block = config.tasks[TASK], data["tasks"][TASK.value]
    block["scenes"] |= {"DEV": options.dev}
    if options.noise_db is not None:
        block["noise_db"] = options.noise_db
    recipe = Recipe.from_mapping(data | {"tasks": {TASK.value: block}, "environments": {}})
    kind, contract = target_of(spec), task_contract(Contract(), spec)
    sides, truth = [], []
    for split in ("TRAIN", "DEV"):
        chunks = list(generate(recipe, TASK.value, split, None, config.seed))
        label = np.concatenate([np.asarray(chunk.labels[kind.column], np.float32) for chunk in chunks])
        known = label.astype(float).view(complex).reshape(len(label), 2, -1)
        families = np.concatenate([chunk.metadata["waveform"] for chunk in chunks])
        sides.append((np.concatenate([chunk.iq for chunk in chunks]), known, families))
        truth.append(np.concatenate(list(truths(recipe, TASK.value, split, None, config.seed))).astype(np.float32))

    def embedded(backbone):
        found = []
        for iq, _, _ in sides:
            index = pa.table({"sample_rate_hz": [2e7] * len(iq), "center_frequency_hz": [2.44e9] * len(iq)})
            parts = [embed_batch(backbone, iq[k : k + 40], index.slice(k, 40), contract) for k in range(0, len(iq), 40)]
            found.append(np.concatenate(parts))
        return found

    none = embedded(prior())
    rows = {
        "prior": none,
        "line_excision": embedded(line_excision()),
        "wiener_mask": embedded(wiener_mask()),
        "dsp": embedded(build()),
        "network": none,
        "oracle": truth,
    }
    (_, fit_known, fit_family), (_, known, family) = sides
    before, rng = SISDR().sample_scores(known[:, 0], known[:, 1])[0], np.random.default_rng(0)
    cells = [f"{value} {before[family == value].mean():.2f}" for value in spec.held_out]
    print("SI-SDR in dB, improvement / cost of unseen +- its standard error, by interferer; mean")
    print(f"mixture: {', '.join(cells)}; {before.mean():.2f}", flush=True)
    for name, (fit, scored) in rows.items():
        if options.rows is not None and name not in options.rows:
            continue
        cells, totals = [], []
        for value in spec.held_out:
            own, rest = family == value, np.flatnonzero(fit_family != value)
            mixed = np.sort(rng.choice(len(fit), len(rest), replace=False))
            ratios = []
            for part in (rest, mixed):
                head = Network(spec.readout.window, spec.readout.hop) if name == "network" else make_readout(spec)
                found = head.fit(fit[part], fit_known[part]).scores(scored[own], known[own, 0])
                ratios.append(SISDR().sample_scores(found.view(complex), known[own, 1])[0])
            gain, cost = ratios[0] - before[own], ratios[1] - ratios[0]
            error = cost.std() / np.sqrt(len(cost))
            totals.append((ratios[0].mean(), gain.mean(), cost.mean(), error**2))
            cells.append(f"{value} {ratios[0].mean():.2f} ({gain.mean():+.2f} / {cost.mean():+.2f} +- {error:.2f})")
        score, gain, cost, error = np.mean(totals, axis=0)
        mean = f"{score:.2f} ({gain:+.2f} / {cost:+.2f} +- {np.sqrt(error / len(totals)):.2f})"
        print(f"{name}: {', '.join(cells)}; {mean}", flush=True)


if __name__ == "__main__":
    main()
