"""What can be said of a scene of the text tasks: its emitters, and of each what the samples show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rfgen.physics.types import Floats
from rfgen.waveforms.shaped import FAMILIES as WAVEFORMS

__all__ = ["ACTIVITIES", "BANDWIDTHS", "FAMILIES", "MOST", "PLACES", "POWERS", "Attributes", "Emitter", "embedding"]

#: Values of an emitter's attributes, in the order of `embedding`. Places are the thirds of the sampled band.
FAMILIES = tuple(WAVEFORMS)
BANDWIDTHS = ("narrow", "medium", "wide")
PLACES = ("low", "centre", "high")
POWERS = ("strong", "weak")
ACTIVITIES = ("steady", "bursty")
#: Emitters of a scene at most: one to a place, so that a place names an emitter.
MOST = len(PLACES)


@dataclass(frozen=True)
class Emitter:
    """One emitter: words of the tables above, and numbers.

    `power` is relative: the strongest of a scene and those nearly as strong are `strong`. Of a lone emitter it says
    nothing. `snr_db` is its power while on over the noise of the whole band, `below_db` how far it is below the
    strongest, `offset_hz` its centre from the middle of the band, `width_hz` its nominal width.
    """

    family: str
    bandwidth: str
    place: str
    power: str
    activity: str
    snr_db: float
    below_db: float
    offset_hz: float
    width_hz: float


@dataclass(frozen=True)
class Attributes:
    """A scene's emitters, from the lowest place up, and the SNR regime of the strongest (nominal without any)."""

    emitters: tuple[Emitter, ...]
    snr_range: str


def embedding(scenes: Sequence[Attributes]) -> Floats:
    """The words as numbers, float64 `[n, D]`: scenes with the same words have the same row.

    Zeros and ones: the number of emitters, then by place whether there is one, its family, bandwidth, activity and,
    where there are several, power.
    """
    tables = (FAMILIES, BANDWIDTHS, ACTIVITIES, POWERS)
    starts = np.cumsum([1, *map(len, tables)])
    counts = np.zeros((len(scenes), MOST + 1))
    places = np.zeros((len(scenes), len(PLACES), starts[-1]))
    for row, scene in enumerate(scenes):
        counts[row, len(scene.emitters)] = 1.0
        for emitter in scene.emitters:
            own = places[row, PLACES.index(emitter.place)]
            words = [emitter.family, emitter.bandwidth, emitter.activity]
            words += [emitter.power] if len(scene.emitters) > 1 else []
            own[0] = 1.0
            own[[start + table.index(word) for start, table, word in zip(starts, tables, words, strict=False)]] = 1.0
    return np.concatenate([counts, places.reshape(len(scenes), -1)], axis=1)
