import numpy as np
import pytest

from common.streams import stream
from rfgen.scenes import TASKS
from rfgen.waveforms import angular, bursts, drones, emitters, linear, ofdm

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


def test_messages_stop_at_their_cutoff_and_do_not_come_back() -> None:
    m = angular.band_limited_noise(stream(0, "m"), 400, 1000, np.full(400, 0.1))
    assert m.std() == pytest.approx(1, abs=0.02)
    spectrum = np.mean(np.abs(np.fft.rfft(m * np.hanning(1000))) ** 2, axis=0)
    assert spectrum[110:].sum() < 1e-4 * spectrum.sum()
    # The end tells nothing of the start; a circular message would join there.
    assert abs(np.mean(m[:, 0] * m[:, -1])) < 0.2
    assert np.mean(m[:, 0] * m[:, 1]) > 0.9


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


@pytest.fixture(scope="module")
def families(mapping) -> emitters.Families:
    """The numbers of every family, of whichever release."""
    known: dict = {}
    for name in ("v0.1", "v1.0"):
        known |= TASKS["E-ID-DRONE"].model_validate(mapping(name)["tasks"]["E-ID-DRONE"]).families
    return known


@pytest.mark.parametrize("family", emitters.FAMILIES)
def test_emitters_have_unit_power_while_on_and_stay_in_band(families, family) -> None:
    rng = stream(0, "family", family)
    powers, shares = [], []
    for _ in range(30):
        signal, on = emitters.FAMILIES[family](rng, 5000, families[family])
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


def test_v10_has_at_least_six_drone_families(mapping) -> None:
    task = TASKS["E-ID-DRONE"].model_validate(mapping("v1.0")["tasks"]["E-ID-DRONE"])
    assert len(set(task.present)) >= 6
    assert set(task.present) | set(task.absent) == set(task.families)


def test_families_differ_in_their_own_structure(families) -> None:
    """Cyclic prefixes at 15 kHz, Wi-Fi training, constant envelopes, lines: what tells the families apart."""
    rng = stream(0, "structure")

    def active(name: str) -> np.ndarray:
        signal, on = emitters.FAMILIES[name](rng, 20000, families[name])
        return signal[on]

    constant = ("drone-video-fm", "drone-control-hops", "drone-control-chirps", "drone-control-gfsk")
    for name in (*constant, "drone-control-spread", "bluetooth-gfsk", "zigbee-oqpsk"):
        assert np.abs(active(name)) == pytest.approx(1, abs=1e-6)
    for name in ("drone-id-ofdm", "drone-video-ofdm", "lte-ofdm"):
        x = active(name)
        lags = [peak_share(x, lag) for lag in (1333, 1250, 1400)]
        assert lags[0] > 1.3 * max(lags[1:])  # a symbol without its prefix lasts 1333.3 samples
    x = active("drone-video-fm")
    frequency = np.angle(x[1:] * x[:-1].conj())
    frequency -= frequency.mean()
    assert peak_share(frequency, 1280) > peak_share(frequency, 1100) + 0.2  # a line lasts 64 us


def test_an_analogue_line_lasts_what_its_standard_says(families) -> None:
    numbers = families["drone-video-fm"]
    assert numbers.line_us == (64.0, 63.556)
    for line_us, lag in ((64.0, 1280), (63.556, 1271)):
        one = numbers.model_copy(update={"line_us": (line_us,), "brightness": (0.5, 0.5)})
        x = emitters.FAMILIES["drone-video-fm"](stream(0, "line", lag), 60000, one)[0]
        frequency = np.angle(x[1:] * x[:-1].conj())
        frequency -= frequency.mean()
        assert max(range(1240, 1310), key=lambda k: peak_share(frequency, k)) == pytest.approx(lag, abs=1)


def test_broadcast_video_has_the_pilots_of_its_standard(families) -> None:
    """Pilots of EN 300 744: the sequence's period and start, and carriers that stand out at their known signs."""
    signs = drones._SIGNS
    bits = signs < 0
    assert bits[:11].all()
    assert (bits[11:] == bits[:-11] ^ bits[2:-9]).all()  # X^11 + X^2 + 1
    # As many ones as zeros, as over the whole period of 2047.
    assert abs(signs.sum()) < 4 * np.sqrt(len(signs))
    one = families["drone-video-cofdm"].model_copy(update={"useful_us": (224.0,), "guard": (0.25,)})
    signal, _ = emitters.FAMILIES["drone-video-cofdm"](stream(0, "dvb"), 40000, one)
    assert peak_share(signal, 4480) > 1.5 * peak_share(signal, 4300)
    # At the right place in a symbol every continual pilot has its sign and 4/3 of the amplitude.
    best = 0.0
    for start in range(0, 5600, 8):
        values = np.fft.fft(signal[start : start + 4480])[np.arange(-852, 853) % 4480]
        step = np.exp(2j * np.pi * np.arange(-852, 853) * np.arange(0, 8)[:, None] / 4480)
        found = np.abs((values * step)[:, drones._CONTINUAL] @ signs[drones._CONTINUAL])
        best = max(best, found.max() / np.sqrt(np.mean(np.abs(values) ** 2)) / len(drones._CONTINUAL))
    assert best == pytest.approx(4 / 3 / np.sqrt(1 + 7 / 9 / 10), abs=0.08)


