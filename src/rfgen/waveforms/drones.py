"""Drone families of E-ID-DRONE: identification, video and control links, after published descriptions.

Each returns `(signal, on)` as those of `rfgen.waveforms.emitters` do.
"""

import numpy as np
from pydantic import model_validator

from common.streams import stream
from rfgen.physics.fields import Count, Counts, Model, Positive, Range, Rates, Share
from rfgen.physics.types import Bools, Complexes, Floats
from rfgen.waveforms import angular, ofdm
from rfgen.waveforms.bursts import (
    RATE,
    SIZE,
    SLOT_PREFIX,
    Emission,
    Hops,
    fine_length,
    from_fine,
    gfsk,
    hops,
    keyed,
    random_window,
)


class DroneId(Model):
    """The identification broadcast: number of carriers."""

    carriers: Count


class Video(Model):
    """OFDM video downlink: carriers to choose from, slots in a burst and the pause between bursts."""

    carriers: Counts
    slots: Counts
    gap_us: Range


class Cofdm(Model):
    """DVB-T-like video: useful lengths of a symbol, and guard intervals as shares of it, to choose from."""

    useful_us: Rates
    guard: Rates


class NarrowWifi(Model):
    """Wi-Fi with a divided clock: divisors to choose from, frames and the gaps between them."""

    clock: Counts
    frame_us: Range
    gap_us: Range


class AnalogueVideo(Model):
    """FM video: line periods to choose from, width of the picture, deviation from blank to white, mean brightness."""

    line_us: Rates = (64.0,)
    picture_hz: Range
    deviation_hz: Range
    brightness: Range


class Control(Model):
    """Hopping control link: a share sends chirps, the others slow GFSK."""

    chirp_share: Share
    chirp_bandwidth_hz: Positive
    spreading: Counts
    fsk_baud: Rates
    fsk_index: Range
    fsk_bt: Positive
    hops: Hops


class Chirps(Model):
    """Control link of chirps: bandwidth, spreading factors to choose from, up-chirps that open a packet."""

    bandwidth_hz: Positive
    spreading: Counts
    preamble: Count
    hops: Hops


class Keying(Model):
    """Control link of GFSK: baud rates and their deviations, a pair for each kind of radio, and the filter."""

    baud: Rates
    deviation_hz: Rates
    bt: Positive
    hops: Hops

    @model_validator(mode="after")
    def _check_pairs(self) -> "Keying":
        if len(self.baud) != len(self.deviation_hz):
            raise ValueError(f"deviation_hz: expected {len(self.baud)}, one for each baud rate")
        return self


class Spread(Model):
    """Control link of spread GFSK: chip rate, chips of a code, codes of a system, modulation index and filter."""

    chip_hz: Positive
    chips: Count
    codes: Count
    index: Range
    bt: Positive
    hops: Hops


def drone_id(rng: np.random.Generator, samples: int, p: DroneId) -> Emission:
    """The DroneID broadcast: one burst of nine symbols at 15 kHz spacing, Zadoff-Chu in the fourth and the sixth.

    Roots 600 and 147 of length 601, the first and the last symbol with a long prefix; a burst of 643 us comes every
    600 ms or so, so that a window meets one. Reference: N. Schiller et al., "Drone Security and the Mysterious Case of
    DJI's DroneID", NDSS 2023, section IV.
    """
    active = ofdm.carriers(p.carriers, SIZE)
    values = ofdm.random_values(rng, (9, len(active)), "QPSK")
    for place, root in ((3, 600), (5, 147)):
        # The middle element falls on the empty DC carrier.
        values[place] = np.resize(np.delete(ofdm.zadoff_chu(root, 601), 300), len(active))
    burst = ofdm.modulate(values, active, SIZE, [160, 144, 144, 144, 144, 144, 144, 144, 160])
    pause = np.zeros(fine_length(samples), complex)
    on = np.repeat([False, True, False], [len(pause), len(burst), len(pause)])
    return from_fine(np.concatenate([pause, burst, pause]), on, rng, samples)


