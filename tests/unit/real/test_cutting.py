"""Windows, rates and power: what a scene holds is what the recording held there, to the fraction of a sample."""

import shutil

import numpy as np
import pytest
from scipy.io import wavfile

from common.errors import InputError
from emma.captures.cutting import Recording, Span, unit_power, windows
from emma.captures.formats import FORMATS
from emma.captures.settings import SceneShape

from .conftest import write_labels, write_sigmf
from .test_bad_captures import refused, rows


def tones(rate, times, frequencies):
    """A band-limited signal, exact at any time [s]; frequencies in shares of the band at ``rate``."""
    phases = np.random.default_rng(5).uniform(0, 2 * np.pi, len(frequencies))
    turns = np.outer(frequencies * rate / 2, times)
    return np.exp(1j * (2 * np.pi * turns + phases[:, None])).sum(axis=0)


def recorded(iq, rate, start, stop, low=0, high=None):
    """A recording of complex samples, of which some are labelled."""
    pairs = np.stack([iq.real, iq.imag], axis=-1)[:, None]
    span = Span(start, stop, low, len(iq) if high is None else high, "a", 1e9)
    return Recording("r", pairs, FORMATS["cf64"], rate, [span], "s"), span


def error_db(found, exact):
    return 10 * np.log10(np.mean(np.abs(found - exact) ** 2, axis=-1).max() / np.mean(np.abs(exact) ** 2))


@pytest.mark.parametrize(
    ("rate", "wanted"), [(0.25e6, 1e6), (2.4e6, 1e6), (1.92e6, 20e6), (50e6, 20e6), (19.2e6, 20e6), (1.024e6, 1e6)]
)
@pytest.mark.parametrize("start", [400, 401, 403])
def test_a_resampled_scene_is_the_signal_at_its_own_times(rate, wanted, start):
    band = np.array([-0.8, -0.41, 0.03, 0.37, 0.85]) * min(1.0, wanted / rate)
    iq = tones(rate, np.arange(6000) / rate, band)
    need = int(np.ceil(300 * rate / wanted))
    recording, span = recorded(iq, rate, start, start + 2 * need)
    shape = SceneShape(samples=300, sample_rate_hz=wanted, windows=2, upsample=True)
    for number, (_, found) in enumerate(windows(recording, span, shape)):
        times = (start + number * need) / rate + np.arange(300) / wanted
        error = np.abs(found[0] - tones(rate, times, band))
        # No sample, the last one included, is off: the recording goes on beyond the labelled samples.
        assert 20 * np.log10(error.max() / np.sqrt(len(band))) < -60


def test_margin_ends_with_the_stream():
    """Samples beyond a retune or a gap are another signal, and leave a scene as zeros would."""
    rate, wanted = 2e6, 1e6
    iq = tones(rate, np.arange(3000) / rate, np.array([0.1, -0.3]))
    shape = SceneShape(samples=400, sample_rate_hz=wanted)
    beyond = iq.copy()
    beyond[:580], beyond[1420:] = 1e3, -1e3
    found = [next(windows(*recorded(x, rate, 600, 1400, 580, 1420), shape))[1] for x in (iq, beyond)]
    np.testing.assert_array_equal(*found)


def test_the_same_rate_takes_samples_as_they_are():
    iq = tones(1e6, np.arange(400) / 1e6, np.array([0.2, 0.9]))
    shape = SceneShape(samples=100, sample_rate_hz=1e6, start=10, windows=3, trailer_samples=20)
    recording, span = recorded(iq, 1e6, 20, 400)
    found = [made[0] for _, made in windows(recording, span, shape)]
    np.testing.assert_array_equal(found, [iq[30:130], iq[155:255], iq[280:380]])


@pytest.mark.parametrize(
    ("rate", "wanted", "match"),
    [
        (0, 250e3, "sample rate 0.0, expected a positive one"),
        (-1, 250e3, "sample rate -1.0, expected a positive one"),
        ("nan", 250e3, "sample_rate_hz: 'nan', expected a number"),
        (1e9 / 3, 4e4, "expected a ratio of numbers up to 100000"),
        (1e9, 4e4, "600 samples, expected at least 25000"),
        (2.4e6, 20e6, "2400000 Hz taken up to 20000000 .* expected scene.upsample: true"),
    ],
)
def test_rates(cu8_set, reader, tmp_path, rate, wanted, match):
    table = rows(cu8_set)
    table[0]["sample_rate_hz"] = rate
    write_labels(cu8_set, table)
    refused(reader("cu8", cu8_set, sample_rate_hz=wanted, samples=1, start=0), tmp_path, match)


def test_a_far_ratio_is_exact():
    iq = tones(1e9, np.arange(130_000) / 1e9, np.array([1e-6, -2e-5]))
    recording, span = recorded(np.tile(iq, 40), 1e9, 2_000_000, 2_100_000)
    found = next(windows(recording, span, SceneShape(samples=4, sample_rate_hz=4e4)))[1]
    assert np.abs(found).max() > 0.5


