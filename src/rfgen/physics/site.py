"""Sites: the receiving hardware of an environment, the same in every split.

An array that was calibrated keeps errors of gain and phase, and its elements couple; a receiver is not ideal. Both are
drawn from the recipe's `hardware_seed` and the site's name. The sizes in the recipe were never chosen by a score. Gain
and phase: half a decibel and five degrees are assumed, of the order that calibration leaves; no one publication stands
for them. Coupling: half-wave dipoles side by side at half a wavelength have a mutual impedance of -12.5 - j 29.9 ohm
(Balanis, Antenna Theory, 8.6), which is -13 dB at matched loads; that 0.05 (-26 dB) stays is assumed too. Clock:
1 ppm, a temperature-compensated oscillator (KrakenSDR datasheet V1.0, a coherent receiver for direction finding).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.streams import stream
from rfgen.physics.arrays import Array
from rfgen.physics.fields import Count, Model, NonNegative, Share
from rfgen.physics.hardware import Receiver, ReceiverPopulation, receive, receiver
from rfgen.physics.types import Complexes


class Sites(Model):
    """What sites differ in: standard deviations of gain [dB] and phase [deg] by element, and the rest.

    `coupling` is the share of a neighbour's amplitude that an element takes, of a phase of the site's own; `front_end`
    is the spread of the receiver chains; the unlabelled pool is received at `pretrain_sites` sites in turn.
    """

    gain_error_db: NonNegative
    phase_error_deg: NonNegative
    coupling: Share
    front_end: ReceiverPopulation
    pretrain_sites: Count


@dataclass(frozen=True)
class Site:
    """One site: what its array makes of a plane wave, `[elements, elements]`, and a receiver chain per output.

    Outputs are the elements, or what a `combiner` `[outputs, elements]` before the chains makes of them.
    """

    response: Complexes
    chains: tuple[Receiver, ...]
    combiner: Complexes | None = None


def draw_site(seed: int, name: str, sites: Sites, array: Array | None) -> Site:
    """The hardware of the site called `name`; of one antenna without an `array`, whose response is then 1.

    The chains share their clock, and the ripple of their filters: where those differ, calibration took it out.
    """
    elements = array.elements if array else 1
    population = sites.front_end
    first, *others = [receiver(seed, f"site {name}/{element}", population) for element in range(elements)]
    chains = (first, *(replace(chain, cfo_ppm=first.cfo_ppm, ripple=first.ripple) for chain in others))
    response = np.ones((1, 1), complex)
    if array:
        rng = stream(seed, "site", name)
        decibels, degrees = rng.standard_normal((2, elements))
        gain = 10 ** (sites.gain_error_db * decibels / 20)
        error = gain * np.exp(1j * np.radians(sites.phase_error_deg * degrees))
        coupled = np.eye(elements) + sites.coupling * np.exp(2j * np.pi * rng.random()) * array.neighbours()
        response = error[:, None] * coupled
    return Site(response, chains)


def at_array(sites: Sequence[Site], gains: Complexes) -> Complexes:
    """Gains of paths `[n, elements, P]` as the arrays of n sites take them; their noise is the chains' own."""
    taken: Complexes = np.einsum("nab,nbp->nap", np.stack([site.response for site in sites]), gains)
    return taken


def combined(sites: Sequence[Site], gains: Complexes) -> Complexes:
    """Gains of paths `[n, elements, P]` behind the combiners of n sites, `[n, outputs, P]`, as they are without."""
    given = [site.combiner for site in sites]
    if all(one is None for one in given):
        return gains
    behind: Complexes = np.einsum("noa,nap->nop", np.stack([one for one in given if one is not None]), gains)
    return behind


def through_front_end(sites: Sequence[Site], signal: Complexes, carrier_hz: float, sample_rate_hz: float) -> Complexes:
    """Samples `[n, elements, samples]`, noise included, behind the receiver chains of n sites."""
    received = np.empty_like(signal)
    for one in {id(site): site for site in sites}.values():
        rows = [row for row, site in enumerate(sites) if site is one]
        for element, chain in enumerate(one.chains):
            received[rows, element] = receive(signal[rows, element], chain, carrier_hz, sample_rate_hz)
    return received
