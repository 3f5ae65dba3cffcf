"""Embeddings: what a backbone is given and held to, joins by id, bounded memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.backbones.embed import embed_batch, write_embeddings
from emma.backbones.inputs import Contract
from emma.data.embeddings import EMBEDDING_SCHEMA, Embeddings
from emma.data.provenance import Provenance
from emma.data.samples import convert, revert
from emma.data.scenes import SceneChunk, iterate_scenes, write_scenes
from emma.tasks import TaskID


class Seen:
    """Remembers what it was given; embeds scenes by mean and power."""

    name = "seen"
    embedding_dim = 2

    def __init__(self):
        self.calls = []

    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        self.calls.append((iq.copy(), sample_rate_hz, center_frequency_hz))
        return np.stack([iq.real.mean(axis=(1, 2)), np.abs(iq).max(axis=(1, 2))], axis=1).astype(np.float32)


@pytest.fixture
def scenes(tmp_path, scene_columns):
    rng = np.random.default_rng(0)
    iq = (5 * rng.normal(size=(10, 2, 8)) + 1j * rng.normal(size=(10, 2, 8))).astype("c8")
    carriers = [2.44e9, 5.8e9, 2.44e9, 2.44e9, 5.8e9] * 2
    rates = [2e7] * 8 + [1e6] * 2
    path = tmp_path / "scenes.parquet"
    columns = scene_columns(10, center_frequency_hz=carriers, sample_rate_hz=rates)
    parts = (slice(6), slice(6, None))
    cut = [SceneChunk(iq[part], {k: v[part] for k, v in columns.items()}, {}) for part in parts]
    write_scenes(path, tmp_path / "index.parquet", iter(cut))
    return path, iq


PROVENANCE = Provenance(name="seen", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")


def write(path, backbone, *scene_paths, recipe="none", batch_size=3):
    contract = Contract(normalise=recipe, batch_size=batch_size)
    write_embeddings(path, backbone, scene_paths, contract=contract, provenance=PROVENANCE)


def test_every_scene_gets_its_own_embedding(scenes, tmp_path):
    path, iq = scenes
    wanted = Seen().embed(revert(convert(iq)), 0, 0)
    ids = pa.concat_tables([index for index, _ in iterate_scenes(path)])["scene_id"]
    for batch_size in (1, 2, 3, 100):
        write(tmp_path / "e.parquet", Seen(), path, batch_size=batch_size)
        embeddings = Embeddings.read(tmp_path / "e.parquet")
        np.testing.assert_array_equal(embeddings.of(ids), wanted)
        order = [7, 0, 3]
        np.testing.assert_array_equal(embeddings.of(ids.take(order)), wanted[order])
        assert embeddings.provenance == PROVENANCE


def test_dead_and_exploding_features_are_said_in_the_log_once_for_all_scenes(scenes, tmp_path, caplog):
    class Faulty(Seen):
        embedding_dim = 5

        def embed(self, iq, sample_rate_hz, center_frequency_hz):
            rows = super().embed(iq, sample_rate_hz, center_frequency_hz)
            dead = np.stack([rows[:, 1] * 0, rows[:, 1] * 0 + 7, rows[:, 1] * 1e9], axis=1)
            return np.concatenate([rows, dead], axis=1).astype(np.float32)

    write(tmp_path / "e.parquet", Seen(), scenes[0])
    assert caplog.messages == []
    write(tmp_path / "e.parquet", Faulty(), scenes[0])
    where = f"model seen: {tmp_path / 'e.parquet'}:"
    assert caplog.messages[0] == f"{where} 2 of 5 features are dead"
    assert caplog.messages[1].startswith(f"{where} feature 4 is up to")
    assert len(caplog.messages) == 2


def test_a_backbone_sees_batches_of_one_carrier_and_rate_and_no_label(scenes):
    path, iq = scenes
    backbone = Seen()
    for index, chunk in iterate_scenes(path):
        embed_batch(backbone, chunk, index, Contract(normalise="none", batch_size=2))
    assert max(len(batch) for batch, _, _ in backbone.calls) == 2
    assert sum(len(batch) for batch, _, _ in backbone.calls) == len(iq)
    assert {(rate, carrier) for _, rate, carrier in backbone.calls} == {
        (2e7, 2.44e9),
        (2e7, 5.8e9),
        (1e6, 2.44e9),
        (1e6, 5.8e9),
    }
    for batch, _, _ in backbone.calls:
        assert batch.dtype == np.complex64


def test_unit_power_takes_the_gain_away(scenes):
    path, _ = scenes
    backbone = Seen()
    for index, chunk in iterate_scenes(path):
        embed_batch(backbone, chunk * np.float32(1e-18), index, Contract(batch_size=5))
    power = np.concatenate([(np.abs(batch) ** 2).mean(axis=(1, 2)) for batch, _, _ in backbone.calls])
    np.testing.assert_allclose(power, 1.0, rtol=1e-5)


class Broken(Seen):
    def __init__(self, result):
        super().__init__()
        self.result = result

    def embed(self, iq, *_):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result(len(iq))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda n: np.zeros((n, 3), np.float32), r"expected float32 \(3, 2\), found float32 \(3, 3\)"),
        (lambda n: np.zeros((n - 1, 2), np.float32), "expected float32"),
        (lambda n: np.zeros(2 * n, np.float32), "expected float32"),
        (lambda n: np.zeros((n, 2)), "found float64"),
        (lambda n: np.zeros((n, 2), np.complex64), "found complex64"),
        (lambda n: [[0.0, 0.0]] * n, "found list"),
        (lambda _: None, "found NoneType"),
        (lambda n: np.full((n, 2), np.nan, np.float32), "NaN or infinity"),
        (lambda n: np.full((n, 2), np.inf, np.float32), "NaN or infinity"),
        (ValueError("no such antenna"), "model seen: embed: no such antenna"),
        (RuntimeError("shape"), "model seen: embed: shape"),
    ],
)
def test_a_model_that_breaks_its_contract_is_refused(scenes, tmp_path, result, message):
    with pytest.raises(InputError, match=message):
        write(tmp_path / "e.parquet", Broken(result), scenes[0])
    assert not list(tmp_path.glob("*e.parquet*"))


def test_a_scene_that_stands_twice_is_refused(scenes, tmp_path):
    with pytest.raises(InputError, match="occurs twice"):
        write(tmp_path / "e.parquet", Seen(), scenes[0], scenes[0])
    assert not (tmp_path / "e.parquet").exists()


def test_embeddings_without_width_come_back(world, tmp_path):
    from emma.backbones.base import prior

    write(tmp_path / "e.parquet", prior(), *world.scenes(TaskID.E_ID_FP))
    embeddings = Embeddings.read(tmp_path / "e.parquet")
    assert embeddings.values.shape == (96, 0)


def test_one_chunk_is_held_at_a_time(scenes, tmp_path, monkeypatch):
    sizes = []
    plain = pq.ParquetWriter.write_table
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda w, t, *a: sizes.append(len(t)) or plain(w, t, *a))
    write(tmp_path / "e.parquet", Seen(), scenes[0])
    assert sizes == [6, 4]


GOOD = {"embedding_dim": "2"} | PROVENANCE.metadata


@pytest.mark.parametrize(
    ("lists", "metadata", "message"),
    [
        ([[1.0, 2.0], [3.0]], GOOD, "expected lists of 2 numbers"),
        ([[1.0, 2.0], [3.0, None]], GOOD, "expected lists of 2 numbers"),
        ([[1.0, 2.0], [3.0, np.nan]], GOOD, "NaN or infinity"),
        ([[1.0, 2.0], [3.0, np.inf]], GOOD, "NaN or infinity"),
        ([[1.0, 2.0], [3.0, 4.0]], GOOD | {"embedding_dim": "3"}, "expected lists of 3 numbers"),
        ([[1.0, 2.0], [3.0, 4.0]], GOOD | {"embedding_dim": "wide"}, "in the schema metadata"),
        ([[1.0, 2.0], [3.0, 4.0]], {"embedding_dim": "2"}, "in the schema metadata"),
        ([[1.0, 2.0], [3.0, 4.0]], GOOD | {"model_provenance": "{"}, "in the schema metadata"),
        ([[1.0, 2.0], [3.0, 4.0]], GOOD | {"model_provenance": "{}"}, "model_provenance: name: Field required"),
    ],
)
def test_a_table_that_holds_no_embeddings_is_refused(tmp_path, lists, metadata, message):
    schema = EMBEDDING_SCHEMA.with_metadata(metadata)
    pq.write_table(pa.table([["a", "b"], lists], schema=schema), tmp_path / "e.parquet")
    with pytest.raises(InputError, match=message):
        Embeddings.read(tmp_path / "e.parquet")


def test_missing_and_repeated_scenes_are_named(tmp_path):
    schema = EMBEDDING_SCHEMA.with_metadata(GOOD)
    pq.write_table(pa.table([["a", "b"], [[1.0, 2.0], [3.0, 4.0]]], schema=schema), tmp_path / "e.parquet")
    with pytest.raises(InputError, match=r"e\.parquet: scene_id: c is missing"):
        Embeddings.read(tmp_path / "e.parquet").of(pa.chunked_array([["a", "c"]]))
    pq.write_table(pa.table([["a", "a"], [[1.0, 2.0], [3.0, 4.0]]], schema=schema), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="a occurs twice"):
        Embeddings.read(tmp_path / "e.parquet")


def test_antennas_side_by_side_are_as_many_features_to_the_log(scenes, tmp_path, caplog):
    contract = Contract(per_antenna="concat")
    write_embeddings(tmp_path / "e.parquet", Seen(), [scenes[0]], contract=contract, provenance=PROVENANCE)
    assert Embeddings.read(tmp_path / "e.parquet").values.shape == (10, 4)
    assert caplog.messages == []
