"""Each check of a backbone sees the fault that it is for, and a sound model passes them all."""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from onnx import helper, numpy_helper
from torch import nn

from common.confine import landlock_version
from common.errors import InputError
from emma.audit.checkup import CHECKS, Sample, Subject, examine, spread_sample
from emma.audit.checkup.watch import watched
from emma.backbones.config import ModelConfig
from emma.backbones.inputs import as_channels
from emma.backbones.onnx_file import OnnxBackbone
from emma.data.provenance import Provenance
from emma.data.release import load_release_config
from emma.data.scenes import METADATA_SCHEMA, SceneChunk, write_scenes
from emma.tasks import TaskID

ROOT = Path(__file__).parents[3]
SPECS = load_release_config(ROOT / "config/releases/tiny.yaml").tasks
ALL = {kind.name for kind in CHECKS}
INFORM = {kind.name for kind in CHECKS if kind.informs}


def sample(antennas=2, length=64, count=16):
    rng = np.random.default_rng(0)
    shape = (count, antennas, length)
    iq = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    return Sample(iq, pa.table({"sample_rate_hz": [2e7] * count, "center_frequency_hz": [2.4e9] * count}), "noise")


class Sound:
    """Mean magnitudes of parts of a scene."""

    name, embedding_dim = "m", 8

    def __init__(self):
        self.calls = 0

    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        self.calls += 1
        return self.change(np.abs(iq).reshape(len(iq), 8, -1).mean(axis=2).astype(np.float32), iq)

    def change(self, rows, iq):
        del iq
        return rows


def model(change, **attributes):
    return type("Faulty", (Sound,), {"change": change} | attributes)


def findings(build, tasks=(TaskID.E_LOC_AOA, TaskID.E_ID_AMC), samples=None, recipe=None, **keys):
    config = ModelConfig(**{"name": "m", "factory": "a:b", "pretraining": "unknown"} | keys)
    samples = samples or {task: sample() for task in tasks}
    told = []
    provenance = Provenance.of(config.name, config, config.pretraining)
    subject = Subject(config, SPECS, samples, lambda: (build(), provenance), private=Path("results"), recipe=recipe)
    found = examine(subject, told.append)
    assert told == found
    assert {finding.name for finding in found} == ALL
    assert not any("\n" in str(finding) for finding in found)
    return {finding.name: finding for finding in found}


def faults(*arguments, **keys):
    return {name for name, finding in findings(*arguments, **keys).items() if finding.state == "FAULT"}


def test_a_sound_model_passes_and_information_asks_nothing():
    found = findings(Sound)
    assert {name for name, finding in found.items() if finding.state == "info"} == INFORM
    assert {finding.state for name, finding in found.items() if name not in INFORM} == {"ok"}
    assert "8 of 8 features vary" in found["depends on the scene"].text
    assert "20 dB more change nothing" in found["gain"].text
    assert "scenes/s" in found["speed"].text
    assert found["width and head"].text == "E-LOC-AOA 18 of 4,098 parameters; E-ID-AMC 99 of 22,539 parameters"
    assert found["shape and dtype"].text == "float32 [16, 8]"


def test_the_gain_is_told_of_a_model_that_reads_it():
    assert "move it by" in findings(Sound, normalise="none")["gain"].text


def test_what_is_alike_on_all_tasks_is_said_once():
    found = findings(model(lambda self, rows, iq: rows[:, :7]))["shape and dtype"]
    assert found.text == "model m: embed: expected float32 (16, 8), found float32 (16, 7)"


def dead(self, rows, iq):
    return np.where(np.arange(8) < 3, np.float32(2), rows)


def exploding(self, rows, iq):
    return rows * np.where(np.arange(8) == 5, np.float32(1e7), np.float32(1))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (dead, "3 of 8 features are dead"),
        (exploding, "feature 5 is up to 1e+07 times the median feature (overflow, or an unexpected level?)"),
    ],
)
def test_features_that_are_dead_or_explode_are_warned_of(change, told):
    found = findings(model(change))
    assert (found["features"].state, found["features"].text) == ("warn", told)
    assert not [name for name, finding in found.items() if finding.state == "FAULT"]
    assert findings(Sound)["features"].state == "info"


AMC = {"tasks": {"E-ID-AMC": {"samples_per_symbol": [4.0, 16.0]}}}


