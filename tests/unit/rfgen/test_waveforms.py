import numpy as np
import pytest

from common.streams import stream
from rfgen.waveforms import angular, emitters, linear, ofdm

RATE = emitters.RATE


def peak_share(x: np.ndarray, lag: int) -> float:
    """Normalised autocorrelation at a lag."""
    return float(
        np.abs(np.vdot(x[:-lag], x[lag:])) / np.sqrt(np.vdot(x[:-lag], x[:-lag]).real * np.vdot(x[lag:], x[lag:]).real)
    )


@pytest.mark.parametrize("name", ["OOK", "4PAM", "BPSK", "QPSK", "8PSK", "16QAM", "64QAM"])
def test_constellations_have_unit_power_and_distinct_points(name) -> None:
    points = linear.constellation(name)
    assert np.mean(np.abs(points) ** 2) == pytest.approx(1)
    assert len(set(np.round(points, 9))) == len(points)


def test_unknown_constellation() -> None:
    with pytest.raises(ValueError, match="unknown name"):
        linear.constellation("1024QAM")


@pytest.mark.parametrize("rolloff", [0.2, 0.25, 0.5, 1.0])
def test_root_raised_cosine_is_nyquist_with_itself(rolloff) -> None:
    sps, span = 40, 40
    t = np.arange(-span * sps, span * sps + 1) / sps
    p = linear.root_raised_cosine(t, rolloff)
    assert np.isfinite(p).all()
    full = np.convolve(p, p, mode="same")[::sps] / sps
    middle = len(full) // 2
    assert full[middle] == pytest.approx(1, abs=2e-3)
    assert np.abs(np.delete(full, middle)[middle - 15 : middle + 15]).max() < 3e-3


def test_pulse_through_its_singular_points() -> None:
    for b in (0.25, 0.4):
        t = np.array([0.0, 1 / (4 * b), -1 / (4 * b)])
        near = linear.root_raised_cosine(t + 1e-5, b)
        assert linear.root_raised_cosine(t, b) == pytest.approx(near, abs=1e-4)


def test_fractional_symbol_rates_keep_their_timing() -> None:
    sps, one = 7.37, np.ones(1)
    symbols = np.zeros((1, 80))
    symbols[0, 30] = 1
    out = linear.pulse_shape(symbols, 400, sps * one, 0.3 * one, 0.25 * one)[0].real
    # Symbol k is centred where n / sps + start + span = k.
    assert abs(out.argmax() - (30 - 6 - 0.25) * sps) <= 0.5


def test_carriers_leave_dc_empty() -> None:
    for active, size in ((52, 64), (600, 2048), (7, 16)):
        index = ofdm.carriers(active, size)
        assert len(set(index)) == active
        assert 0 not in index
        assert index.max() < size


def test_ofdm_symbols_carry_a_prefix_and_their_values() -> None:
    rng = stream(0, "ofdm")
    active = ofdm.carriers(52, 64)
    values = ofdm.random_values(rng, (3, 5, 52), "QPSK")
    x = ofdm.modulate(values, active, 64, [16, 8, 8, 8, 16])
    assert x.shape == (3, 5 * 64 + 56)
    assert np.allclose(x[:, :16], x[:, 64:80])
    back = np.fft.fft(x[:, 16:80])[:, active] * np.sqrt(52) / 64
    assert np.allclose(back, values[:, 0])
    assert np.mean(np.abs(x) ** 2) == pytest.approx(1, abs=0.1)


def test_wifi_preamble_repeats_as_the_standard_says() -> None:
    x = ofdm.wifi_preamble()
    assert len(x) == 320
    assert np.allclose(x[:144], x[16:160])
    assert np.allclose(x[192:256], x[256:320])
    assert np.allclose(x[160:192], x[224:256])
    assert np.mean(np.abs(x) ** 2) == pytest.approx(1, abs=0.02)
    # First samples of the standard's own listing (IEEE 802.11-2020, table I-4): 0.046 + 0.046j, -0.132 + 0.002j.
    scale = 0.046 / x[0].real
    assert x[:2] * scale == pytest.approx([0.046 + 0.046j, -0.132 + 0.002j], abs=1.5e-3)


def test_header_is_the_one_given() -> None:
    head = ofdm.random_values(stream(0, "h"), (52,), "BPSK")
    frames = [ofdm.wifi_frame(stream(0, "f", i), 700, "QPSK", head) for i in range(2)]
    assert np.array_equal(frames[0][:400], frames[1][:400])
    assert not np.allclose(frames[0][400:], frames[1][400:])


def test_zadoff_chu_has_an_ideal_autocorrelation() -> None:
    for root, length in ((600, 601), (147, 601), (25, 63)):
        s = ofdm.zadoff_chu(root, length)
        correlation = np.fft.ifft(np.abs(np.fft.fft(s)) ** 2)
        assert np.abs(correlation[1:]).max() < 1e-8 * length


def test_frequency_modulation_has_the_frequency_asked_for() -> None:
    x = angular.frequency_modulate(np.full((1, 100), 0.07))
    assert np.angle(x[0, 1:] * x[0, :-1].conj()) == pytest.approx(2 * np.pi * 0.07)


