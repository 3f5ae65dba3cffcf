"""`emma add` reads a file, writes a config that loads, looks at the model; what it cannot do is one line."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save

from common.errors import InputError
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.cli.main import main
from emma.data.provenance import Pretraining

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(0)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def network(shape=("B", 2, 1, 504), classes=4, hidden=96, head="Softmax", tail=()):
    """A flattened input through one hidden layer, and a classifier's head."""
    size = int(np.prod([dim for dim in shape[1:] if isinstance(dim, int)]))
    stored = {
        "W": RNG.normal(size=(size, hidden)) / np.sqrt(size),
        "V": RNG.normal(size=(hidden, classes)),
    }
    nodes = [("Flatten", "x", "f"), ("MatMul", "f W", "m"), ("Relu", "m", "h"), ("MatMul", "h V", "y"), *tail]
    nodes += [(head, "y", "p")] if head else []
    made = helper.make_graph(
        [helper.make_node(op, given.split(), made.split()) for op, given, made in nodes],
        "g",
        [value("x", shape)],
        [value("p" if head else "y", [shape[0], classes])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in stored.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def tokens(shape=("B", 2, "T")):
    nodes = [helper.make_node("Conv", ["x", "K"], ["c"]), helper.make_node("Transpose", ["c"], ["y"], perm=[0, 2, 1])]
    kernel = numpy_helper.from_array(RNG.normal(size=(6, 2, 3)).astype(np.float32), "K")
    made = helper.make_graph(nodes, "g", [value("x", shape)], [value("y", ["B", "N", 6])], [kernel])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.fixture
def project(tmp_path):
    """A project's folder without programs, so that nothing is looked at."""
    (tmp_path / "project/config/models").mkdir(parents=True)
    (tmp_path / "project/config/config.yaml").write_text("models: [prior]\n")
    (tmp_path / "project/config/releases").mkdir()
    (tmp_path / "project/config/releases/tiny.yaml").write_text("release: tiny\n")
    (tmp_path / "project/config/releases/base.yaml").write_text("seed: 1\n")
    return tmp_path / "project"


def emma(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["emma", *map(str, arguments)])
    main()


def added(monkeypatch, project, data, *options, file="net one.onnx", name="net_one"):
    path = project.parent / file
    path.write_bytes(data)
    emma(monkeypatch, "add", path, "--root", project, *options)
    return load_model_config(project / f"config/models/{name}.yaml")


def test_a_classifier_is_read_and_cut_before_its_last_layer(monkeypatch, project, capsys):
    data = network()
    config = added(monkeypatch, project, data)
    told = capsys.readouterr().out
    assert (config.layout, config.antennas, config.samples, config.fit) == ("column", 1, 504, "tile")
    assert (config.output, config.pretraining, config.licence) == ("h", "unknown", None)
    assert config.weights_sha256 == hashlib.sha256(data).hexdigest()
    assert (project / "weights/net_one.onnx").read_bytes() == data
    assert "taken is the tensor before its last layer, h [B, 96]; choose by --output: p (4), y (4), h (96)" in told
    assert "  - net_one\n" in told
    assert "or run it alone: emma run --models prior,net_one\n" in told
    backbone, _ = load_backbone(config, project)
    assert backbone.embedding_dim == 96


def test_what_the_user_names_is_taken(monkeypatch, project):
    config = added(monkeypatch, project, network(), "--output", "m", "--name", "other", name="other")
    assert (config.name, config.output) == ("other", "m")
    config = added(monkeypatch, project, network(("B", 2, 504), head=None), "--output", "y", "--layout", "stacked")
    assert (config.output, config.layout) == ("y", "stacked")


def test_other_keys_are_set_and_what_cannot_run_says_how_to_look_again(monkeypatch, project, capsys):
    config = added(monkeypatch, project, network(), "--set", "normalise=max_abs", "--set", "pretraining={}")
    assert (config.normalise, config.pretraining) == ("max_abs", Pretraining())
    capsys.readouterr()
    monkeypatch.setattr("emma.cli.add._look", lambda root, name, release: 2)
    with pytest.raises(SystemExit):
        added(monkeypatch, project, network(), "--force", "--release", "tiny")
    told = capsys.readouterr().out
    assert "look again, by emma check net_one --release tiny; " in told
    assert "To run it" not in told


def test_a_fixed_batch_and_more_antennas_are_written_down(monkeypatch, project, capsys):
    config = added(monkeypatch, project, network((4, 16, 256), head=None, classes=80))
    assert (config.batch_size, config.antennas, config.missing_antennas, config.samples) == (4, 8, "repeat", 256)
    assert config.output is None
    assert "read as channels, 8 antennas, 256 samples, 4 scenes a run\n" in capsys.readouterr().out


def test_tokens_are_pooled_and_open_axes_are_tried(monkeypatch, project):
    config = added(monkeypatch, project, tokens(("B", "C", "T")))
    assert (config.pooling, config.antennas, config.samples, config.layout) == ("mean", 1, "any", "channels")


def test_a_file_in_the_project_stays_where_it_is(monkeypatch, project):
    (project / "nets").mkdir()
    (project / "nets/own.onnx").write_bytes(network())
    emma(monkeypatch, "add", project / "nets/own.onnx", "--root", project)
    assert load_model_config(project / "config/models/own.yaml").onnx == "nets/own.onnx"
    assert not (project / "weights").exists()


def test_nothing_is_overwritten_unless_it_is_forced(monkeypatch, project):
    added(monkeypatch, project, network())
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"net_one\.yaml, .*net_one\.onnx: already there; .* --force"):
        added(monkeypatch, project, network(classes=5))
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    added(monkeypatch, project, data := network(classes=5), "--force")
    assert (project / "weights/net_one.onnx").read_bytes() == data


def test_safetensors_come_with_a_factory(monkeypatch, project):
    data = save({"a": np.ones(3, np.float32)})
    options = ("--factory", "my.net:build", "--layout", "channels", "--samples", 512)
    config = added(monkeypatch, project, data, *options, file="w.safetensors", name="w")
    assert (config.factory, config.weights, config.layout) == ("my.net:build", "weights/w.safetensors", "channels")
    assert (config.samples, config.weights_sha256) == (512, hashlib.sha256(data).hexdigest())
    assert list(yaml.safe_load((project / "config/models/w.yaml").read_text()))[:4] == [
        "name",
        "factory",
        "weights",
        "weights_sha256",
    ]


@pytest.mark.parametrize(
    ("file", "data", "options", "message"),
    [
        ("n.onnx", b"no network\n", (), r"n\.onnx: expected an ONNX file"),
        ("n.onnx", network(), ("--output", "q"), r"n\.onnx: output: no tensor 'q'"),
        ("n.onnx", network(), ("--samples", 1024), "--samples: the file fixes 504, found 1024"),
        ("n.onnx", network(), ("--layout", "planar"), "--layout: planar: expected one of channels"),
        (
            "n.onnx",
            network(),
            ("--layout", "image"),
            r"by --layout: expected one of column \[B, 2A, 1, T\]",
        ),
        (
            "n.onnx",
            network(("B", 504, 1, 2)),
            (),
            r"\[B, 504, 1, 2\]: name what its axes are by --layout: expected one of column",
        ),
        ("n.onnx", network(("B", 504, 2, 1)), ("--layout", "image_last"), "reads 252 antennas of 2 samples; expected"),
        ("n.onnx", network(), ("--release", "none"), "--release: none is unknown, expected one of tiny$"),
        ("n.onnx", network(), ("--name", "a.control"), "ends the names of controls"),
        ("n.onnx", network(), ("--set", "per_antenna"), "expected KEY=VALUE"),
        ("n.onnx", network(), ("--set", "pooliing=mean"), r"pooliing: unknown key, did you mean pooling\?$"),
        ("n.onnx", network(), ("--release", "tinny"), r"--release: tinny is unknown, did you mean tiny\?$"),
        ("n.onnx", network(), ("--factory", "a:b"), "is a whole network; expected no --factory"),
        ("n.onnx", network(), ("--name", "a/b"), "name: String should match"),
        ("n.onnx", network(), ("--antennas", "two"), "--antennas: invalid int value"),
        ("n.safetensors", save({}), (), "expected --factory"),
        ("n.safetensors", save({}), ("--factory", "a:b", "--output", "x"), "--output: names a tensor of an ONNX graph"),
        ("n.pt2", b"PK", (), r"n\.pt2: expected \.onnx, .*torch\.onnx\.export\(torch\.export\.load"),
        ("n.pth", b"PK", (), r"n\.pth: expected \.onnx, .*weights_only=True"),
        ("n.keras", b"", (), r"n\.keras: expected \.onnx, or \.safetensors"),
    ],
)
def test_what_cannot_be_added_is_one_line_and_leaves_nothing(file, data, options, message, monkeypatch, project):
    with pytest.raises(InputError, match=message) as caught:
        added(monkeypatch, project, data, *options, file=file)
    assert "\n" not in str(caught.value)
    left = sorted(path.name for path in project.rglob("*") if path.is_file())
    assert left == ["base.yaml", "config.yaml", "tiny.yaml"]


def test_several_outputs_are_the_users_choice(monkeypatch, project):
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Flatten", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"])],
            "g",
            [value("x", ["B", 2, 64])],
            [value("a", ["B", 128]), value("b", ["B", 128])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    ).SerializeToString()
    with pytest.raises(
        InputError, match=r"outputs a \[B, 128\], b \[B, 128\]: choose by --output: b \(128\), a \(128\)"
    ):
        added(monkeypatch, project, model)
    assert added(monkeypatch, project, model, "--output", "b").output == "b"


