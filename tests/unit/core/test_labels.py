"""Labels apart from scenes: their place, what is refused, and what neither ids nor hashes of scenes depend on."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.data.labels import AZIMUTH, CLASS, labels_beside, read_labels
from emma.data.scenes import SceneChunk, iterate_scenes, read_index, read_labelled, write_scenes


@pytest.fixture
def write(tmp_path, scene_columns):
    """Write four scenes in two chunks with these labels; the path of the index."""
    rng = np.random.default_rng(0)
    iq = (rng.normal(size=(4, 1, 8)) + 1j * rng.normal(size=(4, 1, 8))).astype("c8")

    def written(label, **labels):
        path = tmp_path / "TRAIN.index.parquet"
        columns = scene_columns(2)
        parts = (slice(2), slice(2, None))
        cut = [SceneChunk(iq[part], columns, {name: v[part] for name, v in labels.items()}) for part in parts]
        write_scenes(tmp_path / "TRAIN.parquet", path, cut, label)
        return path

    return written


@pytest.mark.parametrize(
    ("index", "labels"),
    [("a/TRAIN.index.parquet", "a/TRAIN.labels.parquet"), ("a/index.parquet", "a/labels.parquet")],
)
def test_labels_stand_beside_their_index(index, labels):
    assert labels_beside(index).as_posix() == labels


def test_an_index_of_another_name_has_no_place_for_labels():
    with pytest.raises(InputError, match=r"TRAIN\.parquet: expected a name that ends in index\.parquet"):
        labels_beside("TRAIN.parquet")


def test_labels_come_back_joined_by_scene_id(write):
    path = write(CLASS, **{"class": ["a", "b", "c", "d"], "detail": ["x", None, "y", "z"], "range_m": [1, 2, 3, 4]})
    index, labels = read_index(path), read_labels(labels_beside(path), CLASS)
    assert labels.column_names == ["scene_id", "class", "detail"]
    pq.write_table(labels.take([3, 1, 0, 2]), labels_beside(path))
    joined = read_labelled(path, CLASS)
    assert joined.select(index.column_names).equals(index)
    assert joined["class"].to_pylist() == ["a", "b", "c", "d"]
    assert joined["detail"].to_pylist() == ["x", None, "y", "z"]


def test_detail_is_null_where_the_labels_have_none(write):
    path = write(AZIMUTH, azimuth_deg=np.arange(4.0))
    joined = read_labelled(path, AZIMUTH)
    assert joined["azimuth_deg"].to_pylist() == [0.0, 1.0, 2.0, 3.0]
    assert joined["detail"].null_count == 4


def test_scene_and_index_files_hold_no_label_and_do_not_depend_on_it(write, tmp_path):
    written = []
    for label, columns in ((AZIMUTH, {"azimuth_deg": [1.0] * 4}), (CLASS, {"class": ["a"] * 4}), (None, {})):
        path = write(label, **columns)
        written.append((path.read_bytes(), (tmp_path / "TRAIN.parquet").read_bytes()))
        for table, _ in iterate_scenes(tmp_path / "TRAIN.parquet"):
            assert not {"azimuth_deg", "class", "detail"} & {*table.column_names}
    assert written == [written[0]] * 3


def test_a_pool_has_an_empty_table_of_labels(write):
    path = write(None, **{"class": ["a"] * 4})
    labels = read_labels(labels_beside(path), None)
    assert (labels.num_rows, labels.column_names) == (0, ["scene_id"])


@pytest.mark.parametrize(
    ("label", "columns", "message"),
    [
        (CLASS, {"detail": ["x"] * 4}, "class: column missing, expected string"),
        (CLASS, {"class": ["a", None, "b", "c"]}, "class: null"),
        (AZIMUTH, {"azimuth_deg": [1.0, np.nan, 2.0, 3.0]}, "azimuth_deg: null"),
        (AZIMUTH, {"azimuth_deg": [1.0, np.inf, 2.0, 3.0]}, "azimuth_deg: NaN or infinity"),
        (AZIMUTH, {"azimuth_deg": ["a"] * 4}, "azimuth_deg: expected double"),
    ],
)
def test_scenes_without_a_label_are_not_written(write, tmp_path, label, columns, message):
    with pytest.raises(InputError, match=rf"TRAIN\.labels\.parquet: {message}"):
        write(label, **columns)
    assert list(tmp_path.iterdir()) == []


def test_labels_of_other_scenes_are_refused(write):
    path = write(CLASS, **{"class": ["a"] * 4})
    labels = pq.read_table(labels_beside(path))
    strange = labels.set_column(0, labels.schema.field(0), pa.array(["?", *labels["scene_id"].to_pylist()[1:]]))
    more = pa.concat_tables([labels, strange.slice(0, 1)])
    for table, message in (
        (labels.slice(1), "is missing"),
        (strange, "is missing"),
        (more, "5 labels, expected one for each of 4 scenes"),
        (pa.concat_tables([labels, labels.slice(0, 1)]), "occurs twice"),
        (labels.drop_columns(["class"]), "class: column missing"),
        (labels.append_column("more", labels["class"]), "more: column not expected"),
    ):
        pq.write_table(table, labels_beside(path))
        with pytest.raises(InputError, match=rf"TRAIN\.labels\.parquet: .*{message}"):
            read_labelled(path, CLASS)


@pytest.mark.parametrize("kind", ["parquet", "index.parquet", "labels.parquet"])
@pytest.mark.parametrize("version", [None, "2", "4"])
def test_files_of_another_version_are_refused_by_name(write, kind, version):
    index = write(CLASS, **{"class": ["a"] * 4})
    path = index.with_name(f"TRAIN.{kind}")
    table = pq.read_table(path)
    assert table.schema.metadata[b"scene_schema"] == b"3"
    metadata = {b"antennas": b"1", b"samples": b"8"} | ({} if version is None else {b"scene_schema": version.encode()})
    # An older file has other columns too: its version is named, not the first column that differs.
    pq.write_table(table.append_column("label_class", pa.nulls(4)).replace_schema_metadata(metadata), path)
    with pytest.raises(InputError) as caught:
        list(iterate_scenes(path)) if kind == "parquet" else read_labelled(index, CLASS)
    said = version or "none"
    again = f"make it again: delete it and run snakemake --cores 2 --config release=NAME -- {path}"
    assert str(caught.value) == f"{path}: scene_schema: version {said}, expected 3: {again}"