def test_gaussian_fsk_is_a_smoothed_fsk() -> None:
    one = np.ones(1)
    bits = 2 * stream(0, "b").integers(2, size=(1, 60)) - 1
    hard = angular.fsk_frequency(bits, 400, 8 * one, 0 * one)
    soft = angular.fsk_frequency(bits, 400, 8 * one, 0 * one, 0.5 * one)
    assert set(np.unique(hard)) == {-1.0, 1.0}
    assert np.abs(soft).max() <= 1 + 1e-6
    assert np.corrcoef(hard[0], soft[0])[0, 1] > 0.9
    wide = angular.fsk_frequency(bits, 400, 8 * one, 0 * one, 50 * one)
    assert np.mean(np.abs(wide - hard) < 1e-6) > 0.8


def test_messages_stop_at_their_cutoff() -> None:
    m = angular.band_limited_noise(stream(0, "m"), 4, 1000, np.full(4, 0.1))
    assert m.std(axis=1) == pytest.approx(1)
    assert np.abs(np.fft.rfft(m)[:, 102:]).max() < 1e-9


def test_half_sine_offset_qpsk_has_a_constant_envelope() -> None:
    chips = 2 * stream(0, "c").integers(2, size=200) - 1
    x = angular.oqpsk_half_sine(chips, 1500, 10.0, 0.3)
    assert np.abs(x) == pytest.approx(1, abs=1e-9)


def test_chirps_sweep_their_bandwidth() -> None:
    x = angular.chirps(np.zeros(4, int), 2000, 0.05, 6, 0.0)
    frequency = np.angle(x[1:] * x[:-1].conj()) / (2 * np.pi)
    assert frequency[0] == pytest.approx(-0.025, abs=1e-3)
    assert frequency[:1270].max() == pytest.approx(0.025, abs=1e-3)
    assert np.diff(frequency[:1270]).min() > 0


@pytest.mark.parametrize("family", emitters.FAMILIES)
def test_emitters_have_unit_power_while_on_and_stay_in_band(tiny, family) -> None:
    rng = stream(0, "family", family)
    powers, shares = [], []
    for _ in range(30):
        signal, on = emitters.FAMILIES[family](rng, 5000, tiny.tasks["E-ID-DRONE"].families[family])
        assert signal.shape == on.shape == (5000,)
        assert np.abs(signal[~on]).max(initial=0) == 0
        if family == "noise":
            assert not on.any()
            continue
        if on.any():
            powers.append(np.mean(np.abs(signal[on]) ** 2))
            spectrum = np.abs(np.fft.fft(signal)) ** 2
            inside = np.abs(np.fft.fftfreq(5000, 1 / RATE)) < 9.3e6
            shares.append(spectrum[inside].sum() / spectrum.sum())
    if family != "noise":
        assert np.mean(powers) == pytest.approx(1, abs=0.15)
        assert min(shares) > 0.95


def test_families_differ_in_their_own_structure(tiny) -> None:
    """Cyclic prefixes at 15 kHz, Wi-Fi training, constant envelopes, lines: what tells the families apart."""
    rng = stream(0, "structure")
    numbers = tiny.tasks["E-ID-DRONE"].families

    def active(name: str) -> np.ndarray:
        signal, on = emitters.FAMILIES[name](rng, 20000, numbers[name])
        return signal[on]

    for name in ("drone-video-fm", "drone-control-hops", "bluetooth-gfsk", "zigbee-oqpsk"):
        assert np.abs(active(name)) == pytest.approx(1, abs=1e-6)
    for name in ("drone-video-ofdm", "lte-ofdm"):
        x = active(name)
        lags = [peak_share(x, lag) for lag in (1333, 1250, 1400)]
        assert lags[0] > 1.3 * max(lags[1:])  # a symbol without its prefix lasts 1333.3 samples
    x = active("drone-video-fm")
    frequency = np.angle(x[1:] * x[:-1].conj())
    frequency -= frequency.mean()
    assert peak_share(frequency, 1280) > peak_share(frequency, 1100) + 0.2  # a line lasts 64 us


def test_a_drone_frame_carries_its_sync_symbols(tiny) -> None:
    """One of the two Zadoff-Chu symbols is found in about half of the windows of 205 us, and never in LTE."""
    active = ofdm.carriers(600, 2048)
    found = {"drone-video-ofdm": [], "lte-ofdm": []}
    for name, hits in found.items():
        rng = stream(0, "sync", name)
        for _ in range(40):
            signal, _ = emitters.FAMILIES[name](rng, 4096, tiny.tasks["E-ID-DRONE"].families[name])
            best = 0.0
            for root in (600, 147):
                values = np.delete(ofdm.zadoff_chu(root, 601), 300)[None]
                time = ofdm.modulate(values, active, 2048, 0)
                template = emitters._resample(np.pad(time, (0, 16)), round(2064 * RATE / 30.72e6 / 2) * 2)
                spectrum = np.fft.fft(signal, 8192) * np.fft.fft(template, 8192).conj()
                best = max(best, np.abs(np.fft.ifft(spectrum)).max() / len(template))
            hits.append(best)
    threshold = max(found["lte-ofdm"])
    assert 0.2 < np.mean(np.array(found["drone-video-ofdm"]) > 1.2 * threshold) < 0.8
