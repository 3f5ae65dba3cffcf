"""E-CH-BEAM: which of many narrow beams receives a terminal best, from what a few wide ones receive.

The orthogonal beams of a linear array of N elements half a wavelength apart weight element m with
exp(-j 2 pi m b / N) / sqrt(N): beam b, from -N / 2 on, looks where the cosine of the azimuth is 2 b / N, at the
horizon.
Spatial-domain beam prediction as 3GPP TR 38.843 studies it: a set of few measured beams, the best of a larger set.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import model_validator

from common.streams import Seed, stream
from rfgen.physics.arrays import Array
from rfgen.physics.fields import Count, Model, NonNegative
from rfgen.physics.propagation import Links, frequency_response
from rfgen.physics.site import Site
from rfgen.physics.types import Bools, Complexes, Floats
from rfgen.scenes.base import Chunk, ChunkKey, Column, LabelColumns, Setting, Split
from rfgen.scenes.localisation import Localisation, sight_states
from rfgen.waveforms import ofdm


class ProbeErrors(Model):
    """Standard deviations of a weight of a wide beam, in gain [dB] and phase [deg], drawn by site, beam and element."""

    gain_db: NonNegative
    phase_deg: NonNegative


class BeamPrediction(Localisation):
    """E-CH-BEAM: the powers of the narrow beams of a panel, of which a scene holds as many wide ones as `probes`.

    A wide beam is formed by the `probes` elements in the middle of the array, one chain each: all hear the same window,
    and noise enters behind the combiner. `panels` share the horizon and are alike; a link is turned by whole panels so
    that the terminal is in front of the one at broadside azimuth 90, which TR 38.901 finds as likely.
    """

    names = ("E-CH-BEAM",)
    label_columns: ClassVar[LabelColumns] = {"beam_power": list, "detail": str}

    probes: Count
    probe_errors: ProbeErrors
    panels: Count

    @model_validator(mode="after")
    def _check_beams(self) -> "BeamPrediction":
        if self.array.kind != "linear" or self.band_arrays:
            raise ValueError("array.kind: expected linear, and no band_arrays")
        if self.probes > self.array.elements or (self.array.elements - self.probes) % 2:
            raise ValueError(f"probes: expected the {self.array.elements} elements, or fewer by an even number")
        return self

    @property
    def antennas(self) -> int:
        """A row for each probe."""
        return self.probes

    def site(self, setting: Setting, name: str, array: Array | None) -> Site:
        """A site whose array is whole, with a chain behind each wide beam, and that beam's weights as they came out."""
        drawn = super().site(setting, name, array)
        decibels, degrees = stream(setting.hardware_seed, "probes", name).standard_normal((2, self.probes, self.probes))
        errors = self.probe_errors
        came_out = 10 ** (errors.gain_db * decibels / 20) * np.exp(1j * np.radians(errors.phase_deg * degrees))
        weights = beams(np.eye(self.probes, dtype=complex)[None])[0] * came_out
        combiner = np.zeros((self.probes, self.array.elements), complex)
        first = (self.array.elements - self.probes) // 2
        # Of unit length, so that noise behind a wide beam would be as loud behind any other.
        combiner[:, first : first + self.probes] = weights / np.linalg.norm(weights, axis=1, keepdims=True)
        return replace(drawn, chains=drawn.chains[: self.probes], combiner=combiner)

    def make_on(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> Chunk:
        """One scene per link, turned to the panel."""
        return super().make_on(setting, name, split, key, seed, self.facing(links))

    def facing(self, links: Links) -> Links:
        """The links turned by whole panels, bearings within half a panel of azimuth 90."""
        width = 360.0 / self.panels
        turn = width * np.floor((links.bearing_deg - 90.0) / width + 0.5)
        azimuth = (links.azimuth_deg - turn[:, None, None]) % 360.0
        return replace(links, bearing_deg=(links.bearing_deg - turn) % 360.0, azimuth_deg=azimuth)

    def link_labels(self, los: Bools, bearing_deg: Floats, distance_m: Floats) -> dict[str, Column]:
        """The line-of-sight state, in `detail`."""
        del bearing_deg, distance_m
        return {"detail": sight_states(los)}

    def path_labels(self, links: Links, gains: Complexes, delays: Floats) -> dict[str, Column]:
        """Powers of the narrow beams, of which the highest is 1."""
        power = self.beam_powers(gains, delays)
        return {"beam_power": power / power.max(axis=1, keepdims=True)} | super().path_labels(links, gains, delays)

    def beam_powers(self, gains: Complexes, delays: Floats) -> Floats:
        """Mean power over the carriers in use behind each narrow beam `[n, elements]`, from the lowest cosine on.

        `gains` `[n, elements, P]` and `delays` [s] `[n, P]` are those of paths. Over all beams it is the power that the
        elements receive.
        """
        active = ofdm.carriers(self.active_subcarriers, self.subcarriers)
        response = frequency_response(beams(gains), delays, self.subcarriers, self.sample_rate_hz)[..., active]
        power: Floats = np.mean(np.abs(response) ** 2, axis=2)
        return power

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """The narrow beams' powers in the channel itself, without noise, signal or front ends."""
        return np.asarray(self.make(setting, name, split, key, seed, links).labels["beam_power"], float)


def beams(gains: Complexes) -> Complexes:
    """What the orthogonal beams make of elements `[n, elements, P]`, in order of the cosine that they look at."""
    turned: Complexes = np.fft.fftshift(np.fft.fft(gains, axis=1, norm="ortho"), axes=1)
    return turned
