"""Spurs: the lines that a receiver adds by itself, alike in all its chains, since clock and mixers are theirs together.

Residual spurs of a downconverter are stated as below -100 dBm at a matched input (SignalCore SC5305A, operating manual,
"Spurious response"); thermal noise in 20 MHz is -96 dBm for a noise figure of 5 dB and -86 dBm for 15 dB, so that such
a line may be 4 to 14 dB below the noise. How it moves with the gain that is set is assumed.
"""

from dataclasses import dataclass

import numpy as np

from common.streams import stream
from rfgen.physics.fields import Count, Model, NonNegative, Range
from rfgen.physics.types import Complexes, Floats


class SpurPopulation(Model):
    """A receiver's lines: how many, their level over the noise [dB], how far it moves from scene to scene (+- dB).

    They lie anywhere within +-`reach_hz` of the centre.
    """

    count: Count
    level_db: Range
    swing_db: NonNegative
    reach_hz: NonNegative


@dataclass(frozen=True)
class Spurs:
    """One receiver's lines: frequencies [Hz] and levels [dB] `[K]`, and what each chain takes, `[K, chains]`."""

    frequency_hz: Floats
    level_db: Floats
    response: Complexes


def draw_spurs(seed: int, name: str, population: SpurPopulation, chains: int) -> Spurs:
    """The lines of the receiver called `name`; the chains' phases are any, and their power is 1 on average."""
    rng = stream(seed, "spurs", name)
    frequency = rng.uniform(-population.reach_hz, population.reach_hz, population.count)
    level = rng.uniform(*population.level_db, population.count)
    response = np.exp(2j * np.pi * rng.random((population.count, chains)))
    return Spurs(frequency, level, response)


def spur_lines(
    spurs: Spurs, population: SpurPopulation, n: int, samples: int, sample_rate_hz: float, rng: np.random.Generator
) -> Complexes:
    """The lines in n scenes, `[n, chains, samples]` over noise of unit power; phase and level are each scene's own."""
    shape = (n, len(spurs.frequency_hz))
    level = spurs.level_db + rng.uniform(-population.swing_db, population.swing_db, shape)
    amplitude = 10 ** (level / 20) * np.exp(2j * np.pi * rng.random(shape))
    line = np.exp(2j * np.pi * spurs.frequency_hz[:, None] / sample_rate_hz * np.arange(samples))
    # No product of matrices: a threaded library would round by the number of threads.
    lines: Complexes = np.einsum("nk,kc,kt->nct", amplitude, spurs.response, line, optimize=False)
    return lines
