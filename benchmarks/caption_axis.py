"""E-S2T-CAP: what floor, detector, features and truth score at each unseen SNR regime, and what unseen costs.

    python benchmarks/caption_axis.py [--train 400] [--dev 200] [--rows prior dsp ...]

CIDEr-D of the pinned readout, fit on the other regimes of v1.0, and the cost against as many fit scenes of all of them,
on the same scenes and by their document frequencies, with the standard error of the paired difference. The last row is
what one caption of a scene scores against five others of the same scene.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer
from threadpoolctl import threadpool_limits
from torch import nn

from common.agreement import Agreement
from common.streams import stream
from common.tokenizers import tokenize
from emma.backbones.classical import occupancy
from emma.backbones.conv import random_conv
from emma.backbones.dsp import build
from emma.data.extends import read_extended
from emma.data.release import load_release_config
from emma.metrics import METRICS
from emma.readouts import make_readout
from emma.tasks import TaskID
from rfgen.recipe import Recipe
from rfgen.scenes import chunk_keys, generate, truths
from rfgen.scenes.text import grammar

CONFIG = Path(__file__).parents[1] / "config" / "releases" / "v1.0.yaml"
TASK = TaskID.E_S2T_CAP
#: Frames and bins of the spectrogram.
FRAMES, BINS = 31, 64


class Network:
    """Three convolutions from a spectrogram to the words of the captions, whose numbers the pinned readout compares."""

    def __init__(self, spec):
        self.readout = make_readout(spec)

    def fit(self, features, target, epochs=25):
        """Train on spectrograms ``[N, frames x bins]`` and lists of captions ``[N]``."""
        words = CountVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False, ngram_range=(1, 3), min_df=20)
        said = words.fit_transform([" \n ".join(captions) for captions in target]).toarray() / grammar.REFERENCES
        wanted = torch.tensor(said.astype(np.float32))
        self.mean, self.scale = features.mean(), features.std()
        shown, layers, channels = self._shown(features), [], 1
        torch.manual_seed(0)
        for width, pool in ((16, (2, 1)), (32, (2, 2)), (32, (1, 1))):
            layers += [nn.Conv2d(channels, width, (3, 5), padding=(1, 2)), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.MaxPool2d(pool)]
            channels = width
        head = [nn.AdaptiveAvgPool2d((1, 32)), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 32, wanted.shape[1])]
        self.net = nn.Sequential(*layers, *head)
        optimiser = torch.optim.AdamW(self.net.parameters(), weight_decay=1e-2)
        steps = epochs * len(shown.split(32))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
        for _ in range(epochs):
            for batch in torch.randperm(len(shown)).split(32):
                # A scene begins anywhere.
                turned = torch.roll(shown[batch], int(torch.randint(FRAMES, (1,))), 2)
                optimiser.zero_grad()
                ((self.net(turned) - wanted[batch]) ** 2).sum(dim=1).mean().backward()
                optimiser.step()
                schedule.step()
        self.net.eval()
        self.readout.fit(self._embedded(features), target)
        return self

    def scores(self, features):
        """Captions ``[N, 1]``."""
        return self.readout.scores(self._embedded(features))

    def _shown(self, features):
        scaled = ((features - self.mean) / self.scale).astype(np.float32)
        return torch.tensor(scaled).reshape(len(features), 1, FRAMES, -1)

    def _embedded(self, features):
        with torch.no_grad():
            return self.net(self._shown(features)).numpy()


def spectrogram(iq):
    """Log powers ``[N, FRAMES x BINS]`` over each scene's median."""
    powers = occupancy.spectrogram(iq[:, 0].astype(np.complex128))
    powers = powers.reshape(*powers.shape[:2], BINS, -1).sum(axis=3)
    return np.log(powers / np.median(powers, axis=(1, 2), keepdims=True) + 0.1).reshape(len(iq), -1)


