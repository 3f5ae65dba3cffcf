"""E-CH-CSI: the channel between a terminal and each antenna on each carrier, from two symbols with a comb of pilots.

Every symbol has known values on one carrier in `comb` and random data on the others; the combs of the symbols are
offset, so that together they meet every carrier once, as those of positioning and sounding signals do (3GPP TS 38.211,
6.4.1.4).

A receiver can know neither the level of a channel, since scenes have a random gain, nor its phase, since oscillators
are free: a channel is divided by its root mean square over antennas and carriers, and turned by the phase that the
receiver's own estimate has at antenna 0, the mean over its carriers.
"""

from typing import Any, ClassVar

import numpy as np
from pydantic import model_validator

from common.streams import Seed
from rfgen.physics import arrays
from rfgen.physics.fields import Count
from rfgen.physics.propagation import GUARD, SUBCLUSTERS, Links, frequency_response
from rfgen.physics.site import at_array
from rfgen.physics.types import Bools, Complexes, Floats, Samples
from rfgen.scenes.base import REFERENCE_START, ChunkKey, Column, LabelColumns, Setting, Split
from rfgen.scenes.localisation import Localisation, Received, sight_states
from rfgen.waveforms import ofdm


class ChannelEstimation(Localisation):
    """E-CH-CSI: the channel at every antenna and carrier in use; a scene is `comb` symbols with their prefixes.

    The channel is that of the paths at the array as it is, the timing in it, without the receivers' chains.
    """

    names = ("E-CH-CSI",)
    label_columns: ClassVar[LabelColumns] = {"channel": list, "detail": str}

    comb: Count

    @model_validator(mode="after")
    def _check_comb(self) -> "ChannelEstimation":
        if self.reference is None:
            raise ValueError("reference: expected the values of the pilots")
        if self.active_subcarriers % self.comb:
            raise ValueError(f"comb: expected a divisor of the {self.active_subcarriers} carriers in use")
        if self.samples != self.comb * self.symbol:
            raise ValueError(
                f"samples: expected the {self.comb * self.symbol} of {self.comb} symbols with their prefix"
            )
        return self

    def known_symbol(self) -> dict[str, Any] | None:
        """The values of all carriers, of which symbol i of a scene carries every one in `combs`, from the i-th on."""
        known = super().known_symbol()
        return None if known is None else known | {"combs": self.comb}

    def transmitted(
        self, n: int, window: slice, rng: np.random.Generator, own: np.random.Generator
    ) -> tuple[Complexes, dict[str, Column]]:
        """Random data whose symbols start with the window, those within it with pilots."""
        del own
        length = window.stop + GUARD
        values, _ = self._drawn(n, length, rng)
        first = -(-window.start // self.symbol)
        for symbol in range(self.comb):
            comb = slice(symbol, None, self.comb)
            values[:, first + symbol, comb] = self._pilots()[comb]
        start = np.full(n, first * self.symbol - window.start)
        return self._sent(values, start, length), {REFERENCE_START: np.full(n, self.cyclic_prefix)}

    def scene_labels(self, links: Links, made: Received) -> dict[str, Column]:
        """The channel as pairs of real and imaginary part, antenna by antenna, and the line-of-sight state."""
        channel = self.channel(made)
        channel *= (self.own_phase(made.iq) / root_mean_square(channel))[:, None, None]
        return {"channel": pairs(channel)} | self.link_labels(links.los, links.bearing_deg, links.distance_2d_m)

    def link_labels(self, los: Bools, bearing_deg: Floats, distance_m: Floats) -> dict[str, Column]:
        """The line-of-sight state, in `detail`."""
        del bearing_deg, distance_m
        return {"detail": sight_states(los)}

    def channel(self, made: Received) -> Complexes:
        """The channel on the carriers in use, in order of frequency, `[n, elements, carriers]`.

        Its phase is that in the middle of the symbols' bodies: what is left of the carrier turns it.
        """
        middle = self.cyclic_prefix + (self.subcarriers - 1 + self.symbol * (self.comb - 1)) / 2
        gains = made.gains * np.exp(2j * np.pi * middle * made.offset)[:, None, None]
        delays = made.delays_s + made.timing_s[:, None]
        whole = frequency_response(gains, delays, self.subcarriers, self.sample_rate_hz)
        return whole[..., ofdm.carriers(self.active_subcarriers, self.subcarriers)]

    def least_squares(self, iq: Samples) -> Complexes:
        """What is heard over what was sent `[n, elements, carriers]`, each carrier in the symbol that has its pilot."""
        bodies = iq.reshape(*iq.shape[:2], self.comb, self.symbol)[..., self.cyclic_prefix :].astype(complex)
        heard = np.fft.fft(bodies)[..., ofdm.carriers(self.active_subcarriers, self.subcarriers)]
        carrier = np.arange(self.active_subcarriers)
        level = self.subcarriers / np.sqrt(self.active_subcarriers)
        estimate: Complexes = heard[:, :, carrier % self.comb, carrier] / (level * self._pilots())
        return estimate

    def own_phase(self, iq: Samples) -> Complexes:
        """Unit numbers `[n]` that turn by the phase of the estimate at antenna 0, the mean of its carriers'."""
        turn: Complexes = np.exp(-1j * np.angle(self.least_squares(iq)[:, 0].mean(axis=1)))
        return turn

    def _pilots(self) -> Complexes:
        """Values of the carriers in use, `[carriers]`."""
        assert self.reference is not None
        return ofdm.punctured_zadoff_chu(self.reference.root, self.active_subcarriers)

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """The linear estimate of least error for the true paths' delays, directions, mean powers and noise, `[n, D]`.

        Gains of paths are random by the phases of their rays, so that these say all but what the noise hides.
        """
        if links is None:
            raise ValueError(f"links: expected those of chunk {key!r} of {name} in {split}, got none")
        made = self.received(setting, name, split, key, seed, links)
        array = self.hardware(setting, split, key, len(links.los))
        roots = np.stack(
            [at_array(array, root) for root in path_roots(links, self.positions(setting, key[1])).transpose(1, 0, 2, 3)]
        ).transpose(1, 0, 2, 3)
        number = ofdm.carriers(self.active_subcarriers, self.subcarriers)
        number = np.where(number < self.subcarriers // 2, number, number - self.subcarriers)
        delay = (made.delays_s + made.timing_s[:, None]) * self.sample_rate_hz
        phasors = np.exp(-2j * np.pi / self.subcarriers * delay[..., None] * number)
        size = root_mean_square(self.channel(made))
        snr = 10 ** (made.snr_db / 10)
        power = np.mean(np.abs(made.iq) ** 2, axis=(1, 2)) * snr / (1 + snr)
        # The carrier's offset turns one symbol against the next.
        later = np.arange(self.active_subcarriers) % self.comb - (self.comb - 1) / 2
        turn = np.exp(-2j * np.pi * self.symbol * made.offset[:, None] * later)
        heard = self.least_squares(made.iq) * (self.own_phase(made.iq) / np.sqrt(power))[:, None, None] * turn[:, None]
        # What comes after the prefix is missing from its own symbol, and reaches into the next.
        late = np.clip(delay - self.cyclic_prefix, 0, self.subcarriers) / self.subcarriers
        mean_power = np.mean(np.sum(np.abs(roots) ** 2, axis=3), axis=2) / size[:, None] ** 2
        noise = self.active_subcarriers / self.subcarriers / snr + 2 * np.sum(late * mean_power, axis=1)
        return pairs(smoothed(heard, phasors, roots / size[:, None, None, None], noise))


def path_roots(links: Links, positions: Floats) -> Complexes:
    """Square roots `[n, P, elements, elements]` of the paths' covariances over elements, as `path_gains` orders paths.

    The phases of rays are random, so that the gains of a path at the elements are of covariance `root root^H`.
    """
    n, count = links.power.shape
    steering = arrays.response(positions, links.azimuth_deg, links.zenith_deg)
    steering = steering * np.sqrt(links.power / steering.shape[2] / (1 + links.k_linear)[:, None])[..., None, None]
    direct = arrays.response(positions, links.bearing_deg, links.direct_zenith_deg)
    direct = direct * np.sqrt(links.k_linear / (1 + links.k_linear))[:, None]
    split = [steering[:, cluster][:, list(rays)] for cluster in range(min(2, count)) for rays in SUBCLUSTERS]
    groups = [direct[:, None], *split, *(steering[:, cluster] for cluster in range(2, count))]
    covariance = np.stack([np.einsum("nra,nrb->nab", rays, rays.conj()) for rays in groups], axis=1)
    values, vectors = np.linalg.eigh(covariance)
    roots: Complexes = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return roots.reshape(n, len(groups), len(positions), len(positions))


def smoothed(heard: Complexes, phasors: Complexes, roots: Complexes, noise: Floats) -> Complexes:
    """The linear estimate of least mean squared error of n channels, `[n, elements, carriers]`.

    Args:
        heard: channels and white noise, `[n, elements, carriers]`.
        phasors: of the paths' delays on the carriers, `[n, P, carriers]`.
        roots: of the paths' covariances over elements, `[n, P, elements, elements]`.
        noise: power of the noise `[n]`.
    """
    n, paths, elements, _ = roots.shape
    over = np.einsum("npk,nqk->npq", phasors.conj(), phasors)
    across = np.einsum("npai,nqaj->npiqj", roots.conj(), roots)
    gram = (across * over[:, :, None, :, None]).reshape(n, paths * elements, -1)
    matched = np.einsum("npai,npk,nak->npi", roots.conj(), phasors.conj(), heard, optimize=True).reshape(n, -1, 1)
    gram += noise[:, None, None] * np.eye(paths * elements)
    weights = np.linalg.solve(gram, matched).reshape(n, paths, elements)
    estimate: Complexes = np.einsum("npai,npi,npk->nak", roots, weights, phasors, optimize=True)
    return estimate


def root_mean_square(channel: Complexes) -> Floats:
    """Over antennas and carriers, `[n]`."""
    rms: Floats = np.sqrt(np.mean(np.abs(channel) ** 2, axis=(1, 2)))
    return rms


def pairs(channel: Complexes) -> Floats:
    """Complex `[n, ...]` as real and imaginary parts in turn, float64 `[n, D]`."""
    return np.ascontiguousarray(channel).view(np.float64).reshape(len(channel), -1)
