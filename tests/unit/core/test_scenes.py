"""Scenes in and out of Parquet: what identifies one, what is refused, and how much is held at once."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.data.reference import Reference, reference_of
from emma.data.samples import FULL_SCALE, convert, revert
from emma.data.scenes import (
    INDEX_SCHEMA,
    METADATA_SCHEMA,
    SceneChunk,
    identify,
    identify_all,
    iterate_scenes,
    read_index,
    scene_schema,
    write_scenes,
)


def samples(count, seed=0, antennas=2, length=8):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, antennas, length)) + 1j * rng.normal(size=(count, antennas, length))).astype("c8")


@pytest.fixture
def write(tmp_path, scene_columns):
    """Write chunks of IQ with plain metadata; the path of the scene file."""

    def written(*chunks, **columns):
        path = tmp_path / "scenes.parquet"
        cut = (SceneChunk(iq, scene_columns(len(iq), **columns), {}) for iq in chunks)
        write_scenes(path, tmp_path / "index.parquet", cut)
        return path

    return written


def test_samples_are_rounded_to_the_steps_of_a_converter():
    iq = samples(4).astype(complex) * np.array([1, 1e-6, 1e6, 0])[:, None, None]
    stored = convert(iq)
    assert (stored.pairs.dtype, stored.scale.dtype) == (np.int16, np.float32)
    peak = np.abs(np.stack([iq.real, iq.imag])).max(axis=(0, 2, 3))
    np.testing.assert_allclose(stored.scale, peak / FULL_SCALE, rtol=1e-7)
    assert (np.abs(stored.pairs.astype(int)).max(axis=(1, 2, 3)) == [32767] * 3 + [0]).all()
    back = revert(stored)
    assert back.dtype == np.complex64
    for part in (np.real, np.imag):  # half a step, and the rounding of float32
        assert (np.abs(part(back) - part(iq)).max(axis=(1, 2)) <= 0.5001 * peak / FULL_SCALE).all()
    # Noise in the last bits, as other machines have it, is rounded away; the scale alone is no part of the samples.
    other = convert(iq * (1 + 1e-13))
    assert all(np.array_equal(*pair) for pair in zip(stored, other, strict=True))
    again = convert(back)
    np.testing.assert_array_equal(again.pairs, stored.pairs)
    assert np.array_equal(convert(2 * iq).pairs, stored.pairs)


def test_two_levels_of_one_signal_share_their_samples_and_no_id(write, tmp_path):
    write(np.concatenate([samples(1), 2 * samples(1)]))
    index = read_index(tmp_path / "index.parquet")
    assert len(set(index["scene_id"].to_pylist())) == 2
    assert len(set(index["iq_sha256"].to_pylist())) == 1


def test_scenes_come_back_in_row_groups(write, tmp_path):
    iq = samples(7)
    path = write(iq[:4], iq[4:5], iq[:0], iq[5:], link_id=None, environment="é")
    chunks = list(iterate_scenes(path))
    assert [len(found) for _, found in chunks] == [4, 1, 2]
    np.testing.assert_array_equal(np.concatenate([found for _, found in chunks]), revert(convert(iq)))
    index = read_index(tmp_path / "index.parquet")
    assert pa.concat_tables([table for table, _ in chunks]).equals(index)
    assert index.schema.equals(INDEX_SCHEMA)


def test_a_sample_takes_four_bytes(write):
    path = write(samples(50, length=4096))
    assert path.stat().st_size < 1.05 * 4 * 50 * 2 * 4096


def test_the_id_depends_on_content_alone(write, tmp_path):
    iq = samples(6)
    ids = []
    for cut in ([iq], [iq[:1], iq[1:]], [np.asfortranarray(iq)], [np.repeat(iq, 2, axis=2)[:, :, ::2]]):
        write(*cut)
        ids.append(read_index(tmp_path / "index.parquet")["scene_id"].to_pylist())
    assert ids == [ids[0]] * 4


def test_every_part_of_the_content_counts(scene_columns):
    iq, scale = (part[0] for part in convert(samples(1)))
    plain = {name: values[0] for name, values in scene_columns(1).items()}
    changed = [(iq, scale, plain), (-iq, scale, plain), (iq[..., ::-1], scale, plain), (iq, 2 * scale, plain)]
    changed += [(iq.reshape(shape), scale, plain) for shape in ((1, 16, 2), (4, 4, 2))]
    other = {pa.float64(): 1.25, pa.string(): "other"}
    changed += [(iq, scale, plain | {field.name: other[field.type]}) for field in METADATA_SCHEMA]
    ids = [identify(*scene)[0] for scene in changed]
    assert len(set(ids)) == len(ids)
    assert len({identify(*scene)[1] for scene in changed}) == 3  # the samples alone
    # Pinned: a change of this moves every scene id.
    assert identify(np.array([[[1, 2]]], np.int16), 0.1, plain) == PINNED


PINNED = (
    "bfcd5681b099a0d5fe939765cad486bcfe693b468599d2526314f6c09949ac89",
    "7b11c1133330cd161071bf23a0c9b6ce5320a8f3a0f83620035a72be46df4104",
)


def test_no_value_is_null_whatever_stands_for_it(write, tmp_path):
    write(samples(2), environment=[np.nan, "E"])
    first = read_index(tmp_path / "index.parquet")
    write(samples(2), environment=[None, "E"])
    assert read_index(tmp_path / "index.parquet").equals(first)
    assert first["environment"].to_pylist() == [None, "E"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1j * np.nan, -1j * np.inf])
def test_samples_that_are_not_finite_are_refused(write, tmp_path, bad):
    iq = samples(3)
    iq[1, 1, 3] = bad
    with pytest.raises(InputError, match=r"scenes\.parquet: iq: NaN or infinity in scene 1"):
        write(iq)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"sample_rate_hz": None}, "sample_rate_hz: null"),
        ({"sample_rate_hz": float("nan")}, "sample_rate_hz: null"),
        ({"snr_db": float("inf")}, "snr_db: NaN or infinity"),
        ({"frequency_band": None}, "frequency_band: null"),
    ],
)
def test_metadata_without_a_value_where_one_is_needed_are_refused(write, tmp_path, columns, message):
    with pytest.raises(InputError, match=message):
        write(samples(2), **columns)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_a_scene_file_is_refused_and_leaves_nothing(write, tmp_path, scene_columns):
    with pytest.raises(InputError, match="expected at least one scene"):
        write()
    with pytest.raises(InputError, match="expected at least one scene"):
        write(samples(0))
    with pytest.raises(InputError, match="occurs twice"):
        write(samples(2), samples(2))
    with pytest.raises(InputError, match=r"shape \(1, 8\) after \(2, 8\)"):
        write(samples(2), samples(2, antennas=1))
    with pytest.raises(InputError, match="float32"):
        write(samples(2).real)
    with pytest.raises(InputError, match="expected complex"):
        write(samples(2)[:, 0])
    columns = scene_columns(2)
    del columns["link_id"]
    with pytest.raises(InputError, match="link_id: column missing"):
        write_scenes(tmp_path / "s.parquet", tmp_path / "index.parquet", iter([SceneChunk(samples(2), columns, {})]))
    assert list(tmp_path.iterdir()) == []


def changed(path, **columns):
    """Write the scene file again with other columns."""
    table = pq.read_table(path)
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(
            table.schema.get_field_index(name), field.with_nullable(True), pa.array(values, field.type)
        )
    pq.write_table(table, path)


def test_content_that_was_changed_is_refused(write):
    path = write(samples(2))
    changed(path, snr_db=[5.0, 5.5])
    with pytest.raises(InputError, match="does not match its content"):
        list(iterate_scenes(path))
    assert len(list(iterate_scenes(path, verify=False))) == 1
    path = write(samples(2))
    iq, scale = convert(samples(2))
    iq[0, 0, 0, 0] += 1
    for columns in ({"iq": [scene.tobytes() for scene in iq]}, {"iq_scale": scale * np.float32(1.0001)}):
        changed(write(samples(2)), **columns)
        with pytest.raises(InputError, match="does not match its content"):
            list(iterate_scenes(path))


@pytest.mark.parametrize("column", ["sample_rate_hz", "center_frequency_hz", "scene_id", "iq", "iq_scale"])
def test_nulls_are_refused_even_unverified(write, column):
    path = write(samples(2))
    values = pq.read_table(path)[column].to_pylist()
    changed(path, **{column: [None, values[1]]})
    with pytest.raises(InputError, match=f"{column}: null"):
        list(iterate_scenes(path, verify=False))


def test_nan_is_refused_even_unverified(write):
    path = write(samples(2))
    changed(path, sample_rate_hz=[np.nan, 2e7])
    with pytest.raises(InputError, match="sample_rate_hz: NaN"):
        list(iterate_scenes(path, verify=False))
    path = write(samples(2))
    changed(path, iq_scale=[0.5, np.nan])
    with pytest.raises(InputError, match="iq_scale: NaN or infinity"):
        list(iterate_scenes(path, verify=False))


def test_another_shape_than_the_metadata_say_is_refused(write, tmp_path):
    path = write(samples(2))
    table = pq.read_table(path)
    version = {"scene_schema": "3"}
    for metadata in (version, version | {"antennas": "2"}, version | {"antennas": "x", "samples": "8"}):
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(InputError, match="expected the schema metadata antennas and samples"):
            list(iterate_scenes(path))
    pq.write_table(table.replace_schema_metadata(version | {"antennas": "2", "samples": "9"}), path)
    with pytest.raises(InputError, match="iq: expected fixed_size_binary"):
        list(iterate_scenes(path))
    pq.write_table(table.drop_columns(["snr_db"]), path)
    with pytest.raises(InputError, match="snr_db: column missing"):
        list(iterate_scenes(path))


def test_a_scene_file_that_was_cut_is_refused(write):
    path = write(samples(8), samples(8, 1))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="expected a complete Parquet file"):
        list(iterate_scenes(path))


def test_one_row_group_is_held_at_a_time(write, monkeypatch):
    path = write(*(samples(4, seed) for seed in range(5)))
    read = []
    plain = pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *a, **k: read.append(a[1]) or plain(*a, **k))
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("the whole file was read"))
    for number, _ in enumerate(iterate_scenes(path)):
        assert read == list(range(number + 1))


def test_writing_holds_no_earlier_chunk(tmp_path, scene_columns):
    import weakref

    held = []

    def chunks():
        for seed in range(4):
            assert not [reference for reference in held[:-1] if reference() is not None]
            iq = samples(3, seed)
            held.append(weakref.ref(iq))
            yield SceneChunk(iq, scene_columns(3), {})

    write_scenes(tmp_path / "s.parquet", tmp_path / "index.parquet", chunks())
    assert len(held) == 4


def test_an_index_with_a_repeated_id_or_another_schema_is_refused(write, tmp_path):
    write(samples(2))
    path = tmp_path / "index.parquet"
    index = pq.read_table(path)
    pq.write_table(pa.concat_tables([index, index.slice(1)]), path)
    with pytest.raises(InputError, match="occurs twice"):
        read_index(path)
    pq.write_table(index.append_column("more", pa.array([1, 2])), path)
    with pytest.raises(InputError, match="more: column not expected"):
        read_index(path)


def test_schema_names_pairs_of_every_antenna():
    assert scene_schema(8, 256).field("iq").type == pa.binary(4 * 8 * 256)


def test_a_file_without_a_scene_is_refused(write):
    path = write(samples(2))
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    with pytest.raises(InputError, match=r"scenes\.parquet: expected at least one scene"):
        list(iterate_scenes(path))


def test_scenes_identified_together_are_those_identified_one_by_one():
    rng = np.random.default_rng(0)
    stored = convert(rng.normal(size=(5, 2, 3)) + 1j * rng.normal(size=(5, 2, 3)))
    texts = ["plain", 'a "quote" and 100 %s', "é\n\\", "", None]
    numbers = [0.0, -0.0, 1e-7, 1e21, 123.25]
    columns = {
        field.name: texts if field.nullable and field.type == pa.string() else ["a%", "b", "a%", "c", "d"]
        for field in METADATA_SCHEMA
    }
    columns |= {field.name: numbers for field in METADATA_SCHEMA if field.type == pa.float64()}
    table = pa.table(columns, schema=METADATA_SCHEMA)
    singly = [identify(*scene, row) for *scene, row in zip(*stored, table.to_pylist(), strict=True)]
    assert list(zip(*identify_all(stored, table), strict=True)) == singly
    assert len({scene_id for scene_id, _ in singly}) == 5


REFERENCE = Reference(size=4, prefix=1, carriers=(-1, 1), values=((1.0, 0.0), (0.0, -1.0)))


def referring(starts, reference=REFERENCE, seed=0):
    def chunk(columns):
        return SceneChunk(samples(len(starts), seed), columns | {"reference_start": starts}, {}, reference)

    return chunk


def test_scenes_with_a_reference_say_so_in_file_index_and_ids(tmp_path, scene_columns, write):
    path, index = tmp_path / "s.parquet", tmp_path / "index.parquet"
    write_scenes(path, index, [referring([1, None])(scene_columns(2)), referring([3], seed=1)(scene_columns(1))])
    parts = list(iterate_scenes(path))
    assert [reference_of(table.schema) for table, _ in parts] == [REFERENCE, REFERENCE]
    assert pa.concat_tables([table for table, _ in parts])["reference_start"].to_pylist() == [1, None, 3]
    assert read_index(index).schema.names == [*INDEX_SCHEMA.names, "reference_start"]
    found = read_index(index)
    write_scenes(path, index, [referring([1, 2])(scene_columns(2)), referring([3], seed=1)(scene_columns(1))])
    moved = read_index(index)
    same = [one == other for one, other in zip(found["scene_id"], moved["scene_id"], strict=True)]
    assert same == [True, False, True]
    assert found["iq_sha256"].equals(moved["iq_sha256"])
    stored = convert(samples(1, 1))
    metadata = {name: found[name][2].as_py() for name in [*METADATA_SCHEMA.names, "reference_start"]}
    assert identify(stored.pairs[0], stored.scale[0], metadata)[0] == found["scene_id"][2].as_py()
    changed(path, reference_start=[1, 1, 3])
    with pytest.raises(InputError, match=r"scene_id: .* does not match its content"):
        list(iterate_scenes(path))
    # Without one, nothing of it is there.
    plain = write(samples(2))
    assert reference_of(next(iterate_scenes(plain))[0].schema) is None


def test_a_reference_and_its_start_go_together(tmp_path, scene_columns):
    paths = tmp_path / "s.parquet", tmp_path / "index.parquet"
    columns = scene_columns(2)
    for chunk in (SceneChunk(samples(2), columns, {}, REFERENCE), referring([1, 2], None)(columns)):
        with pytest.raises(InputError, match="reference_start: expected with a reference symbol, and only then"):
            write_scenes(*paths, [chunk])
    other = Reference(size=4, prefix=0, carriers=(1,), values=((1.0, 0.0),))
    with pytest.raises(InputError, match="reference: two symbols, expected one per file"):
        write_scenes(*paths, [referring([1, 2])(columns), referring([1, 2], other, 1)(columns)])
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [[1.0, 0.0]]}, "expected one for each carrier"),
        ({"values": [[1.0, 0.0], [0.0, 0.0]]}, "none of them zero"),
        ({"carriers": [1, -1]}, "in order of frequency"),
        ({"carriers": [1, 1]}, "each once"),
        ({"carriers": [-1, 2]}, "of an FFT of this size"),
        ({"carriers": [-3, 1]}, "of an FFT of this size"),
        ({"size": 0}, "size"),
        ({"root": 1}, "root"),
    ],
)
def test_a_symbol_that_is_none_is_refused(change, message):
    known = {"size": 4, "prefix": 1, "carriers": [-1, 1], "values": [[1.0, 0.0], [0.0, -1.0]]}
    assert Reference.of(known) == REFERENCE
    with pytest.raises(InputError, match=message):
        Reference.of(known | change)