def out(tmp_path):
    return [tmp_path / name for name in ("s.parquet", "index.parquet", "r.json")]


def test_upsampling_is_declared_and_recorded(cu8_set, reader, tmp_path):
    shape = {"samples": 256, "sample_rate_hz": 1e6, "start": 0, "upsample": True}
    record = reader("cu8", cu8_set, **shape).convert(*out(tmp_path))
    assert record.scene.upsample
    assert (
        "Rates below the scenes' 1000000 Hz: their band is partly empty (2: data/x.cu8, data/y.cu8)." in record.caveats
    )


def test_windows_share_no_sample_unless_asked(cu8_set, reader, tmp_path):
    refused(reader("cu8", cu8_set, start=0, windows=5), tmp_path, "600 samples, expected at least 640 for 5 windows")
    names = next(reader("cu8", cu8_set, start=0, windows=4).scenes()).name
    assert names[1:3] == tuple(f"data/x.cu8, window {i} (samples {a} to {a + 128})" for i, a in ((1, 157), (2, 314)))
    made = reader("cu8", cu8_set, start=0, windows=5, overlap=True)
    record = made.convert(*out(tmp_path))
    assert (record.scenes, record.disjoint, record.sessions) == (10, 2, 2)
    assert any("count as one" in caveat for caveat in record.caveats)
    assert reader("cu8", cu8_set).convert(*out(tmp_path)).disjoint == 2


def test_a_file_under_a_second_name(cu8_set, reader, tmp_path):
    shutil.copy(cu8_set / "data/x.cu8", cu8_set / "data/z.cu8")
    table = rows(cu8_set)
    write_labels(cu8_set, [*table, table[0] | {"path": "data/z.cu8", "session": "other", "device": "other"}])
    refused(reader("cu8", cu8_set), tmp_path, "data/z.cu8, window 0 .* the same samples as data/x.cu8, window 0")
    made = reader("cu8", cu8_set)
    made.entry = made.entry.model_copy(update={"leave_out": ("data/z.cu8",)})
    record = made.convert(*out(tmp_path))
    assert record.scenes == 2
    assert "Recordings left out, as declared (1: data/z.cu8)." in record.caveats
    made.entry = made.entry.model_copy(update={"leave_out": ("data/q.cu8",)})
    refused(made, tmp_path, "leave_out: data/q.cu8 is no recording")


def test_two_recordings_of_the_same_samples(sigmf_set, reader, tmp_path):
    for part in ("meta", "data"):
        shutil.copy(sigmf_set / f"one.sigmf-{part}", sigmf_set / f"zero.sigmf-{part}")
    refused(reader("sigmf", sigmf_set), tmp_path, "zero, window 0 .* the same samples as one, window 0")


@pytest.mark.parametrize("amplitude", [1e30, 1e-25, 1e-38])
def test_power_of_any_amplitude(tmp_path, reader, rng, amplitude):
    pairs = (rng.standard_normal(256) * amplitude).astype("<f4")
    write_sigmf(tmp_path / "set", "r", pairs, datatype="cf32_le")
    found = next(reader("sigmf", tmp_path / "set").scenes()).iq[0, 0]
    exact = pairs.astype(np.float64).view(np.complex128)[:64]
    np.testing.assert_allclose(found, exact / np.sqrt(np.mean(np.abs(exact) ** 2)), rtol=1e-5)


def test_unit_power_names_the_silent_scene():
    iq = np.ones((2, 1, 4), np.complex64)
    iq[1] = 0
    with pytest.raises(ValueError, match="y: silent"):
        unit_power(iq, ["x", "y"])


@pytest.mark.parametrize(("datatype", "silence"), [("ci8", 0), ("cf32_le", 0), ("cu8", 127), ("cu8", 128)])
def test_a_silent_labelled_window(tmp_path, reader, datatype, silence):
    kind = {"ci8": np.int8, "cf32_le": "<f4", "cu8": np.uint8}[datatype]
    pairs = np.full(512, silence).astype(kind)
    pairs[256:] = np.random.default_rng(0).integers(1, 100, 256)
    write_sigmf(tmp_path / "set", "r", pairs, datatype=datatype, annotations=[(128, 64, "a"), (192, 64, "b")])
    assert len(next(reader("sigmf", tmp_path / "set").scenes()).iq) == 2
    write_sigmf(tmp_path / "set", "r", pairs, datatype=datatype, annotations=[(0, 256, "a")])
    shape = {"windows": 4}
    refused(reader("sigmf", tmp_path / "set", **shape), tmp_path, r"r, window 0 \(samples 0 to 64\): silent")


