import dataclasses

import numpy as np
import pytest

from common.streams import complex_normal, stream
from rfgen.physics import hardware

TONE = np.exp(2j * np.pi * 0.05 * np.arange(4000))[None]


def nominal(**changes) -> hardware.Transmitter:
    clean = hardware.Transmitter(0.0, 0.0, 0.0, 0j, 60.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    return dataclasses.replace(clean, **changes)


def line(x: np.ndarray, frequency: float) -> complex:
    return complex(np.mean(x * np.exp(-2j * np.pi * frequency * np.arange(x.shape[-1]))))


def test_a_clean_chain_changes_nothing() -> None:
    rx = hardware.Receiver(0.0, 0.0, 0.0, 0j, (0j, 0j))
    sent = hardware.transmit(TONE, nominal(), 2.4e9, 20e6, stream(0))
    assert hardware.receive(sent, rx, 2.4e9, 20e6) == pytest.approx(TONE, abs=1e-6)


def test_image_rejection_is_mu_over_nu() -> None:
    gain_db, phase_deg = 0.5, 3.0
    x = hardware.iq_imbalance(TONE, gain_db, phase_deg)[0]
    g = 10 ** (gain_db / 20) * np.exp(1j * np.radians(phase_deg))
    assert abs(line(x, -0.05)) / abs(line(x, 0.05)) == pytest.approx(abs((1 - g) / (1 + g)), rel=1e-3)


def test_amplifier_compresses_and_turns() -> None:
    level = np.array([0.01, 10 ** (3 / 20), 100.0])
    y = hardware.rapp_amplifier(level.astype(complex), 3.0, 2.0, 20.0)
    assert abs(y[0]) == pytest.approx(0.01, rel=1e-4)
    assert abs(y[1]) == pytest.approx(level[1] * 2**-0.25)
    assert abs(y[2]) == pytest.approx(level[1], rel=1e-4)
    assert np.degrees(np.angle(y)) == pytest.approx([0.0, 20.0, 40.0], abs=0.01)


def test_offsets_of_transmitter_and_receiver_subtract() -> None:
    sent = hardware.transmit(TONE, nominal(cfo_ppm=5.0), 2.4e9, 20e6, stream(0))[0]
    assert abs(line(sent, 0.05 + 5e-6 * 2.4e9 / 20e6)) == pytest.approx(1, abs=1e-3)
    rx = hardware.Receiver(5.0, 0.0, 0.0, 0j, (0j, 0j))
    assert abs(line(hardware.receive(sent[None], rx, 2.4e9, 20e6)[0], 0.05)) == pytest.approx(1, abs=1e-3)


def test_dc_transient_and_phase_noise() -> None:
    sent = hardware.transmit(TONE, nominal(dc=0.1 + 0j), 2.4e9, 20e6, stream(0))[0]
    assert line(sent, 0.0) == pytest.approx(0.1, abs=2e-3)
    turned = hardware.transmit(TONE, nominal(transient_depth=0.5, transient_us=1.0), 2.4e9, 20e6, stream(0))[0]
    assert np.abs(turned[[0, 20, -1]]) == pytest.approx([0.5, 1 - 0.5 / np.e, 1.0], abs=1e-3)
    noisy = hardware.transmit(np.repeat(TONE, 200, axis=0), nominal(linewidth_hz=500.0), 2.4e9, 20e6, stream(1))
    walk = np.unwrap(np.angle(noisy / TONE))
    assert np.var(walk[:, 3000] - walk[:, 0]) == pytest.approx(2 * np.pi * 500 * 3000 / 20e6, rel=0.35)


def test_offsets_and_ripple_have_their_stated_size(tiny) -> None:
    p = tiny.tasks["E-ID-FP"]
    units = [hardware.transmitter(1, f"U{u}", p.population) for u in range(3000)]
    receivers = [hardware.receiver(1, f"R{r}", p.receiver) for r in range(3000)]

    def rms(values: list) -> float:
        return float(np.sqrt(np.mean(np.abs(values) ** 2)))

    assert rms([u.dc for u in units]) == pytest.approx(p.population.dc_offset, rel=0.04)
    assert rms([r.dc for r in receivers]) == pytest.approx(p.receiver.dc_offset, rel=0.04)
    assert rms([r.ripple for r in receivers]) == pytest.approx(p.receiver.ripple, rel=0.04)
    whole = np.array([hardware.standardised(u, p.population) for u in units])
    assert whole.mean(axis=0) == pytest.approx(0.0, abs=0.08)
    assert whole.std(axis=0) == pytest.approx(1.0, abs=0.06)
    assert not hardware.standardised(hardware.nominal_transmitter(p.population), p.population).any()


def test_ripple_is_causal() -> None:
    x = np.zeros((1, 64), complex)
    x[0, 10] = 1
    y = hardware.receive(x, hardware.Receiver(0.0, 0.0, 0.0, 0j, (0.1 + 0j, 0.05j)), 2.4e9, 20e6)[0]
    assert y[10:13] == pytest.approx([1, 0.1, 0.05j])
    assert np.abs(y[:10]).max() == 0


def test_units_are_the_same_in_every_split_and_drift_by_session(tiny) -> None:
    p = tiny.tasks["E-ID-FP"]
    first, again = (hardware.transmitter(1, "U01", p.population) for _ in range(2))
    assert first == again
    assert first != hardware.transmitter(2, "U01", p.population)
    assert first != hardware.transmitter(1, "U02", p.population)
    days = [hardware.apply_drift(first, p.population, p.drift, stream(0, "day", d)) for d in range(400)]
    units = [hardware.transmitter(1, f"U{u}", p.population) for u in range(400)]
    for name in ("cfo_ppm", "gain_db", "phase_deg", "saturation_db"):
        within, between = np.std([getattr(d, name) for d in days]), np.std([getattr(u, name) for u in units])
        assert 0.2 < within / between < 0.5, name
    assert min(d.transient_us for d in days) > 0
    assert hardware.receiver(1, "R01", p.receiver) == hardware.receiver(1, "R01", p.receiver)


def test_impairments_keep_a_frame_recognisable(tiny) -> None:
    p = tiny.tasks["E-ID-FP"]
    frame = complex_normal(stream(0, "frame"), (1, 2000))
    for name in p.units:
        sent = hardware.transmit(frame, hardware.transmitter(1, name, p.population), 2.4e9, 20e6, stream(0, name))
        assert np.isfinite(sent).all()
        assert 0.2 < np.mean(np.abs(sent) ** 2) < 1.5