def test_a_change_of_rate_does_not_wrap() -> None:
    """What 30.72 MS/s becomes at 20 MS/s is the same whether its stretch ends soon or much later, to -60 dB."""
    active = ofdm.carriers(1200, bursts.SIZE)
    length = bursts.fine_length(1952)
    assert length * RATE / bursts.FINE == pytest.approx(4000)
    errors = []
    for trial in range(20):
        values = ofdm.random_values(stream(0, "rate", trial), (9, len(active)), "QPSK")
        fine = ofdm.modulate(values, active, bursts.SIZE, 144)[: 3 * length]
        whole = bursts.resample(fine, 12000)[4000 + 1024 : 4000 + 1024 + 1952]
        part = bursts.from_fine(fine[length : 2 * length], np.ones(length, bool), stream(0), 1952)[0]
        errors.append(np.abs(part - whole) ** 2)
    error = np.mean(errors, axis=0)
    assert 10 * np.log10(max(error[:16].mean(), error[-16:].mean(), error.mean())) < -60


def test_a_divided_clock_stretches_the_frame() -> None:
    plain, half = ofdm.wifi_preamble(), ofdm.wifi_preamble(2)
    assert len(half) == 640
    assert half[::2] == pytest.approx(plain, abs=1e-9)
    frame = ofdm.wifi_frame(stream(0, "half"), 4000, "QPSK", clock=4)
    assert np.allclose(frame[1600:1664], frame[1856:1920])  # the header's prefix of 64 samples
    spectrum = np.abs(np.fft.fft(frame)) ** 2
    assert spectrum[np.abs(np.fft.fftfreq(4000, 1 / RATE)) < 2.1e6].sum() > 0.98 * spectrum.sum()


@pytest.mark.parametrize("kind", [0, 1])
def test_slow_keying_has_its_deviation(families, kind) -> None:
    numbers = families["drone-control-gfsk"]
    still = numbers.hops.model_copy(update={"width_hz": 1.0})  # every packet on one channel
    pair = {name: (getattr(numbers, name)[kind],) for name in ("baud", "deviation_hz")}
    one = numbers.model_copy(update=pair | {"bt": 5.0, "hops": still})
    x, on = emitters.FAMILIES["drone-control-gfsk"](stream(0, "slow", kind), 20000, one)
    step = np.angle(x[1:] * x[:-1].conj())[on[1:] & on[:-1]] * RATE / (2 * np.pi)
    assert np.ptp(step) / 2 == pytest.approx(one.deviation_hz[0], rel=0.02)


def test_spread_chips_repeat_their_code(families) -> None:
    """Neighbouring symbols are rotations of one code or its inverse: 64 chips correlate with the next 64 somewhere."""
    numbers = families["drone-control-spread"].model_copy(update={"bt": 5.0, "index": (0.65, 0.65)})
    x, on = emitters.FAMILIES["drone-control-spread"](stream(0, "dsss"), 20000, numbers)
    run = int(on.argmax())
    step = np.sign(np.diff(np.unwrap(np.angle(x[run : run + 9000]))))
    best = 0.0
    for phase in range(20):
        chips = step[phase::20][:400]
        for start in range(64):
            blocks = chips[start : start + 320].reshape(5, 64)
            spectrum = np.fft.fft(blocks, axis=1)
            peak = np.abs(np.fft.ifft(spectrum[1:] * spectrum[:-1].conj(), axis=1).real).max(axis=1) / 64
            best = max(best, peak.min())
    assert best > 0.9


def test_a_broadcast_carries_its_sync_symbols_and_the_video_link_does_not(families) -> None:
    """One of the two Zadoff-Chu symbols is found in about half of the windows of 205 us, and never in LTE."""
    active = ofdm.carriers(600, 2048)
    found: dict[str, list[float]] = {"drone-id-ofdm": [], "drone-video-ofdm": [], "lte-ofdm": []}
    for name, hits in found.items():
        rng = stream(0, "sync", name)
        for _ in range(40):
            signal, _ = emitters.FAMILIES[name](rng, 4096, families[name])
            best = 0.0
            for root in (600, 147):
                values = np.delete(ofdm.zadoff_chu(root, 601), 300)[None]
                time = ofdm.modulate(values, active, 2048, 0)
                template = bursts.resample(np.pad(time, (0, 16)), round(2064 * RATE / 30.72e6 / 2) * 2)
                spectrum = np.fft.fft(signal, 8192) * np.fft.fft(template, 8192).conj()
                best = max(best, np.abs(np.fft.ifft(spectrum)).max() / len(template))
            hits.append(best)
    threshold = max(found["lte-ofdm"])
    assert 0.2 < np.mean(np.array(found["drone-id-ofdm"]) > 1.2 * threshold) < 0.8
    assert not np.any(np.array(found["drone-video-ofdm"]) > 1.2 * threshold)