def test_real_valued_iq(cu8_set, reader, tmp_path, rng):
    pairs = rng.integers(0, 256, (600, 2)).astype(np.uint8)
    pairs[:, 1] = 128
    (cu8_set / "data/x.cu8").write_bytes(pairs.tobytes())
    refused(reader("cu8", cu8_set), tmp_path, "data/x.cu8: Q is constant throughout: a real-valued signal")


@pytest.mark.parametrize("still", [0, 1])
def test_full_scale_beside_a_weak_or_still_part(tmp_path, reader, rng, still):
    pairs = rng.integers(-128, 128, (128, 2)).astype(np.int8)
    pairs[:2, 1 - still] = -128, 127
    pairs[:, still] = rng.integers(-1, 2, 128)
    write_sigmf(tmp_path / "set", "r", pairs.ravel())
    assert next(reader("sigmf", tmp_path / "set").scenes()).iq.shape == (1, 1, 64)
    pairs[:, still] = 1
    write_sigmf(tmp_path / "set", "r", pairs.ravel())
    refused(reader("sigmf", tmp_path / "set"), tmp_path, f"r: {'IQ'[still]} is constant throughout")


def test_a_noiseless_carrier_at_zero_is_no_real_signal(tmp_path, reader):
    pairs = np.tile([1.0, 0.0, 0.0, 1.0], 128).astype("<f4")
    write_sigmf(tmp_path / "set", "r", pairs, datatype="cf32_le", channels=2)
    assert next(reader("sigmf", tmp_path / "set").scenes()).iq.shape == (1, 2, 64)


@pytest.mark.parametrize("kind", ["u1", "i2", "i4", "f4"])
def test_wav_of_i_and_q(cu8_set, reader, tmp_path, rng, kind):
    tracks = (rng.uniform(0, 100, (600, 2))).astype(kind)
    (cu8_set / "data/x.cu8").unlink()
    wavfile.write(cu8_set / "data/x.WAV", 250000, tracks)
    table = rows(cu8_set)
    table[0]["path"] = "data/x.WAV"
    write_labels(cu8_set, table)
    found = next(reader("cu8", cu8_set).scenes()).iq[0, 0]
    exact = (tracks.astype(float) - (127.5 if kind == "u1" else 0)).view(np.complex128)[100:228, 0]
    np.testing.assert_allclose(found, exact / np.sqrt(np.mean(np.abs(exact) ** 2)), rtol=1e-5)
    wavfile.write(cu8_set / "data/x.WAV", 48000, tracks)
    refused(reader("cu8", cu8_set), tmp_path, "x.WAV: 48000 Hz, but sample_rate_hz in labels.csv is 250000")
    wavfile.write(cu8_set / "data/x.WAV", 250000, tracks[:, 0])
    refused(reader("cu8", cu8_set), tmp_path, "x.WAV: 1 tracks of .*, expected 2")
    (cu8_set / "data/x.WAV").write_bytes((cu8_set / "data/x.WAV").read_bytes()[:100])
    refused(reader("cu8", cu8_set), tmp_path, "x.WAV: expected a complete WAV file")


def test_channels_header_and_trailer_of_raw_files(tmp_path, reader, rng):
    stored = rng.integers(-99, 99, (200, 3, 2)).astype("<i2")
    (tmp_path / "set").mkdir()
    (tmp_path / "set/r.cs16").write_bytes(b"header" + stored.tobytes())
    head = "path,modulation,session,sample_rate_hz,center_freq_hz"
    (tmp_path / "set/labels.csv").write_text(f"{head}\nr.cs16,OOK,s,250000,1e9\n")
    shape = {"samples": 64, "start": 0, "windows": 2, "channels": 3, "header_bytes": 6, "trailer_samples": 50}
    found = next(reader("cu8", tmp_path / "set", **shape).scenes()).iq
    for row, start in zip(found, (0, 86), strict=True):
        exact = (stored[..., 0] + 1j * stored[..., 1])[start : start + 64].T
        np.testing.assert_allclose(row, exact / np.sqrt(np.mean(np.abs(exact) ** 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "shape", "key"),
    [
        ("sigmf", {"channels": 4}, "channels"),
        ("sigmf", {"header_bytes": 44}, "header_bytes"),
        ("cir", {"windows": 2}, "windows"),
        ("csi", {"start": 5}, "start"),
    ],
)
def test_a_key_that_a_reader_does_not_heed(tmp_path, reader, kind, shape, key):
    with pytest.raises(InputError, match=f"set: scene.{key}: adapter .* does not heed it"):
        reader(kind, tmp_path, **shape)


def test_recordings_of_two_numbers_of_channels(sigmf_set, reader, tmp_path, rng):
    write_sigmf(sigmf_set, "three", rng.integers(-100, 100, 2 * 3 * 64).astype(np.int8), channels=3)
    refused(reader("sigmf", sigmf_set), tmp_path, "three: 3 channels, expected 1 as in one")
