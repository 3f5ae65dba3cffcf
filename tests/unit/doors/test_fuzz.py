"""Whole files with bytes changed, cut off or put in: each reader reads them, or refuses them in one line."""

import io
import json
import resource
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from safetensors.numpy import save

from common.errors import InputError
from common.files import read_json, read_yaml
from common.npy import read_npz
from emma.audit.archive import unpack
from emma.backbones.load import load_weights
from emma.backbones.onnx_file import OnnxBackbone
from emma.captures.adapters import adapter
from emma.captures.cutting import SceneShape
from emma.captures.settings import CaptureEntry
from emma.data.foreign import read_untrusted

ROWS = pa.schema([pa.field("scene_id", pa.string(), nullable=False), pa.field("scores", pa.list_(pa.float64()))])
RECORD = {"model": "a", "list": [1, 2.5, None, True, "text", {"deep": [[[]]]}], "seed": 7}


def parquet() -> bytes:
    stream = io.BytesIO()
    columns = [[f"scene-{number}" for number in range(40)], [[0.5, float(number)] for number in range(40)]]
    pq.write_table(pa.table(columns, schema=ROWS), stream, compression="zstd")
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, csi=np.ones((4, 3), np.complex64), rate=np.float64(1e6))
    return stream.getvalue()


def network() -> bytes:
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("Relu", ["f"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in SHAPES.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()


SHAPES = {"x": ["n", 2, 8], "y": ["n", 16]}


def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.json", "{}" * 50)
        file.writestr("folder/b.txt", "text " * 50)
    return stream.getvalue()


def sigmf() -> bytes:
    head = {"core:datatype": "cf32_le", "core:version": "1.0.0", "core:sample_rate": 1e6}
    parts = {"captures": [{"core:sample_start": 0, "core:frequency": 1e9}]}
    marks = [{"core:sample_start": 0, "core:sample_count": 128, "core:label": "OOK"}]
    return json.dumps({"global": head, **parts, "annotations": marks}).encode()


def read_sigmf(path: Path) -> None:
    """The metadata beside samples of their own."""
    folder = path.with_name("set")
    folder.mkdir(exist_ok=True)
    (folder / "a.sigmf-meta").write_bytes(path.read_bytes())
    np.ones(256, np.complex64).tofile(folder / "a.sigmf-data")
    entry = CaptureEntry(
        name="set", adapter="sigmf", path="x", task="E-ID-AMC", mapping={"classes": {"OOK": "OOK", "2FSK": "2FSK"}}
    )
    list(adapter(folder, entry, SceneShape(samples=64, sample_rate_hz=1e6)).scenes())


def read_zip(path: Path) -> None:
    target = path.with_name("unpacked")
    target.mkdir(exist_ok=True)
    unpack(path, target)


#: Files of each kind; ten times as many found nothing either.
EXAMPLES = 150

#: By kind: a whole file, and what reads it.
READERS = {
    "json": (json.dumps(RECORD).encode(), read_json),
    "yaml": (yaml.safe_dump(RECORD).encode(), read_yaml),
    "parquet": (parquet(), lambda path: read_untrusted(path, ROWS)),
    "npz": (npz(), lambda path: read_npz(path.read_bytes(), path)),
    "safetensors": (save({"a": np.ones((3, 2), np.float32), "b": np.ones(4, np.int64)}), load_weights),
    "onnx": (network(), lambda path: OnnxBackbone("m", path.read_bytes(), str(path))),
    "sigmf": (sigmf(), read_sigmf),
    "zip": (archive(), read_zip),
}


@st.composite
def changed(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with a few bytes changed, a piece cut out or cut off, or numbers of all ones put in."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        kind = draw(st.sampled_from(["byte", "ones", "cut out", "cut off", "put in"]))
        if kind == "byte" and content:
            content[place] = draw(st.integers(0, 255))
        elif kind == "ones":
            content[place : place + 4] = b"\xff\xff\xff\x7f"
        elif kind == "cut out":
            del content[place : place + draw(st.integers(1, 16))]
        elif kind == "cut off":
            del content[place:]
        else:
            content[place:place] = draw(st.binary(min_size=1, max_size=8))
    return bytes(content)


@pytest.mark.parametrize("kind", READERS)
def test_a_whole_file_is_read(kind, tmp_path):
    whole, read = READERS[kind]
    (tmp_path / "file").write_bytes(whole)
    try:
        read(tmp_path / "file")
    except InputError as error:
        # What is read and is not what the reader is for: a zip without sums, a network of another shape.
        assert kind in {"zip", "onnx"} and "\n" not in str(error), error


@pytest.mark.parametrize("kind", READERS)
def test_a_changed_file_is_read_or_one_line(kind, tmp_path_factory):
    whole, read = READERS[kind]
    folder = tmp_path_factory.mktemp(kind)

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(changed(whole))
    def look(content: bytes) -> None:
        path = folder / "file"
        path.write_bytes(content)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            read(path)
        except InputError as error:
            assert len(str(error)) < 2000
        assert time.process_time() - start < 10
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20, "a gigabyte"

    look()