def sample_scores(answers, references):
    """CIDEr-D ``[N]`` of each text against its references, by the document frequencies of all of them."""
    texts = [text for refs in references for text in refs]
    counts = [len(refs) for refs in references]
    documents = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(len(answers), -1)])
    agreement = Agreement([*texts, *answers], documents)
    ends = np.cumsum(counts)
    return np.array(
        [agreement.between([len(texts) + i], np.arange(ends[i] - counts[i], ends[i])).mean() for i in range(len(ends))]
    )


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=400, help="fit scenes a regime, a multiple of 40")
    parser.add_argument("--dev", type=int, default=200, help="scored scenes a regime, a multiple of 40")
    parser.add_argument("--rows", nargs="*", help="these rows alone")
    options = parser.parse_args()
    threadpool_limits(1)
    torch.set_num_threads(1)
    data, config = read_extended(CONFIG)["rfgen"], load_release_config(CONFIG)
    spec, block = config.tasks[TASK], data["tasks"][TASK.value]
    block["scenes"] |= {"TRAIN": options.train, "DEV": options.dev}
    recipe = Recipe.from_mapping(data | {"tasks": {TASK.value: block}, "environments": {}})
    sides = []
    for split in ("TRAIN", "DEV"):
        chunks = list(generate(recipe, TASK.value, split, None, config.seed))
        captions = [texts for chunk in chunks for texts in chunk.labels["captions"]]
        regimes = np.concatenate([chunk.metadata["snr_regime"] for chunk in chunks])
        iq = np.concatenate([chunk.iq for chunk in chunks])
        sides.append((iq, np.fromiter(captions, object, len(captions)), regimes))

    def embedded(backbone):
        unit = [iq / np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True)) for iq, _, _ in sides]
        return [
            np.concatenate([backbone.embed(iq[k : k + 100], 2e7, 2.44e9) for k in range(0, len(iq), 100)])
            for iq in unit
        ]

    rows = {
        "prior": lambda: [np.zeros((len(iq), 0)) for iq, _, _ in sides],
        "random_conv": lambda: embedded(random_conv()),
        "spectrogram": lambda: [spectrogram(iq) for iq, _, _ in sides],
        "dsp": lambda: embedded(build()),
        "network": lambda: [spectrogram(iq) for iq, _, _ in sides],
        "band_detector": lambda: embedded(occupancy.band_detector()),
        "oracle": lambda: [
            np.concatenate(list(truths(recipe, TASK.value, split, None, config.seed))) for split in ("TRAIN", "DEV")
        ],
    }
    (_, known, fit_regime), (_, references, regime) = sides
    at = [regime == value for value in spec.held_out]
    task = recipe.tasks[TASK.value]
    others = [
        grammar.captions(scene, stream(0, "another", *key, number))[0]
        for key in chunk_keys(recipe, TASK.value, "DEV")
        for number, scene in enumerate(task.made(recipe, TASK.value, "DEV", key, config.seed).attributes)
    ]

    def show(name, cells):
        mean = np.mean([own.mean() for own, _ in cells])
        cost = np.mean([own.mean() for _, own in cells])
        error = np.sqrt(np.sum([own.var() / len(own) for _, own in cells])) / len(cells)
        parts = [f"{v} {s.mean():.3f} ({c.mean():+.3f})" for v, (s, c) in zip(spec.held_out, cells, strict=True)]
        print(f"{name}: {', '.join(parts)}; {mean:.3f} ({cost:+.3f} +- {error:.3f})", flush=True)

    print("CIDEr-D (cost of unseen), by regime; mean of each")
    for name in options.rows or rows:
        (fit, scored), cells = rows[name](), []
        for value, own in zip(spec.held_out, at, strict=True):
            rest = np.flatnonzero(fit_regime != value)
            mixed = np.sort(np.random.default_rng(0).choice(len(fit), len(rest), replace=False))
            make = (lambda: Network(spec)) if name == "network" else (lambda: make_readout(spec))
            answers = [make().fit(fit[part], known[part]).scores(scored[own])[:, 0] for part in (rest, mixed)]
            unseen, met = (sample_scores(list(texts), references[own]) for texts in answers)
            assert np.isclose(unseen.mean(), METRICS["CIDER"](list(answers[0]), references[own].tolist()))
            cells.append((unseen, met - unseen))
        show(name, cells)
    fresh = [sample_scores([others[i] for i in np.flatnonzero(own)], references[own]) for own in at]
    show("another caption", [(own, np.zeros_like(own)) for own in fresh])


if __name__ == "__main__":
    main()
