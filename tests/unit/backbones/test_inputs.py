"""The input contract against plain numpy, rule by rule and in its order."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.signal import resample_poly

from common.errors import InputError
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import Contract, lay_out, normalise, pool, prepare

RATE = 2e7


def scenes(count=3, antennas=4, length=20, seed=0):
    rng = np.random.default_rng(seed)
    shape = (count, antennas, length)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def given(iq, **rules):
    return prepare(iq, RATE, Contract(**{"normalise": "none"} | rules))[0]


def test_without_rules_a_scene_passes_as_it_is():
    iq = scenes()
    found, rate = prepare(iq, RATE, Contract(normalise="none"))
    np.testing.assert_array_equal(found, iq)
    assert (found.dtype, rate) == (np.complex64, RATE)


def test_the_first_antennas_are_taken_and_missing_ones_are_as_declared():
    iq = scenes(antennas=4)
    np.testing.assert_array_equal(given(iq, antennas=2), iq[:, :2])
    np.testing.assert_array_equal(given(iq, antennas=4), iq)
    with pytest.raises(ValueError, match="antennas: expected 6 or more, found 4"):
        given(iq, antennas=6)
    zeros = given(iq, antennas=6, missing_antennas="zeros")
    np.testing.assert_array_equal(zeros, np.concatenate([iq, np.zeros((3, 2, 20))], axis=1))
    repeated = given(iq, antennas=10, missing_antennas="repeat")
    np.testing.assert_array_equal(repeated, np.concatenate([iq, iq, iq[:, :2]], axis=1))


def test_the_first_samples_are_taken_and_missing_ones_are_as_declared():
    iq = scenes(length=20)
    for fit in ("crop", "pad", "tile"):
        np.testing.assert_array_equal(given(iq, samples=12, fit=fit), iq[:, :, :12])
        np.testing.assert_array_equal(given(iq, samples=20, fit=fit), iq)
    with pytest.raises(ValueError, match="samples: expected 21 or more, found 20"):
        given(iq, samples=21)
    np.testing.assert_array_equal(given(iq, samples=25, fit="pad"), np.pad(iq, [(0, 0), (0, 0), (0, 5)]))
    np.testing.assert_array_equal(given(iq, samples=45, fit="tile"), np.concatenate([iq, iq, iq[:, :, :5]], axis=2))


def test_resampling_is_scipys_and_the_model_is_told_the_rate():
    iq = scenes(length=64)
    found, rate = prepare(iq, RATE, Contract(normalise="none", sample_rate_hz=1.2e7))
    assert (rate, found.dtype, found.shape) == (1.2e7, np.complex64, (3, 4, 39))
    for scene, out in zip(iq, found, strict=True):
        for antenna, samples in zip(scene, out, strict=True):
            np.testing.assert_allclose(samples, resample_poly(antenna, 3, 5), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(given(iq, sample_rate_hz=RATE), iq)
    with pytest.raises(ValueError, match="no ratio of whole numbers up to 1000"):
        given(iq, sample_rate_hz=19_999_999.0)


def test_a_tone_keeps_its_frequency_in_hertz():
    time = np.arange(4000) / RATE
    iq = np.exp(2j * np.pi * 1.5e6 * time).astype(np.complex64)[None, None]
    found, rate = prepare(iq, RATE, Contract(sample_rate_hz=8e6))
    peak = np.abs(np.fft.fft(found[0, 0])).argmax() * rate / found.shape[2]
    assert peak == pytest.approx(1.5e6, abs=rate / found.shape[2])


@pytest.mark.parametrize("gain_db", [0.0, -6.0, 20.0])
def test_levels_are_those_that_are_named(gain_db):
    iq = scenes() * np.array([1, 4, 0.5, 2], np.float32)[None, :, None] * np.float32(7)
    power, factor = np.abs(iq.astype(complex)) ** 2, 10 ** (gain_db / 20)
    wanted = {
        "none": iq,
        "unit_power": iq / np.sqrt(power.mean(axis=(1, 2)))[:, None, None],
        "antenna_unit_power": iq / np.sqrt(power.mean(axis=2))[:, :, None],
        "max_abs": iq / np.sqrt(power.max(axis=(1, 2)))[:, None, None],
    }
    for recipe, expected in wanted.items():
        found = normalise(iq, recipe, gain_db)
        assert found.dtype == np.complex64
        np.testing.assert_allclose(found, expected * factor, rtol=1e-5)


@pytest.mark.parametrize("recipe", ["none", "unit_power", "antenna_unit_power", "max_abs"])
def test_silence_stays_zero(recipe):
    iq = scenes()
    iq[0], iq[1, 2] = 0, 0
    found = normalise(iq, recipe, 10.0)
    assert np.isfinite(found).all()
    assert not found[0].any()
    assert not found[1, 2].any()


def test_the_level_is_of_what_is_kept_and_zeros_never_enter_it():
    iq = scenes(antennas=2, length=20)
    iq[:, :, 12:] *= 100
    iq[:, 1] *= 100
    power = lambda found: (np.abs(found.astype(complex)) ** 2).mean(axis=(1, 2))  # noqa: E731
    np.testing.assert_allclose(power(given(iq, normalise="unit_power", antennas=1, samples=12)), 1, rtol=1e-5)
    padded = given(iq, normalise="unit_power", samples=40, fit="pad", antennas=4, missing_antennas="zeros")
    np.testing.assert_allclose(power(padded[:, :2, :20]), 1, rtol=1e-5)
    np.testing.assert_allclose(power(padded), 1 / 4, rtol=1e-5)
    # Resampled before it is cut: the samples kept are of the new rate.
    cut = given(iq, sample_rate_hz=1e7, samples=8)
    np.testing.assert_allclose(cut, resample_poly(iq, 1, 2, axis=2)[:, :, :8], rtol=1e-4, atol=1e-4)


def test_layouts_put_every_sample_where_they_say():
    iq = scenes(antennas=3, length=5)
    layouts = {name: lay_out(iq, name) for name in ("channels", "stacked", "interleaved")}
    for layout in layouts.values():
        assert (layout.dtype, layout.flags.c_contiguous) == (np.float32, True)
    assert lay_out(iq, "complex") is iq
    for antenna in range(3):
        np.testing.assert_array_equal(layouts["channels"][:, 2 * antenna], iq[:, antenna].real)
        np.testing.assert_array_equal(layouts["channels"][:, 2 * antenna + 1], iq[:, antenna].imag)
        np.testing.assert_array_equal(layouts["stacked"][:, antenna], iq[:, antenna].real)
        np.testing.assert_array_equal(layouts["stacked"][:, 3 + antenna], iq[:, antenna].imag)
        np.testing.assert_array_equal(layouts["interleaved"][:, antenna, ::2], iq[:, antenna].real)
        np.testing.assert_array_equal(layouts["interleaved"][:, antenna, 1::2], iq[:, antenna].imag)
    np.testing.assert_array_equal(lay_out(iq[:, ::2, 1::2], "interleaved")[:, :, ::2], iq[:, ::2, 1::2].real)


def test_tokens_are_pooled_as_declared():
    tokens = np.random.default_rng(0).normal(size=(4, 7, 3)).astype(np.float32)
    np.testing.assert_allclose(pool(tokens, "mean"), tokens.mean(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(pool(tokens, "first"), tokens[:, 0])
    np.testing.assert_array_equal(pool(tokens, "max"), tokens.max(axis=1))
    assert {pool(tokens, name).dtype.name for name in ("mean", "first", "max")} == {"float32"}
    assert pool(tokens, "none") is tokens


class Tokens:
    """Tokens of a scene's first samples; remembers what it was given."""

    name, embedding_dim = "tokens", 2

    def __init__(self, answer=None):
        self.seen, self.answer = [], answer

    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        self.seen.append((iq.shape, iq.dtype.name, sample_rate_hz))
        if self.answer is not None:
            return self.answer(len(iq))
        return np.stack([iq[:, 0, :5], iq[:, 1, :5]], axis=2)