@pytest.mark.parametrize(
    ("keys", "expects", "state", "told"),
    [
        ({}, {"rms": 1.0}, "info", "level 1 rms, +0 dB from the declared 1 (see normalise and gain_db)"),
        ({}, {"rms": 0.088}, "warn", "level 1 rms, +21 dB from the declared 0.088 (see normalise and gain_db)"),
        ({"gain_db": -21.1}, {"rms": 0.088}, "info", "level 0.0881 rms, +0 dB from the declared 0.088"),
        ({"layout": "stacked"}, {"rms": 1.0}, "info", "level 1 rms, +0 dB"),
        ({}, {"samples_per_symbol": 8.0}, "info", "4 to 16 samples per symbol, declared 8 (see sample_rate_hz)"),
        ({}, {"samples_per_symbol": 100.0}, "warn", "4 to 16 samples per symbol, declared 100 (see sample_rate_hz)"),
        ({"sample_rate_hz": 1e8}, {"samples_per_symbol": 100.0}, "info", "20 to 80 samples per symbol, declared 100"),
        ({"sample_rate_hz": 5e6}, {"samples_per_symbol": 16.0}, "warn", "1 to 4 samples per symbol, declared 16"),
    ],
)
def test_level_and_samples_per_symbol_are_compared_with_what_is_declared(keys, expects, state, told):
    found = findings(Sound, tasks=(TaskID.E_ID_AMC,), recipe=AMC, expects=expects, **keys)["expected input"]
    assert found.state == state
    assert told in found.text


def test_where_nothing_is_declared_nothing_is_compared():
    assert findings(Sound)["expected input"].text == "nothing declared (see expects)"
    found = findings(Sound, tasks=(TaskID.E_LOC_AOA,), recipe=AMC, expects={"samples_per_symbol": 8.0})
    assert found["expected input"].text == "nothing to compare"


class Normalised:
    """A torch network with a BatchNorm and a Dropout, as a factory that forgot ``eval`` returns it, or as it should."""

    name, embedding_dim = "m", 8

    def __init__(self, train, dropout=0.0):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            layers = [nn.Conv1d(4, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout)]
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten()).train(train)

    @torch.no_grad()
    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        return self.net(torch.from_numpy(as_channels(iq))).numpy()


def test_a_torch_module_left_in_train_mode_is_caught():
    assert faults(lambda: Normalised(train=False)) == set()
    # Its running statistics move with every call, too.
    assert faults(lambda: Normalised(train=True)) >= {"each scene alone"}
    assert "deterministic" in faults(lambda: Normalised(train=True, dropout=0.5))


