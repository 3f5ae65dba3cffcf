"""Every door at which a name is given says which one was meant: commands, options, keys, tasks, models, releases."""

import contextlib
import re
import shutil
import sys
from pathlib import Path

import onnx
import pytest
import yaml

from common.errors import InputError
from common.files import read_yaml
from emma.cli.main import main
from emma.data.protocols import protocol_named
from emma.data.release import check_declared
from floor_events.config import plan as floor_plan
from workflow_support.captures import check_captures
from workflow_support.plan import Plan

ROOT = Path(__file__).parents[3]
CONFIG = {"release": "tiny", "seed": 0, "eval_split": "DEV", "models": ["dsp"], "real_captures": "none"}
CAPTURE = {"name": "mixed_drone", "adapter": "sigmf", "path": "set", "task": "E-ID-DRONE"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A project without results, and with a network; tests put back what they change."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("config", "scripts"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "set").mkdir()
    value = onnx.helper.make_tensor_value_info
    shapes = value("x", onnx.TensorProto.FLOAT, ["B", 2, 64]), value("y", onnx.TensorProto.FLOAT, ["B", 2])
    nodes = [onnx.helper.make_node("ReduceMean", ["x"], ["y"], axes=[2], keepdims=0)]
    graph = onnx.helper.make_graph(nodes, "g", [shapes[0]], [shapes[1]])
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "net.onnx")
    return folder


@contextlib.contextmanager
def written(path, text):
    """A file with another content for the time being."""
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


def refused(act):
    with pytest.raises(InputError) as caught:
        act()
    line = str(caught.value)
    assert "\n" not in line
    return line


# The command line: words behind `emma`, with the project's folder for ROOT.
LINES = [
    ("verfy", "verfy is unknown, did you mean verify?"),
    ("captures chek", "did you mean captures check?"),
    ("run --relase tiny", "did you mean --release?"),
    ("run --relase=tiny", "did you mean --release?"),
    ("run --eval-split dev", "dev is unknown, did you mean DEV?"),
    ("run --captures surogate --root ROOT", "did you mean surrogate?"),
    ("run leaderbord --root ROOT", "did you mean leaderboard?"),
    *(
        (f"{command} --release tinny --root ROOT", "--release: tinny is unknown, did you mean tiny?")
        for command in ("run", "show", "clean", "archive", "add ROOT/net.onnx")
    ),
    ("check ssl_con --root ROOT", "did you mean ssl_conv?"),
    ("check dsp --release tinny", "did you mean tiny?"),
    ("add ROOT/net.onnx --root ROOT --layout chanels", "did you mean channels?"),
    ("add ROOT/net.onnx --root ROOT --published radioml_vg10", "did you mean radioml_vgg10?"),
    ("add ROOT/net.onnx --root ROOT --set bach_size=3", "bach_size: unknown key, did you mean batch_size?"),
    ("explain ROOT/config/confg.yaml --root ROOT", "did you mean ROOT/config/config.yaml?"),
    ("captures check ROOT/set --adapter sigmff", "sigmff is unknown, did you mean sigmf?"),
    ("submit check ROOT/set --eval-split DEVV", "DEVV is unknown, did you mean DEV?"),
]


@pytest.mark.parametrize(("line", "told"), LINES, ids=[line for line, _ in LINES])
def test_the_command_line(line, told, root, monkeypatch):
    monkeypatch.setattr("sys.argv", ["emma", *line.replace("ROOT", str(root)).split()])
    monkeypatch.setattr("sys.path", [*sys.path])
    assert refused(main).endswith(told.replace("ROOT", str(root)))