def drone_video(rng: np.random.Generator, samples: int, p: Video) -> Emission:
    """OFDM video downlink of 10 or 20 MHz: bursts of LTE-like slots at 15 kHz spacing, full of data.

    Every burst opens with a training symbol that the link keeps. No format of a maker's video link is published:
    widths are those of data sheets, spacing and prefixes those of the same radios' DroneID (`drone_id`); training and
    bursts are assumed.
    """
    active = ofdm.carriers(int(rng.choice(p.carriers)), SIZE)
    training = ofdm.random_values(rng, (1, len(active)), "QPSK")
    name = str(rng.choice(["QPSK", "16QAM", "64QAM"]))
    parts: list[Complexes] = []
    on: list[Bools] = []
    while sum(map(len, parts)) < 3 * fine_length(samples):
        slots = int(rng.choice(p.slots))
        values = np.concatenate([training, ofdm.random_values(rng, (7 * slots - 1, len(active)), name)])
        burst = ofdm.modulate(values, active, SIZE, SLOT_PREFIX * slots)
        gap = int(rng.uniform(*p.gap_us) * 1e-6 * 30.72e6)
        parts += [burst, np.zeros(gap, complex)]
        on += [np.ones(len(burst), bool), np.zeros(gap, bool)]
    return from_fine(np.concatenate(parts), np.concatenate(on), rng, samples)


# Continual pilots of the 2K mode, ETSI EN 300 744 V1.6.2, Table 7.
# fmt: off
_CONTINUAL = np.array([
    0, 48, 54, 87, 141, 156, 192, 201, 255, 279, 282, 333, 432, 450, 483, 525, 531, 618, 636, 714, 759, 765, 780,
    804, 873, 888, 918, 939, 942, 969, 984, 1050, 1101, 1107, 1110, 1137, 1140, 1146, 1206, 1269, 1323, 1377, 1491,
    1683, 1704,
])
# fmt: on
_DVB_CARRIERS = 1705


def _pilot_signs() -> Floats:
    """Signs of the pilots by carrier: the sequence of X^11 + X^2 + 1 from all ones (EN 300 744, Figure 10)."""
    register, signs = [1] * 11, np.zeros(_DVB_CARRIERS)
    for carrier in range(_DVB_CARRIERS):
        signs[carrier] = 1 - 2 * register[-1]
        register = [register[-1] ^ register[-3], *register[:-1]]
    return signs


_SIGNS = _pilot_signs()