@pytest.mark.parametrize("training", [0, 1])
def test_an_onnx_batch_normalisation_in_training_mode_is_caught(training):
    weights = {"k": np.random.default_rng(1).standard_normal((8, 4, 5)), "one": np.ones(8), "zero": np.zeros(8)}
    outputs = ["n", "mean", "var"][: 3 if training else 1]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "k"], ["c"]),
            helper.make_node(
                "BatchNormalization", ["c", "one", "zero", "zero", "one"], outputs, training_mode=training
            ),
            helper.make_node("Relu", ["n"], ["r"]),
            helper.make_node("ReduceMean", ["r"], ["y"], axes=[2], keepdims=0),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["B", 4, "T"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B", 8])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    found = findings(lambda: OnnxBackbone("m", data, "m.onnx"), layout="channels")
    assert {name for name, finding in found.items() if finding.state == "FAULT"} == ({"loads"} if training else set())
    assert ("in training mode" in found["loads"].text) == bool(training)


def noisy(self, rows, iq):
    return rows + np.float32(self.calls)


def batched(self, rows, iq):
    return rows - rows.mean(axis=0) * np.float32(0.01)


def by_place(self, rows, iq):
    return rows * (1 + np.arange(len(rows), dtype=np.float32)[:, None])


def of_neighbours(self, rows, iq):
    return rows + (np.roll(rows, 1, axis=0) if len(rows) > 1 else rows[::-1] * 0) * np.float32(1e-3)


@pytest.mark.parametrize(
    ("change", "attributes", "expected"),
    [
        (lambda self, rows, iq: rows.astype(np.float64), {}, {"shape and dtype"}),
        (lambda self, rows, iq: rows[:, :7], {}, {"shape and dtype"}),
        (lambda self, rows, iq: rows[:1], {}, {"shape and dtype"}),
        (lambda self, rows, iq: rows.tolist(), {}, {"shape and dtype"}),
        (lambda self, rows, iq: {}["key"], {}, {"shape and dtype"}),
        (lambda self, rows, iq: rows * np.float32(np.inf), {}, {"finite"}),
        (lambda self, rows, iq: np.zeros_like(rows), {}, {"depends on the scene"}),
        (lambda self, rows, iq: np.full_like(rows, 3) + rows * np.float32(1e-5), {}, {"depends on the scene"}),
        (noisy, {}, {"deterministic", "each scene alone"}),
        (batched, {}, {"each scene alone"}),
        (by_place, {}, {"each scene alone"}),
        (of_neighbours, {}, {"each scene alone"}),
    ],
)
def test_a_fault_is_seen_by_its_own_check(change, attributes, expected):
    assert faults(model(change, **attributes)) == expected


@pytest.mark.parametrize(
    ("divisor", "told"),
    [
        (lambda rows: rows.mean(axis=1), "silence"),
        (lambda rows: np.ptp(rows, axis=1) + (rows.max(axis=1) == 0), "a constant"),
        (lambda rows: rows[:, 1:4].mean(axis=1) + (rows.max(axis=1) == 0), "an impulse"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_a_capture_can_hold_is_tried(divisor, told):
    found = findings(model(lambda self, rows, iq: (rows.T / divisor(rows)).T.astype(np.float32)))
    assert {name for name, finding in found.items() if finding.state == "FAULT"} == {"finite"}
    assert f"NaN or infinity of {told}, expected" in found["finite"].text


def test_a_second_call_is_compared():
    found = findings(model(noisy), tasks=(TaskID.E_ID_AMC,))["deterministic"]
    assert "a second call differs by" in found.text


def louder_first(self, rows, iq):
    power = (np.abs(iq) ** 2).sum(axis=(1, 2))
    return rows * np.float32(1.1 if power[0] > power[-1] else 1)


def louder_any(self, rows, iq):
    return rows / np.float32(max(1, np.abs(iq).max() / 20))


@pytest.mark.parametrize(("change", "told"), [(louder_first, "in reverse"), (louder_any, "among other scenes")])
def test_every_kind_of_company_is_tried(change, told):
    given = sample()
    given.iq[-1] *= 3
    found = findings(model(change), samples={TaskID.E_ID_AMC: given}, normalise="none")["each scene alone"]
    assert found.state == "FAULT"
    assert found.text.startswith(f"E-ID-AMC {told}, a row moves by")


def test_small_differences_of_a_batch_are_let_pass():
    def change(self, rows, iq):
        return rows * (1 + np.float32(4e-7) * len(rows))

    found = findings(model(change))["each scene alone"]
    assert (found.state, found.text[:9]) == ("ok", "within 1e")


def test_a_model_that_is_other_each_time_it_is_loaded_is_not_deterministic():
    def build():
        build.count += 1
        shift = np.float32(build.count)
        return model(lambda self, rows, iq: rows + shift)()

    build.count = 0
    found = findings(build)["deterministic"]
    assert found.state == "FAULT"
    assert "model loaded anew differs" in found.text


def test_width_and_head_are_those_that_are_pinned():
    def wide(self, rows, iq):
        return np.tile(rows, (1, 300))

    found = findings(model(wide, embedding_dim=2400))["width and head"]
    assert (found.state, "2400 is wider than the pinned 2048" in found.text) == ("FAULT", True)
    spec = SPECS[TaskID.E_ID_AMC]
    tight = spec.model_copy(update={"readout": spec.readout.model_copy(update={"max_parameters": 98})})
    subject = Subject(
        ModelConfig(name="m", factory="a:b", pretraining="unknown"),
        {TaskID.E_ID_AMC: tight},
        {TaskID.E_ID_AMC: sample()},
        lambda: (Sound(), {"weights_sha256": None}),
    )
    states = {finding.name: finding for finding in examine(subject)}
    assert "99 parameters for width 8, over the pinned 98" in states["width and head"].text


def test_one_task_of_two_can_fail():
    samples = {TaskID.E_LOC_AOA: sample(antennas=1), TaskID.E_ID_AMC: sample(antennas=2)}
    found = findings(Sound, samples=samples, antennas=2)
    told = "E-LOC-AOA model m: antennas: expected 2 or more, found 1 (see missing_antennas)"
    assert found["shape and dtype"].text == told
    assert (found["deterministic"].state, "E-LOC-AOA has no embeddings" in found["deterministic"].text) == ("ok", True)


@pytest.mark.parametrize("width", [-1, 2.0, True, None])
def test_what_is_not_loaded_is_not_looked_at(width):
    found = findings(model(Sound.change, embedding_dim=width))
    assert found["loads"].state == "FAULT"
    assert {finding.state for name, finding in found.items() if name not in {"loads", "pretraining", "antennas"}} == {
        "skip"
    }

    def broken():
        raise InputError("model m: factory: refused")

    assert findings(broken)["loads"].text == "model m: factory: refused"


def reads_table(self, rows, iq):
    with Path("labels.parquet").open("rb"):
        return rows


def reads_results(self, rows, iq):
    Path("results/scenes/E-ID-AMC/DEV.index.csv").read_bytes()
    return rows


def phones(self, rows, iq):
    with socket.socket() as client:
        client.settimeout(0.1)
        client.connect_ex(("127.0.0.1", 9))
    return rows


def runs_a_program(self, rows, iq):
    subprocess.run([sys.executable, "-c", ""], check=True)
    return rows


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (reads_table, "the file labels.parquet"),
        (reads_results, "the file results/scenes/"),
        (phones, "the network ('127.0.0.1', 9)"),
        (runs_a_program, "a process (subprocess.Popen)"),
    ],
)
def test_reaching_beyond_the_samples_is_seen(change, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/scenes/E-ID-AMC").mkdir(parents=True)
    (tmp_path / "results/scenes/E-ID-AMC/DEV.index.csv").touch()
    pq.write_table(pa.table({"a": [1]}), "labels.parquet")
    found = findings(model(change), tasks=(TaskID.E_ID_AMC,))["label-free"]
    assert found.state == "FAULT"
    assert told in found.text


def test_nobody_listens_outside_a_call(tmp_path):
    reached, path = [], tmp_path / "a.parquet"
    path.touch()
    with watched(reached, None), contextlib.suppress(ZeroDivisionError):
        path.read_bytes()
        _ = 1 / 0
    assert reached == [f"the file {path}"]
    path.read_bytes()
    assert len(reached) == 1


def test_declared_pretraining_names_what_it_met():
    assert "unknown: the board says so" in findings(Sound)["pretraining"].text
    met = findings(Sound, pretraining={"environments": ("E_URBAN",), "frequency_bands": ("2.4GHz",)})["pretraining"]
    assert met.text == "met E-LOC-AOA E_URBAN"
    elsewhere = findings(Sound, pretraining={"environments": ("E_PRETRAIN_CDL",)})["pretraining"].text
    assert elsewhere == "declared, no held-out value among it: the board says so"
    assert findings(Sound, pretraining={})["pretraining"].text == "declared as having seen nothing"
    public = findings(Sound, pretraining={"sets": ("radioml_2016_10a",)}, recipe={"snr_regimes_db": {"low": [-10, 0]}})
    assert public["pretraining"].text == "met E-ID-AMC low"


def test_scenes_are_spread_over_a_file(tmp_path):
    def chunk(start, count):
        columns = {name: [None] * count for name in METADATA_SCHEMA.names}
        given = {"task": "E-LOC-AOA", "split": "DEV", "frequency_band": "b", "snr_regime": "r"}
        given |= {"snr_db": 1.0, "sample_rate_hz": 2e7}
        columns |= {name: [value] * count for name, value in given.items()}
        numbers = np.arange(start, start + count)
        columns["center_frequency_hz"] = numbers.astype(float).tolist()
        iq = numbers[:, None, None].astype(np.complex64) * np.ones((1, 1, 4), np.complex64)
        return SceneChunk(iq, columns, {})

    path = tmp_path / "DEV.parquet"
    write_scenes(path, tmp_path / "DEV.index.parquet", iter([chunk(0, 40), chunk(40, 40), chunk(80, 21)]))
    found = spread_sample(path, 5)
    np.testing.assert_array_equal(found.iq[:, 0, 0].real, [0, 25, 50, 75, 100])
    assert found.index["center_frequency_hz"].to_pylist() == [0, 25, 50, 75, 100]
    assert len(spread_sample(path, 500).iq) == 101


def check(*arguments, root):
    command = [sys.executable, ROOT / "scripts/check_backbone.py", *arguments, "--root", root]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=60, check=False)


def test_the_program_says_a_line_a_check_and_its_status(tmp_path):
    (tmp_path / "config/models").mkdir(parents=True)
    config = {"name": "m", "factory": "mine:build", "tasks": ["E-LOC-AOA", "E-ID-FP"], "pretraining": "unknown"}
    path = tmp_path / "config/models/m.yaml"
    path.write_text(yaml.safe_dump(config))
    source = (
        "import numpy as np\n\nclass M:\n    name, embedding_dim = 'm', 2\n\n    def embed(self, iq, rate, carrier):\n"
        "        return np.stack([abs(iq[:, 0, :9].mean(axis=1)), iq[:, 0, 0].real], axis=1)[:, :WIDTH]\n\n"
        "def build(weights):\n    return M()\n"
    )
    (tmp_path / "mine.py").write_text("WIDTH = 2\n" + source)
    done = check("m", root=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line[6:].partition(":")[0] for line in lines[2:-1]] == [kind.name for kind in CHECKS]
    assert lines[-1] == "m: ready"
    (tmp_path / "mine.py").write_text("WIDTH = 1\n" + source)
    done = check(path, root=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"m: 1 of {len(CHECKS)} checks failed"
    path.write_text(yaml.safe_dump(config | {"pooling": "sum"}))
    done = check("m", root=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "m.yaml: pooling" in done.stderr
    done = check("ssl_conv", "--results", ROOT / "results/none", root=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("results/none/release/manifest.json: no such file\n")
    config["pretrain"] = {"function": "mine:train"}
    path.write_text(yaml.safe_dump(config))
    done = check("m", root=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "m.safetensors: no such file; in the project's folder, make it by: emma run --release " in done.stderr


@pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
def test_the_program_keeps_results_from_a_model_whatever_they_are_named(tmp_path):
    (tmp_path / "config/models").mkdir(parents=True)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/labels.txt").write_text("5")
    (tmp_path / "mine.py").write_text(
        f"def build(weights):\n    return open({str(tmp_path)!r} + '/results/labels.txt')\n"
    )
    config = {"name": "m", "factory": "mine:build", "tasks": ["E-LOC-AOA"], "pretraining": {}}
    (tmp_path / "config/models/m.yaml").write_text(yaml.safe_dump(config))
    done = check("m", root=tmp_path)
    assert done.returncode == 1
    assert "\nFAULT loads: PermissionError: [Errno 13]" in done.stdout


def test_the_program_looks_with_the_tasks_of_a_release(tmp_path):
    (tmp_path / "config/models").mkdir(parents=True)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\nclass M:\n    name, embedding_dim = 'm', 2\n\n    def embed(self, iq, rate, carrier):\n"
        "        return abs(iq[:, 0, :2])\n\ndef build(weights):\n    return M()\n"
    )
    config = {"name": "m", "factory": "mine:build", "view": "csi", "tasks": ["E-LOC-LOS"], "pretraining": {}}
    (tmp_path / "config/models/m.yaml").write_text(yaml.safe_dump(config))
    done = check("m", root=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "release v0.1 carry no reference symbol" in done.stderr
    assert done.stderr.endswith("(see --release)\n")
    done = check("m", "--release", "v1.0", root=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("m: ready\n")
    done = check("m", "--release", "v1.0", "--results", tmp_path, root=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"antennas": 1}, "one antenna at a time cannot see a bearing: expect the floor on E-LOC-AOA"),
        ({"per_antenna": "mean"}, "one antenna at a time cannot see a bearing: expect the floor on E-LOC-AOA"),
        ({"per_antenna": "concat"}, "as declared, together or side by side"),
        ({}, "as declared, together or side by side"),
    ],
)
def test_what_lies_between_antennas_and_is_not_seen_is_told(rules, text):
    found = findings(Sound, **rules)["antennas"]
    assert (found.state, found.text) == ("info", text)


def test_the_head_is_held_against_the_width_of_all_antennas_and_windows():
    rules = {"per_antenna": "concat", "window": 32, "window_pooling": "mean_std"}
    found = findings(Sound, **rules)
    assert {finding.state for finding in found.values()} == {"ok", "info"}
    # Eight features, two antennas, mean and deviation.
    assert found["shape and dtype"].text == "float32 [16, 32]"
    assert found["width and head"].text.startswith("E-LOC-AOA 66 of 4,098 parameters")
    wide = findings(Sound, samples={TaskID.E_LOC_AOA: sample(antennas=257)}, per_antenna="concat")["width and head"]
    assert wide.state == "FAULT"
    assert "embedding_dim: 2056 is wider than the pinned 2048" in wide.text


@pytest.mark.parametrize("task", [TaskID.E_LOC_AOA, TaskID.E_ID_AMC])
def test_made_up_scenes_hold_a_reference_where_the_release_has_one(monkeypatch, task):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from generator import example_scenes

    path = ROOT / "config/releases/tiny.yaml"
    made = {task: Sample(*example_scenes(load_release_config(path), path, task))}
    states = {name: finding.state for name, finding in findings(Sound, samples=made, view="csi").items()}
    assert states["shape and dtype"] == ("ok" if task is TaskID.E_LOC_AOA else "FAULT")