# The configuration: file, what stands there, what is written for it, and what is told.
BASE, MODEL = "config/releases/base.yaml", "config/models/ssl_conv.yaml"
FILES = [
    (MODEL, "name: ssl_conv", "name: ssl_conv\nbach_size: 1", "bach_size: unknown key, did you mean batch_size?"),
    (MODEL, "name: ssl_conv", "name: ssl_conv\nview: spectogram", "did you mean spectrogram?"),
    (MODEL, "name: ssl_conv", "name: ssl_conv\ntasks: [E-LOC-AAO]", "did you mean E-LOC-AOA?"),
    (MODEL, "emma.backbones.conv:ssl_conv", "emma.backbones.conv:sll_conv", "did you mean ssl_conv?"),
    (MODEL, "snr_regimes: [clean]", "snr_regimes: [claen]", "claen is unknown, did you mean clean?"),
    ("config/releases/tiny.yaml", "extends: base", "extends: bass", "did you mean base?"),
    (BASE, "    metric: AUC\n", "    metric: AUC\n    clases: 1\n", "clases: unknown key, did you mean classes?"),
    (BASE, "    metric: AUC\n", "    metric: AUCC\n", "; did you mean AUC?"),
    (BASE, "held_out: [E_URBAN, E_RURAL]", "held_out: [E_URBAN, E_RUARL]", "did you mean E_RURAL?"),
    (BASE, "E-ID-DRONE: [low, mid, high]", "E-ID-DRONE: [low, mid, hihg]", "did you mean high?"),
    (BASE, "  link_chunk:", "  link_chunks: 1\n  link_chunk:", "link_chunks: unknown key, did you mean link_chunk?"),
    (BASE, "scenario: UMa", "scenario: uma", "did you mean UMa?"),
]


def plan(root, **changed):
    """Everything that the workflow checks before it plans a job."""
    made = Plan(CONFIG | changed, root)
    recipe = made.recipe
    check_declared(made.release, {task: recipe.values_of(task) for task in recipe.tasks}, made.release_path)
    check_captures([declared for _, declared in made.captures.values()], recipe, made.release.release)
    return made


@pytest.mark.parametrize(("name", "old", "new", "told"), FILES, ids=[f"{case[0]} {case[2]!r}" for case in FILES])
def test_the_configuration_files(name, old, new, told, root):
    text = (root / name).read_text()
    assert old in text
    with written(root / name, text.replace(old, new, 1)):
        assert told in refused(lambda: plan(root, models=["ssl_conv"]))


SETTINGS = [
    ({"sede": 1}, "sede: unknown key, did you mean seed?"),
    ({"release": "tinny"}, "did you mean tiny?"),
    ({"models": ["ssl_con"]}, "did you mean ssl_conv?"),
    ({"eval_split": "dev"}, "did you mean DEV?"),
    ({"real_captures": "surogate"}, "did you mean surrogate?"),
    *(
        ({"real_captures": [CAPTURE | changed]}, f"did you mean {meant}?")
        for changed, meant in (
            ({"nmae": "x"}, "name"),
            ({"name": "mixd_drone"}, "mixed_drone"),
            ({"adapter": "sigfm"}, "sigmf"),
            ({"task": "E-ID-DORNE"}, "E-ID-DRONE"),
            ({"mapping": {"classes": {"a": "absnt"}}}, "absent"),
        )
    ),
]


@pytest.mark.parametrize(("changed", "told"), SETTINGS, ids=[str(changed) for changed, _ in SETTINGS])
def test_the_settings_of_a_run(changed, told, root):
    assert told in refused(lambda: plan(root, **changed))


def test_a_task_that_the_recipe_does_not_know(root):
    path = root / "config/releases/tiny.yaml"
    content = read_yaml(path)
    content.setdefault("rfgen", {}).setdefault("tasks", {})["E-LOC-AAO"] = {}
    with written(path, yaml.safe_dump(content)):
        assert "E-LOC-AAO is unknown, did you mean E-LOC-AOA?" in refused(lambda: plan(root))


def test_the_library_and_the_floor_events(root):
    spec = plan(root).spec("E-LOC-AOA")
    told = refused(lambda: protocol_named("leave-one-enviroment-out", spec))
    assert told.endswith("did you mean leave-one-environment-out?")
    told = refused(lambda: floor_plan({"enabled": True, "sessoins": []}, "results"))
    assert re.search(r"sessoins: unknown key, did you mean \w*sessions?\w*\?", told)
