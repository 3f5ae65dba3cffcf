"""E-S2T-QA: what floor, textbook, statistics, a network and truth answer right, and what an unseen SNR regime costs.

    python benchmarks/question_axis.py [--dev 400] [--rows dsp oracle]

Share of right answers of the pinned readout, fit on the other regimes of v1.0, by regime and by kind of question, and
the cost against as many fit scenes of all regimes, on the same scenes, with the standard error of the paired
difference over scenes.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from emma.backbones import dsp
from emma.backbones.classical.occupancy import band_detector
from emma.backbones.conv import random_conv
from emma.data.extends import read_extended
from emma.data.labels import plain_values
from emma.data.release import load_release_config
from emma.readouts import make_readout
from emma.tasks import TaskID, target_of
from emma.tasks.questions import grammar, question_key
from rfgen.recipe import Recipe
from rfgen.scenes import generate, truths
from rfgen.scenes.text.questions import KINDS

CONFIG = Path(__file__).parents[1] / "config" / "releases" / "v1.0.yaml"
TASK = TaskID.E_S2T_QA


class Network:
    """A small convolutional network on the spectrogram with an output for every answer, trained on the fit scenes."""

    def __init__(self, spec):
        self.spec, self.asked = spec, grammar(spec.readout.questions)
        heads = [(kind, a) for kind, each in spec.readout.questions.items() for a in each.heads]
        answers = [spec.readout.questions[kind].answers for kind, _ in heads]
        starts = np.cumsum([0, *map(len, answers)])
        self.places = {head: (int(start), own) for head, start, own in zip(heads, starts, answers, strict=False)}
        self.outputs = int(starts[-1])

    def heads(self, questions):
        """For each question ``[N, Q]`` a mask of the outputs that answer it, ``[N, Q, outputs]``."""
        mask = np.zeros((*questions.shape, self.outputs), bool)
        for place, text in np.ndenumerate(questions):
            start, answers = self.places[self.asked[question_key(text)]]
            mask[place][start : start + len(answers)] = True
        return mask

    def fit(self, features, target):
        """Train on spectrograms ``[N, 1, F, T]`` with questions and answers ``[N, Q, 2]``."""
        torch.manual_seed(0)
        mask = torch.tensor(self.heads(target[:, :, 0]))
        right = np.zeros(target.shape[:2], np.int64)
        for place in np.ndindex(right.shape):
            start, answers = self.places[self.asked[question_key(target[(*place, 0)])]]
            right[place] = start + answers.index(target[(*place, 1)])
        right, inputs = torch.tensor(right), torch.tensor(features)
        layers = []
        for before, after, stride in ((1, 16, 2), (16, 24, 2), (24, 32, 1)):
            layers += [nn.Conv2d(before, after, 3, stride, padding=1)]
            layers += [nn.BatchNorm2d(after), nn.ReLU()]
        # Frequency keeps its resolution: places and widths are asked for.
        layers += [nn.AvgPool2d((2, 4)), nn.Flatten(), nn.Dropout(0.3), nn.LazyLinear(self.outputs)]
        self.net = nn.Sequential(*layers)
        self.net(inputs[:2])
        steps = 15 * (len(inputs) // 32)
        optimiser = torch.optim.AdamW(self.net.parameters(), 2e-3, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
        self.net.train()
        for _ in range(steps):
            rows = torch.randperm(len(inputs))[:32]
            logits = self.net(inputs[rows])[:, None].masked_fill(~mask[rows], -torch.inf)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), right[rows].flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        self.net.eval()
        return self

    def scores(self, features, given):
        """Answers ``[N, Q]``."""
        with torch.no_grad():
            logits = self.net(torch.tensor(features)).numpy()
        texts = np.array([answer for _, answers in self.places.values() for answer in answers], object)
        return texts[np.where(self.heads(given), logits[:, None], -np.inf).argmax(axis=2)]


def spectrograms(iq):
    """Log powers ``[N, 1, 128, 64]`` of windows of 128 samples, half overlapping, over the mean of the scene."""
    frames = np.lib.stride_tricks.sliding_window_view(iq[:, 0], 128, axis=1)[:, ::64][:, :64]
    power = np.abs(np.fft.fftshift(np.fft.fft(frames * np.hanning(128), axis=2), axes=2)) ** 2
    power /= power.mean(axis=(1, 2), keepdims=True)
    return (
        np.pad(np.log(power + 1e-3), ((0, 0), (0, 64 - power.shape[1]), (0, 0)))
        .transpose(0, 2, 1)[:, None]
        .astype(np.float32)
    )


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", type=int, default=400, help="scored scenes a regime, a multiple of 40")
    parser.add_argument("--rows", nargs="+", help="by default all")
    options = parser.parse_args()
    threadpool_limits(1)
    torch.set_num_threads(1)
    data, config = read_extended(CONFIG)["rfgen"], load_release_config(CONFIG)
    spec, block = config.tasks[TASK], data["tasks"][TASK.value]
    target = target_of(spec)
    block["scenes"] |= {"DEV": options.dev}
    recipe = Recipe.from_mapping(data | {"tasks": {TASK.value: block}, "environments": {}})
    sides, truth = [], []
    for split in ("TRAIN", "DEV"):
        chunks = list(generate(recipe, TASK.value, split, None, config.seed))
        labels = [row for chunk in chunks for row in plain_values(chunk.labels["qa"])]
        known = target.numbers(target.encode(pa.chunked_array([pa.array(labels, target.label_type)])))
        regimes = np.concatenate([chunk.metadata["snr_regime"] for chunk in chunks])
        sides.append((np.concatenate([chunk.iq for chunk in chunks]), known, regimes))
        truth.append(np.concatenate(list(truths(recipe, TASK.value, split, None, config.seed))))

    def embedded(backbone):
        return [
            np.concatenate([backbone.embed(iq[k : k + 100], 2e7, 2.44e9) for k in range(0, len(iq), 100)])
            for iq, _, _ in sides
        ]

    rows = {
        "prior": lambda: [np.zeros((len(iq), 0)) for iq, _, _ in sides],
        "random_conv": lambda: embedded(random_conv(antennas="1")),
        "band_detector": lambda: embedded(band_detector()),
        "dsp": lambda: embedded(dsp.build()),
        "network": lambda: [spectrograms(iq) for iq, _, _ in sides],
        "oracle": lambda: truth,
    }
    (_, known, fit_regime), (_, asked, regime) = sides
    rng = np.random.default_rng(0)
    print(f"right (cost of unseen), by regime; mean; of {', '.join(KINDS)}")
    for name in options.rows or rows:
        fit, scored = rows[name]()
        make = (lambda: Network(spec)) if name == "network" else (lambda: make_readout(spec))
        cells, totals, kinds = [], [], []
        for value in spec.held_out:
            own, rest = regime == value, np.flatnonzero(fit_regime != value)
            mixed = np.sort(rng.choice(len(fit), len(rest), replace=False))
            given, answers = target.given(asked[own]), asked[own][:, :, 1]
            right = [make().fit(fit[part], known[part]).scores(scored[own], given) == answers for part in (rest, mixed)]
            cost = right[1].mean(axis=1) - right[0].mean(axis=1)
            error = cost.std() / np.sqrt(len(cost))
            cells.append(f"{value} {right[0].mean():.3f} ({cost.mean():+.3f} +- {error:.3f})")
            totals.append((right[0].mean(), cost.mean(), error**2))
            kinds.append(right[0].mean(axis=0))
        mean = np.mean(totals, axis=0)
        error = np.sqrt(mean[2] / len(totals))
        by_kind = ", ".join(f"{share:.2f}" for share in np.mean(kinds, axis=0))
        print(f"{name}: {', '.join(cells)}; {mean[0]:.3f} ({mean[1]:+.3f} +- {error:.3f}); {by_kind}", flush=True)


if __name__ == "__main__":
    main()
