"""The expert features of E-ID-FP against frames whose impairments are set, one at a time."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from emma.backbones.classical.impairments import Impairments, impairments
from rfgen.physics import hardware
from rfgen.scenes.fingerprint import header
from rfgen.waveforms import ofdm

RATE, CARRIER = 20e6, 2.44e9
N, SAMPLES = 24, 1024
OFFSET, IMAGE, DC, CURVE, NOISE, SIZES, ANGLES = (
    0,
    slice(1, 3),
    slice(3, 5),
    5,
    slice(9, 11),
    slice(11, 16),
    slice(16, 21),
)
DEPTH, TIME = 21, 22


def frames(change=None, *, snr_db: float = 30.0, taps=(1.0,), ppm: float = 0.0, after=None) -> np.ndarray:
    """Frames ``[24, 1, 1024]``: changed as a transmitter does, then offset, through a channel, late and in noise."""
    rng = stream(0, "frames")
    sent = np.stack([ofdm.wifi_frame(rng, SAMPLES, "QPSK", header()) for _ in range(N)])
    sent = sent if change is None else change(sent)
    sent = sent * np.exp(2j * np.pi * ppm * 1e-6 * CARRIER / RATE * np.arange(SAMPLES))
    out = np.zeros((N, SAMPLES), complex)
    for row, lead in enumerate(rng.integers(16, 49, N)):
        heard = np.convolve(sent[row], np.asarray(taps) * np.exp(2j * np.pi * rng.random()))
        out[row, lead:] = heard[: SAMPLES - lead]
    out = out if after is None else after(out)
    return (out * 10 ** (snr_db / 20) + complex_normal(rng, out.shape)).astype(np.complex64)[:, None]


def found(*args, **kwargs) -> np.ndarray:
    embedded = impairments().embed(frames(*args, **kwargs), RATE, CARRIER)
    assert embedded.dtype == np.float32
    assert embedded.shape == (N, Impairments.embedding_dim) == (N, 23)
    return np.median(embedded, axis=0)


#: A direct path and echoes up to half a microsecond.
ECHOES = (0.9, 0.25j, 0, -0.2 + 0.1j, 0, 0, 0.1, 0, 0, 0.05j)


@pytest.mark.parametrize("taps", [(1.0,), ECHOES])
@pytest.mark.parametrize("ppm", [-8.0, 0.0, 3.0])
def test_the_carrier_offset(ppm: float, taps) -> None:
    assert found(ppm=ppm, taps=taps)[OFFSET] == pytest.approx(ppm, abs=0.05)


@pytest.mark.parametrize("taps", [(1.0,), ECHOES])
@pytest.mark.parametrize(("gain_db", "phase_deg"), [(0.8, 0.0), (0.0, -4.0), (-0.5, 3.0)])
def test_the_image_of_the_mixer(gain_db: float, phase_deg: float, taps) -> None:
    g = 10 ** (gain_db / 20) * np.exp(1j * np.radians(phase_deg))
    wanted = (1 - g) / (1 + g)
    image = found(lambda x: hardware.iq_imbalance(x, gain_db, phase_deg), taps=taps, ppm=2.0)[IMAGE]
    np.testing.assert_allclose(image, [wanted.real, wanted.imag], atol=0.003)


def test_the_leak_of_the_carrier() -> None:
    np.testing.assert_allclose(found(lambda x: x + 0.03 - 0.05j, taps=ECHOES, ppm=1.0)[DC], [0.03, -0.05], atol=0.01)


def test_the_amplifier() -> None:
    """Compression makes the third-order term negative, the more the lower the saturation; a turn goes to its phase."""
    curves = [found(lambda x, s=s: hardware.rapp_amplifier(x, s, 2.0, 0.0), taps=ECHOES) for s in (30.0, 6.0, 3.0)]
    real = [curve[CURVE] for curve in curves]
    assert abs(real[0]) < 0.01
    assert real[2] < real[1] - 0.02 < real[0] - 0.03
    turned = found(lambda x: x * np.exp(0.15j * np.abs(x) ** 2))
    assert abs(turned[CURVE + 1]) > 5 * abs(curves[1][CURVE + 1])


def test_phase_noise_grows_with_its_linewidth_and_its_lag() -> None:
    def noisy(linewidth_hz: float):
        rng = stream(0, "phase")
        deviation = np.sqrt(2 * np.pi * linewidth_hz / RATE)
        return lambda x: x * np.exp(1j * np.cumsum(deviation * rng.standard_normal(x.shape), axis=1))

    quiet, some, much = (found(noisy(w))[NOISE] for w in (0.0, 200.0, 1000.0))
    assert (quiet + 1.0 < some).all()
    assert (some + 0.7 < much).all()
    assert much[1] > much[0] + 0.4


@pytest.mark.parametrize(("depth", "time_us"), [(0.5, 1.0), (0.3, 0.4)])
def test_the_turn_on(depth: float, time_us: float) -> None:
    decay = np.exp(-np.arange(SAMPLES) / RATE * 1e6 / time_us)
    start = found(lambda x: x * (1 - depth * decay) * np.exp(0.4j * decay))
    middle = np.array([3, 9, 16, 26, 44]) / RATE * 1e6 / time_us
    np.testing.assert_allclose(start[SIZES], np.log(1 - depth * np.exp(-middle)), atol=0.08)
    np.testing.assert_allclose(start[ANGLES], 0.4 * np.exp(-middle), atol=0.08)
    assert start[DEPTH] == pytest.approx(depth, abs=0.15)
    assert np.exp(start[TIME]) == pytest.approx(time_us, rel=0.5)


def test_a_clean_frame_has_none_of_it() -> None:
    clean = found(taps=ECHOES)
    np.testing.assert_allclose(clean[:9], 0.0, atol=0.015)
    np.testing.assert_allclose(clean[11:21], 0.0, atol=0.06)


def test_what_it_does_not_take() -> None:
    with pytest.raises(ValueError, match="expected 2e\\+07"):
        impairments().embed(frames(), 10e6, CARRIER)
    with pytest.raises(ValueError, match="700 samples, expected a frame"):
        impairments().embed(frames()[:, :, :700], RATE, CARRIER)