def drone_cofdm(rng: np.random.Generator, samples: int, p: Cofdm) -> Emission:
    """Coded OFDM video as broadcast drones send it: the 2K mode of DVB-T in 8 or 7 MHz, without TPS carriers.

    1,705 carriers; scattered pilots on every twelfth, three further from symbol to symbol, and continual ones, raised
    by 4/3. Reference: ETSI EN 300 744 V1.6.2, 4.4 and 4.5.
    """
    size = round(float(rng.choice(p.useful_us)) * 1e-6 * RATE)
    prefix = round(size * float(rng.choice(p.guard)))
    active = np.arange(-(_DVB_CARRIERS // 2), _DVB_CARRIERS // 2 + 1) % size
    symbols = 2 + -(-samples // (size + prefix))
    values = ofdm.random_values(rng, (symbols, _DVB_CARRIERS), str(rng.choice(["QPSK", "16QAM", "64QAM"])))
    first = int(rng.integers(4))
    for symbol in range(symbols):
        pilots = np.union1d(np.arange(3 * ((first + symbol) % 4), _DVB_CARRIERS, 12), _CONTINUAL)
        values[symbol, pilots] = 4 / 3 * _SIGNS[pilots]
    stretch = ofdm.modulate(values, active, size, prefix)
    signal = random_window(stretch / np.sqrt(np.mean(np.abs(stretch) ** 2)), rng, samples)
    return signal, np.ones(samples, bool)


def drone_wifi(rng: np.random.Generator, samples: int, p: NarrowWifi) -> Emission:
    """Wi-Fi video link in a channel of 10 or 5 MHz: OFDM frames with the clock divided by two or four.

    Reference: IEEE 802.11-2020, 17.1 and Table 17-5 (half-clocked and quarter-clocked operation).
    """
    clock = int(rng.choice(p.clock))
    parts: list[Complexes] = []
    while sum(map(len, parts)) < 2 * samples:
        length = int(rng.uniform(*p.frame_us) * 1e-6 * RATE)
        parts += [ofdm.wifi_frame(rng, length, str(rng.choice(["BPSK", "QPSK", "16QAM", "64QAM"])), clock=clock)]
        parts += [np.zeros(int(rng.uniform(*p.gap_us) * 1e-6 * RATE), complex)]
    stretch = random_window(np.concatenate(parts), rng, samples)
    return stretch, stretch != 0


def fm_video(rng: np.random.Generator, samples: int, p: AnalogueVideo) -> Emission:
    """Analogue FM video: luminance with a sync pulse at the start of every line.

    Lines of 64 us (625 lines) or 63.556 us (525 lines), sync of 4.7 us, blanking to 12 us. Reference: ITU-R BT.1700.
    """
    period = float(rng.choice(p.line_us)) * 1e-6
    time = np.arange(samples) / RATE + rng.uniform(0, period)
    in_line, line = time % period, (time // period).astype(np.int64)
    picture = angular.band_limited_noise(rng, 1, samples, np.array([rng.uniform(*p.picture_hz) / RATE]))[0]
    brightness = rng.uniform(*p.brightness) + 0.15 * rng.standard_normal(line[-1] + 1)[line]
    luminance = np.clip(brightness + 0.18 * picture, 0.3, 1.0)
    video = np.where(in_line < 4.7e-6, 0.0, np.where(in_line < 12e-6, 0.3, luminance))
    # The video amplifier rounds the steps: a Gaussian 4 MHz wide, whose response is over after four samples.
    place = np.arange(-8, 9) / RATE
    response = np.exp(-((np.pi * 4e6 * place) ** 2))
    video = np.convolve(np.pad(video, 8, mode="edge"), response / response.sum(), mode="valid")
    deviation = rng.uniform(*p.deviation_hz) * (video - 0.45)
    return angular.frequency_modulate(deviation[None] / RATE)[0], np.ones(samples, bool)


def control_hops(rng: np.random.Generator, samples: int, p: Control) -> Emission:
    """Frequency-hopping control link: chirp spread spectrum or slow wide-deviation GFSK."""
    if rng.random() < p.chirp_share:
        spreading, bandwidth = int(rng.choice(p.spreading)), p.chirp_bandwidth_hz / RATE

        def burst(length: int) -> Complexes:
            symbols = rng.integers(2**spreading, size=int(length * bandwidth / 2**spreading) + 3)
            return angular.chirps(symbols, length, bandwidth, spreading, rng.random())
    else:
        baud, index = float(rng.choice(p.fsk_baud)), rng.uniform(*p.fsk_index)

        def burst(length: int) -> Complexes:
            return gfsk(rng, length, baud, index, p.fsk_bt)

    return hops(rng, samples, burst, p.hops)


def control_chirps(rng: np.random.Generator, samples: int, p: Chirps) -> Emission:
    """Control link of chirp packets, each on another channel and opened by up-chirps.

    Reference: ExpressLRS at 2.4 GHz: Semtech SX1280, LoRa of 812.5 kHz, spreading factors 5 to 8, channels 1 MHz apart.
    """
    spreading, bandwidth = int(rng.choice(p.spreading)), p.bandwidth_hz / RATE

    def burst(length: int) -> Complexes:
        symbols = rng.integers(2**spreading, size=int(length * bandwidth / 2**spreading) + 3)
        symbols[: p.preamble] = 0
        return angular.chirps(symbols, length, bandwidth, spreading, 0.0)

    return hops(rng, samples, burst, p.hops)


def control_gfsk(rng: np.random.Generator, samples: int, p: Keying) -> Emission:
    """Control link of slow GFSK packets on hopping channels.

    Reference: the CC2500 settings of FrSky's D (31.0 kBd, 31.7 kHz) and X (70.0 kBd, 57.1 kHz) in the sources of the
    DIY multiprotocol module and of Betaflight; Texas Instruments SWRS040, sections 12 and 16.
    """
    kind = int(rng.integers(len(p.baud)))
    baud, index = p.baud[kind], 2 * p.deviation_hz[kind] / p.baud[kind]
    return hops(rng, samples, lambda length: gfsk(rng, length, baud, index, p.bt), p.hops)


def control_spread(rng: np.random.Generator, samples: int, p: Spread) -> Emission:
    """Control link of direct-sequence spread GFSK on hopping channels: codes of 64 chips, rotated and inverted by data.

    Reference: Cypress CYRF6936 (38-16015, "8DR" mode), the radio of Spektrum's DSM2 and DSMX; 1 Mchip/s in channels of
    1 MHz. The codes here are drawn once, not the maker's.
    """
    codes = 2 * stream(0, "spread-codes", p.codes, p.chips).integers(2, size=(p.codes, p.chips)) - 1
    code, index = codes[int(rng.integers(p.codes))], rng.uniform(*p.index)

    def burst(length: int) -> Complexes:
        number = int(length * p.chip_hz / RATE) // p.chips + 2
        turns = (np.arange(p.chips) + rng.integers(p.chips, size=(number, 1))) % p.chips
        levels = code[turns] * (2 * rng.integers(2, size=(number, 1)) - 1)
        return keyed(rng, length, np.pad(levels.ravel(), 4, mode="wrap"), p.chip_hz, index, p.bt)

    return hops(rng, samples, burst, p.hops)