INDEX = pa.table({"sample_rate_hz": [RATE] * 3, "center_frequency_hz": [1e9] * 3})


def test_a_batch_reaches_the_model_by_its_contract_and_is_pooled():
    iq, model = scenes(), Tokens()
    contract = Contract(antennas=1, sample_rate_hz=1e7, samples=6, layout="channels", pooling="mean", batch_size=2)
    found = embed_batch(model, iq, INDEX, contract)
    assert model.seen == [((2, 2, 6), "float32", 1e7), ((1, 2, 6), "float32", 1e7)]
    seen = prepare(iq, RATE, contract)[0]
    np.testing.assert_allclose(found, seen[:, :, :5].mean(axis=2), rtol=1e-5)


@pytest.mark.parametrize(
    ("rules", "answer", "message"),
    [
        ({"antennas": 8}, None, "model tokens: antennas: expected 8 or more, found 4"),
        ({"samples": 99}, None, "model tokens: samples: expected 99 or more, found 20"),
        ({"layout": "channels"}, None, r"\(3, 2\), found float32 \(3, 5, 2\) \(pooling reads tokens\)"),
        ({"pooling": "mean"}, lambda n: np.zeros((n, 2), np.float32), r"expected float32 \(3, tokens, 2\), found"),
        ({"pooling": "max"}, lambda n: np.zeros((n, 0, 2), np.float32), "expected float32"),
        ({"pooling": "max"}, lambda n: np.zeros((n, 4, 3), np.float32), "expected float32"),
        ({"pooling": "first"}, lambda n: np.zeros((n, 4, 2)), "found float64"),
        ({"pooling": "mean"}, lambda n: np.full((n, 4, 2), np.nan, np.float32), "NaN or infinity"),
        ({}, lambda n: {}["key"], "embed: KeyError: 'key'"),
    ],
)
def test_what_does_not_fit_the_contract_is_one_line(rules, answer, message):
    with pytest.raises(InputError, match=message):
        embed_batch(Tokens(answer), scenes(), INDEX, Contract(**rules))