def test_a_name_in_a_file_cannot_write_keys(monkeypatch, project):
    """A tensor whose name holds a line break and a key stays a name."""
    evil = "h\nlicence: MIT # "
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Flatten", [evil + "x"], [evil]), helper.make_node("Softmax", [evil], ["p"])],
            "g",
            [value(evil + "x", ["B", 2, 64])],
            [value("p", ["B", 128])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    ).SerializeToString()
    config = added(monkeypatch, project, model, "--output", evil)
    assert (config.output, config.licence) == (evil, None)


def test_a_folder_that_is_no_project_is_refused(monkeypatch, tmp_path):
    (tmp_path / "n.onnx").write_bytes(network())
    with pytest.raises(InputError, match=r"expected the project's folder, with config/config\.yaml; name it by --root"):
        emma(monkeypatch, "add", tmp_path / "n.onnx", "--root", tmp_path)


def program(*arguments, folder):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "emma.cli", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300, check=False
    )


def test_the_command_runs_as_a_program_in_any_folder(tmp_path):
    told = program("--help", folder=tmp_path)
    assert told.returncode == 0
    assert told.stdout.startswith("usage: emma COMMAND [OPTIONS]\n")
    wrong = program("ad", folder=tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_the_model_is_looked_at_and_the_status_is_that_programs(project, tmp_path):
    (project / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "n.onnx").write_bytes(network())
    told = program("add", tmp_path / "n.onnx", folder=project)
    assert (told.returncode, told.stderr) == (0, "")
    assert "n: ready\n" in told.stdout
    assert "; its output is a softmax" not in told.stdout
    told = program("add", tmp_path / "n.onnx", "--output", "p", "--name", "whole", folder=project)
    assert (told.returncode, told.stderr) == (0, "")
    assert "onnx in" in told.stdout
    assert "; its output is a softmax: output: h takes the layer before the last" in told.stdout
    # A network whose answer holds infinity is added, and the fault is said.
    (tmp_path / "bad.onnx").write_bytes(network(head="Log"))
    told = program("add", tmp_path / "bad.onnx", "--output", "p", folder=project)
    assert told.returncode == 1
    assert "FAULT finite" in told.stdout


PUBLIC = os.environ.get("EMMA_PUBLIC_BACKBONES")


@pytest.mark.skipif(PUBLIC is None, reason="EMMA_PUBLIC_BACKBONES names no folder of public networks")
def test_a_published_classifier_is_added_as_it_is(project):
    (project / "scripts").symlink_to(ROOT / "scripts")
    told = program("add", Path(PUBLIC) / "kjs_res_20dB.onnx", folder=project)
    assert (told.returncode, told.stderr) == (0, "")
    assert "input imageinput [B, 2, 1, 504] read as column, 1 antenna, 504 samples" in told.stdout
    assert "kjs_res_20dB: ready\n" in told.stdout
    config = load_model_config(project / "config/models/kjs_res_20dB.yaml")
    assert (config.layout, config.output, config.antennas, config.samples) == ("column", "elu", 1, 504)


def test_a_file_of_torch_export_runs_code_as_it_is_read(tmp_path):
    """Why .pt2 is refused: should torch read such a file without running what it holds, it could be taken."""
    code = f"""
import io, os, torch
class Evil:
    def __reduce__(self): return os.mkdir, ({str(tmp_path / "ran")!r},)
whole, evil, made = io.BytesIO(), io.BytesIO(), io.BytesIO()
torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.zeros(2),)), whole)
torch.save(Evil(), evil)
whole.seek(0)
reader, writer = torch._C.PyTorchFileReader(whole), torch._C.PyTorchFileWriter(made)
for name in reader.get_all_records():
    if name not in ("version", "byteorder") and not name.startswith(".data"):
        data = evil.getvalue() if "sample_inputs" in name else reader.get_record(name)
        writer.write_record(name, data, len(data))
writer.write_end_of_file()
made.seek(0)
torch.export.load(made)
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False)
    assert (tmp_path / "ran").is_dir()
