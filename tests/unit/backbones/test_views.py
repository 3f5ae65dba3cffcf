"""What a model is shown of a scene, against numpy and scipy: channel estimates, spectrograms, antennas, windows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pytest
from pydantic import ValidationError
from scipy.signal import resample_poly, stft

from common.errors import InputError
from emma.backbones.embed import UnsuitedError, embed_batch, write_embeddings
from emma.backbones.inputs import Contract, prepare
from emma.backbones.onnx_file import OnnxBackbone
from emma.backbones.units import join, joined_width
from emma.backbones.views import FLOOR_DB, SpectrogramRule, channel_estimate, spectrogram
from emma.data.embeddings import Embeddings
from emma.data.provenance import Provenance
from emma.data.reference import REFERENCE_START, Reference
from emma.data.scenes import METADATA_SCHEMA, SceneChunk, write_scenes

ROOT = Path(__file__).parents[3]
RATE = 2e7
REFERENCE = Reference(
    size=8, prefix=2, carriers=(-3, -1, 1, 2), values=((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.6, 0.8))
)


def noise(count=3, antennas=4, length=40, seed=0):
    rng = np.random.default_rng(seed)
    shape = (count, antennas, length)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def table(count, starts=None, reference=REFERENCE):
    columns = {"sample_rate_hz": [RATE] * count, "center_frequency_hz": [1e9] * count}
    if starts is None:
        return pa.table(columns)
    return pa.table(columns | {REFERENCE_START.name: pa.array(starts, pa.int64())}).replace_schema_metadata(
        reference.metadata
    )


class Seen:
    """Power and first sample of what it gets; remembers it."""

    name, embedding_dim = "seen", 3

    def __init__(self):
        self.calls = []

    def embed(self, iq, rate, carrier):
        del carrier
        self.calls.append((iq.copy(), rate))
        flat = iq.reshape(len(iq), -1)
        return np.stack([np.abs(flat).mean(axis=1), flat[:, 0].real, flat[:, -1].imag], axis=1).astype(np.float32)


def rows_of(iq, rate=RATE):
    return Seen().embed(iq, rate, 1e9)


def embedded(iq, index=None, **rules):
    model = Seen()
    found = embed_batch(
        model, iq, table(len(iq)) if index is None else index, Contract(**{"normalise": "none"} | rules)
    )
    return found, model.calls


def with_symbol(starts, channel, length=40, size=8):
    """Scenes in noise that hold the symbol at ``starts`` behind a channel ``[B, A, carriers]``, by an inverse sum."""
    iq = noise(len(starts), channel.shape[1], length)
    time = np.arange(-REFERENCE.prefix, size)
    waves = np.exp(2j * np.pi * np.outer(REFERENCE.carriers, time) / size)
    body = (channel * REFERENCE.sent / np.sqrt(len(REFERENCE.carriers))) @ waves
    for scene, start in enumerate(starts):
        iq[scene, :, start - REFERENCE.prefix : start + size] = body[scene]
    return iq


def test_the_estimate_is_the_channel_in_order_of_frequency():
    channel = noise(3, 2, 4, seed=1)
    found = channel_estimate(with_symbol([2, 17, 32], channel), np.array([2, 17, 32]), REFERENCE)
    assert (found.dtype, found.shape) == (np.complex64, (3, 2, 4))
    np.testing.assert_allclose(found, channel, rtol=1e-5, atol=1e-6)


def test_of_several_combs_each_carrier_is_that_of_the_symbol_with_its_value():
    """Two symbols in a row, each behind a channel of its own: carriers in turn show one and the other."""
    combs = REFERENCE.model_copy(update={"combs": 2})
    period = REFERENCE.size + REFERENCE.prefix
    first, second = noise(3, 2, 4, seed=1), noise(3, 2, 4, seed=2)
    starts = np.array([2, 5, 32 - period])
    iq = with_symbol(starts, first)
    after = with_symbol(starts + period, second)
    for scene, start in enumerate(starts):
        own = slice(start + REFERENCE.size, start + period + REFERENCE.size)
        iq[scene, :, own] = after[scene, :, own]
    found = channel_estimate(iq, starts, combs)
    np.testing.assert_allclose(found[..., ::2], first[..., ::2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[..., 1::2], second[..., 1::2], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="does not lie within the 40 samples"):
        channel_estimate(iq, starts + 1, combs)


def test_one_comb_is_not_said_and_more_than_carriers_are_refused():
    assert "combs" not in REFERENCE.metadata["reference"]
    assert '"combs":2' in REFERENCE.model_copy(update={"combs": 2}).metadata["reference"]
    with pytest.raises(InputError, match="combs: expected at most as many as there are carriers"):
        Reference.of(REFERENCE.model_dump(mode="json") | {"combs": 5})


@pytest.mark.parametrize("start", [-1, 33])
def test_a_symbol_outside_the_scene_is_refused(start):
    with pytest.raises(ValueError, match="does not lie within the 40 samples"):
        channel_estimate(noise(), np.array([2, 2, start]), REFERENCE)


def test_a_model_of_channel_estimates_gets_them_by_its_contract():
    channel = noise(3, 2, 4, seed=1)
    iq = with_symbol([2, 17, 32], channel)
    found, calls = embedded(iq, table(3, [2, 17, 32]), view="csi", batch_size=2)
    assert [(len(given), rate) for given, rate in calls] == [(2, RATE / 8), (1, RATE / 8)]
    np.testing.assert_allclose(np.concatenate([given for given, _ in calls]), channel, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, rows_of(channel), rtol=1e-5, atol=1e-6)
    rules = {"antennas": 1, "samples": 6, "fit": "pad", "normalise": "unit_power", "gain_db": 6.0, "layout": "channels"}
    _, calls = embedded(iq, table(3, [2, 17, 32]), view="csi", **rules)
    np.testing.assert_allclose(calls[0][0], prepare(channel, RATE, Contract(**rules))[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("index", [table(3), table(3, [2, None, 4]), table(3, [2, 3, 4]).replace_schema_metadata(None)])
def test_scenes_without_a_reference_are_one_line(index):
    with pytest.raises(UnsuitedError, match=r"^model seen: view csi: the scenes carry no reference symbol$"):
        embedded(noise(), index, view="csi")


def test_a_broken_reference_is_one_line():
    index = table(3, [2, 3, 4]).replace_schema_metadata({"reference": '{"size": 8}'})
    with pytest.raises(InputError, match=r"reference: .*prefix"):
        embedded(noise(), index, view="csi")


@pytest.mark.parametrize(
    ("size", "hop", "window"), [(16, 4, "hann"), (15, 7, "hamming"), (8, 8, "boxcar"), (40, 3, "hann")]
)
def test_a_spectrogram_is_scipys_two_sided_with_dc_in_the_middle(size, hop, window):
    iq = noise()
    spectra = stft(
        iq, window=window, nperseg=size, noverlap=size - hop, boundary=None, padded=False, return_onesided=False
    )[2]
    magnitude = np.abs(np.fft.fftshift(spectra, axes=2))
    rule = {"size": size, "hop": hop, "window": window}
    found = {scale: spectrogram(iq, SpectrogramRule(**rule, scale=scale)) for scale in ("magnitude", "power", "db")}
    assert found["db"].dtype == np.float32
    assert found["db"].shape == (3, 4, size, 1 + (40 - size) // hop)
    np.testing.assert_allclose(found["magnitude"], magnitude, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["power"], magnitude**2, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["db"], 20 * np.log10(magnitude), atol=1e-2)


def test_a_tone_of_unit_power_stands_at_0_db_and_silence_at_the_floor():
    tone = np.exp(2j * np.pi * -3 / 16 * np.arange(64)).astype(np.complex64)[None, None]
    rule = SpectrogramRule(size=16, hop=8)
    shown, rate = prepare(7 * tone, RATE, Contract(view="spectrogram", spectrogram=rule))
    assert (shown.shape, rate) == ((1, 1, 16, 7), RATE)
    np.testing.assert_allclose(shown[0, 0, 8 - 3], 0.0, atol=1e-5)
    assert (spectrogram(0 * tone, rule) == FLOOR_DB).all()
    with pytest.raises(UnsuitedError, match=r"model seen: spectrogram.size: expected at most the 40 samples"):
        embedded(noise(), view="spectrogram", spectrogram=SpectrogramRule(size=41, hop=8))


def test_a_spectrogram_is_laid_out_by_antennas_as_channels():
    rule = SpectrogramRule(size=16, hop=8)
    expected = spectrogram(noise(), rule)
    for layout in (None, "channels"):
        _, ((given, _),) = embedded(noise(), view="spectrogram", spectrogram=rule, layout=layout)
        np.testing.assert_array_equal(given, expected)


def test_antennas_on_their_own_are_stacked_averaged_or_the_first():
    iq = noise()
    each = np.stack([rows_of(iq[:, [antenna]]) for antenna in range(4)], axis=1)
    for size in (1, 3, 4, 100):
        found, calls = embedded(iq, per_antenna="concat", batch_size=size)
        np.testing.assert_array_equal(found, each.reshape(3, 12))
        assert {given.shape[1:] for given, _ in calls} == {(1, 40)}
        assert max(len(given) for given, _ in calls) <= size
        assert sum(len(given) for given, _ in calls) == 12
    np.testing.assert_allclose(embedded(iq, per_antenna="mean", antennas=1)[0], each.mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(embedded(iq, per_antenna="first")[0], each[:, 0])
    found, _ = embedded(iq, per_antenna="concat", normalise="unit_power")
    np.testing.assert_allclose(found[:, 3:6], embedded(iq[:, [1]], normalise="unit_power")[0], rtol=1e-6)


def test_windows_are_embedded_by_themselves_and_pooled():
    iq = noise(length=43)
    parts = [iq[:, :, start : start + 16] for start in range(0, 43 - 15, 8)]
    each = np.stack([rows_of(part) for part in parts], axis=1)
    assert each.shape == (3, 4, 3)
    expected = {
        "mean": each.mean(axis=1),
        "max": each.max(axis=1),
        "mean_std": np.hstack([each.mean(axis=1), each.std(axis=1)]),
    }
    for pooling, rows in expected.items():
        for size in (1, 5, 100):
            found, calls = embedded(iq, window=16, hop=8, window_pooling=pooling, batch_size=size)
            np.testing.assert_allclose(found, rows, rtol=1e-5, atol=1e-6)
            assert max(len(given) for given, _ in calls) <= size
    plain, _ = embedded(iq, window=16)
    np.testing.assert_allclose(plain, np.mean([rows_of(iq[:, :, s : s + 16]) for s in (0, 16)], axis=0), rtol=1e-5)


def test_windows_are_cut_of_resampled_scenes_each_at_its_own_level():
    iq = noise(length=64)
    half = resample_poly(iq, 1, 2, axis=2).astype(np.complex64)
    found, calls = embedded(iq, window=16, sample_rate_hz=RATE / 2, normalise="unit_power")
    assert {rate for _, rate in calls} == {RATE / 2}
    windows = [prepare(half[:, :, s : s + 16], RATE / 2, Contract())[0] for s in (0, 16)]
    np.testing.assert_allclose(found, np.mean([rows_of(window) for window in windows], axis=0), rtol=1e-4, atol=1e-6)


def test_a_scene_shorter_than_a_window_is_fitted():
    iq = noise(length=10)
    np.testing.assert_array_equal(
        embedded(iq, window=16, fit="tile")[1][0][0], np.concatenate([iq, iq[:, :, :6]], axis=2)
    )
    assert embedded(iq, window=16, fit="pad")[1][0][0].shape == (3, 4, 16)
    with pytest.raises(UnsuitedError, match="model seen: samples: expected 16 or more, found 10"):
        embedded(iq, window=16)


def test_antennas_and_windows_together():
    iq = noise()
    found, calls = embedded(iq, window=16, window_pooling="mean_std", per_antenna="concat", batch_size=5)
    contract = Contract(window=16, window_pooling="mean_std")
    one = [
        embed_batch(Seen(), iq[:, [a]], table(3), contract.model_copy(update={"normalise": "none"})) for a in range(4)
    ]
    np.testing.assert_allclose(found, np.hstack(one), rtol=1e-6)
    assert {len(given) for given, _ in calls} <= {3, 5}
    assert joined_width(Contract(window=16, window_pooling="mean_std", per_antenna="concat"), 3, 4) == 24
    assert join(np.zeros((3, 4, 2, 0), np.float32), contract.model_copy(update={"per_antenna": "concat"})).shape == (
        3,
        0,
    )


def test_the_table_of_embeddings_has_the_width_of_the_rows(tmp_path):
    iq = noise(4)
    columns = {field.name: ["x" if field.type == pa.string() else 1.0] * 4 for field in METADATA_SCHEMA}
    write_scenes(tmp_path / "s.parquet", tmp_path / "index.parquet", [SceneChunk(iq, columns, {})])
    provenance = Provenance(name="seen", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")
    contract = Contract(per_antenna="concat")
    write_embeddings(tmp_path / "e.parquet", Seen(), [tmp_path / "s.parquet"], contract=contract, provenance=provenance)
    assert Embeddings.read(tmp_path / "e.parquet").values.shape == (4, 12)
    write_scenes(tmp_path / "t.parquet", tmp_path / "index.parquet", [SceneChunk(iq[:, :2], columns, {})])
    paths = [tmp_path / "s.parquet", tmp_path / "t.parquet"]
    with pytest.raises(InputError, match="embedding: width 6 after 12, expected one per table"):
        write_embeddings(tmp_path / "f.parquet", Seen(), paths, contract=contract, provenance=provenance)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"view": "spectrogram"}, "spectrogram: expected with view spectrogram, and only then"),
        ({"spectrogram": {"size": 8, "hop": 4}}, "spectrogram: expected with view spectrogram, and only then"),
        ({"view": "spectrogram", "spectrogram": {"size": 8, "hop": 4}, "layout": "complex"}, "layout: a spectrogram"),
        ({"view": "csi", "sample_rate_hz": 1e7}, "view: csi is not resampled or cut"),
        ({"view": "csi", "window": 16}, "view: csi is not resampled or cut"),
        ({"hop": 8}, "hop, window_pooling: expected with a window"),
        ({"window_pooling": "max"}, "hop, window_pooling: expected with a window"),
        ({"window": 8, "samples": 8}, "samples: expected without window"),
        ({"per_antenna": "mean", "missing_antennas": "zeros", "antennas": 1}, "missing_antennas: expected without"),
        ({"per_antenna": "mean", "antennas": 8}, "antennas: expected 1 with per_antenna"),
    ],
)
def test_rules_that_contradict_one_another_are_refused(rules, message):
    with pytest.raises(ValidationError, match=message):
        Contract(**rules)


def exported(dims):
    """An ONNX file that takes the mean over the last two axes of ``[B, C, F, N]``."""
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)
    answer = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B", dims[1]])
    mean = onnx.helper.make_node("ReduceMean", ["x"], ["y"], axes=list(range(2, len(dims))), keepdims=0)
    graph = onnx.helper.make_graph([mean], "g", [given], [answer])
    opset = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def test_an_onnx_file_takes_spectrograms():
    rule = SpectrogramRule(size=16, hop=8)
    contract = Contract(view="spectrogram", spectrogram=rule, normalise="none")
    for dims in (["B", 4, 16, 4], ["B", 4, "F", "N"]):
        model = OnnxBackbone("seen", exported(dims), "m.onnx", contract=contract)
        found = embed_batch(model, noise(), table(3), contract)
        np.testing.assert_allclose(found, spectrogram(noise(), rule).mean(axis=(2, 3)), rtol=1e-5)
    model = OnnxBackbone("seen", exported(["B", 4, 16, 5]), "m.onnx", contract=contract)
    with pytest.raises(UnsuitedError, match=r"given \[B, 4, 16, 4\]: set spectrogram, antennas and samples"):
        embed_batch(model, noise(), table(3), contract)
    with pytest.raises(InputError, match=r"expected \[B, antennas, frequencies, frames\] with view spectrogram"):
        OnnxBackbone("seen", exported(["B", 4, 16]), "m.onnx", contract=contract)


def test_a_spectrogram_is_laid_out_with_antennas_last():
    rule = SpectrogramRule(size=16, hop=8)
    _, ((given, _),) = embedded(noise(), view="spectrogram", spectrogram=rule, layout="channels_last")
    np.testing.assert_array_equal(given, np.moveaxis(spectrogram(noise(), rule), 1, -1))


def test_a_capture_set_without_a_reference_is_told_to_be_unsuited(tmp_path):
    folder = tmp_path / "captures" / "a_set"
    folder.mkdir(parents=True)
    columns = {field.name: ["x" if field.type == pa.string() else 1.0] * 4 for field in METADATA_SCHEMA}
    write_scenes(folder / "scenes.parquet", folder / "index.parquet", [SceneChunk(noise(4), columns, {})])
    config = {"name": "dsp", "factory": "emma.backbones.dsp:build", "view": "csi", "pretraining": {}}
    (tmp_path / "dsp.yaml").write_text(json.dumps(config))
    out = folder / "dsp" / "embeddings.parquet"
    files = ("--scenes", folder / "scenes.parquet", "--out", out, "--model-config", tmp_path / "dsp.yaml")
    command = [sys.executable, ROOT / "scripts/embed_captures.py", *files]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, timeout=60)
    table = Embeddings.read(out)
    assert table.unsuited == "model dsp: view csi: the scenes carry no reference symbol"
    assert len(table.values) == 0


def test_every_comb_of_a_symbol_lies_in_a_scene_that_starts_no_later():
    """The last start of one that a stand-in of a checkup gives: one sample later, and the view refuses."""
    two = REFERENCE.model_copy(update={"combs": 2})
    assert (REFERENCE.last_start(40), two.last_start(40)) == (32, 22)
    for reference in (REFERENCE, two):
        last = reference.last_start(40)
        assert channel_estimate(noise(), np.full(3, last), reference).shape == (3, 4, 4)
        with pytest.raises(ValueError, match="does not lie within the 40 samples"):
            channel_estimate(noise(), np.full(3, last + 1), reference)
