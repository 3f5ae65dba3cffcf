"""Recipes of published networks: what they say, and how a published file becomes a model."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from common.errors import InputError
from common.hashing import sha256
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.backbones.published import lwm_v1, radioml_vgg10
from emma.backbones.published.convert import convert, converted_file, renamed, without_denormals
from emma.backbones.published.recipes import RECIPES
from emma.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = ROOT / "config/models/published"
NETWORKS = {"radioml_vgg10": radioml_vgg10, "lwm_v1": lwm_v1}


def raw(name):
    return yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())


def test_every_recipe_has_its_config_and_the_other_way_round():
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(RECIPES)
    assert {name for name, recipe in RECIPES.items() if recipe.network} == set(NETWORKS)


@pytest.mark.parametrize("name", RECIPES)
def test_a_config_says_what_the_recipe_says(name):
    recipe, config = RECIPES[name], raw(name)
    comments = "".join(
        line.removeprefix("#").strip() if line.endswith(("/", "at")) else line.removeprefix("#").strip() + " "
        for line in (CONFIGS / f"{name}.yaml").read_text().splitlines()
        if line.startswith("#")
    )
    for said in (recipe.repository, recipe.commit, recipe.file, recipe.sha256):
        assert said in comments, said
    assert recipe.name == name
    for key in ("name", "licence", "description", "link"):
        assert config[key] == getattr(recipe, key), key
    if recipe.network:
        assert config["factory"] == f"{recipe.network}:build"
        assert config["weights"] == f"weights/{name}.safetensors"
    else:
        assert (config["onnx"], config["weights_sha256"]) == (f"weights/{name}.onnx", recipe.sha256)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_config(name):
    assert load_model_config(CONFIGS / f"{name}.yaml").name == name


@pytest.mark.parametrize("name", NETWORKS)
def test_every_tensor_has_a_place_or_a_reason(name, made_up_state):
    state, network = made_up_state(name), NETWORKS[name]
    weights = renamed(state, network.names(), network.DROPPED, "file.pth")
    buffers = {key for key in network.Net().state_dict() if key.endswith("num_batches_tracked")}
    assert set(weights) == set(network.Net().state_dict()) - buffers
    with pytest.raises(InputError, match=r"^file\.pth: surprise: a tensor that has no place \(and 0 more\)$"):
        renamed(state | {"surprise": np.ones(1)}, network.names(), network.DROPPED, "file.pth")
    missing = sorted(network.names())[0]
    del state[missing]
    with pytest.raises(InputError, match=rf"^file\.pth: {missing}: expected a tensor of that name \(and 0 more\)$"):
        renamed(state, network.names(), network.DROPPED, "file.pth")


def test_denormal_numbers_become_zero_and_no_others():
    values = np.array([0.0, 1e-40, -1e-44, np.finfo(np.float32).tiny, -2.0], np.float32)
    kept, flushed = without_denormals({"a": values, "b": np.float32(3) * np.ones((), np.float32)})
    np.testing.assert_array_equal(kept["a"], [0, 0, 0, np.finfo(np.float32).tiny, -2])
    assert flushed == 2 and kept["a"].dtype == np.float32 and kept["b"].shape == ()


@pytest.fixture
def project(tmp_path, made_up_state, checkpoint, monkeypatch):
    """A project whose recipe of the classifier is of a made-up file; also that file."""
    state = made_up_state("radioml_vgg10")
    state["1.weight"][0, 0] = 1e-40
    file = checkpoint(state, tmp_path / "published.pth")
    recipe = replace(RECIPES["radioml_vgg10"], sha256=sha256(file.read_bytes()))
    monkeypatch.setitem(RECIPES, "radioml_vgg10", recipe)
    root = tmp_path / "project"
    place = root / "config/models/published/radioml_vgg10.yaml"
    place.parent.mkdir(parents=True)
    text = (CONFIGS / "radioml_vgg10.yaml").read_text()
    pin = sha256(converted_file(recipe, file))
    place.write_text(text.replace(raw("radioml_vgg10")["weights_sha256"], pin))
    return root, file


def test_a_published_file_becomes_a_model(project):
    root, file = project
    told = []
    written = convert("radioml_vgg10", file, root, told.append)
    assert [path.relative_to(root).as_posix() for path in written] == [
        "weights/radioml_vgg10.safetensors",
        "config/models/radioml_vgg10.yaml",
    ]
    assert "3 denormal numbers" in told[0] and "the head for 24 modulations" in told[1]
    assert not load_file(written[0])["convolutions.0.weights.weight"][0, 0].any()
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in convert("radioml_vgg10", file, root)] == before
    backbone, provenance = load_backbone(load_model_config(written[1]), root)
    assert provenance.weights_sha256 == sha256(before[0])
    iq = np.random.default_rng(0).normal(size=(3, 2, 1024)).astype(np.float32)
    values = backbone.embed(iq, 1.0, 0.0)
    assert values.shape == (3, 128) and np.isfinite(values).all() and np.ptp(values, axis=0).max() > 0


def test_another_file_is_refused_in_one_line(project):
    root, file = project
    file.write_bytes(b"<html>not found</html>")
    with pytest.raises(InputError) as caught:
        convert("radioml_vgg10", file, root)
    line = str(caught.value)
    assert line.startswith(f"{file}: expected https://github.com/Xilinx/brevitas-radioml-challenge-21, sandbox/")
    assert "\n" not in line and "a file of 22 bytes" in line
    assert not (root / "weights").exists()
    with pytest.raises(InputError, match=r"nowhere\.pth: no such file$"):
        convert("radioml_vgg10", root / "nowhere.pth", root)
    with pytest.raises(InputError, match=r"^published: no recipe vgg, expected one of kjs_res_20db, lwm_v1, radioml"):
        convert("vgg", file, root)


def test_a_pin_that_the_file_does_not_give_is_refused(project):
    root, file = project
    place = root / "config/models/published/radioml_vgg10.yaml"
    pin = load_model_config(place).weights_sha256
    place.write_text(place.read_text().replace(pin, "f" * 64))
    with pytest.raises(InputError, match=rf"weights_sha256: expected {pin}, which {file} gives, found f{{64}}$"):
        convert("radioml_vgg10", file, root)


def test_a_config_of_the_users_own_stays(project):
    root, file = project
    own = root / "config/models/radioml_vgg10.yaml"
    own.write_text("name: radioml_vgg10\n")
    with pytest.raises(InputError, match=r"differs from .*; expected none or the same, or --force to replace it$"):
        convert("radioml_vgg10", file, root)
    assert own.read_text() == "name: radioml_vgg10\n" and not (root / "weights").exists()
    convert("radioml_vgg10", file, root, force=True)
    assert load_model_config(own).weights == "weights/radioml_vgg10.safetensors"


@pytest.mark.parametrize("name", RECIPES)
def test_the_published_file_gives_the_pinned_weights(name, published_file):
    assert sha256(converted_file(RECIPES[name], published_file(name))) == raw(name)["weights_sha256"]


@pytest.mark.parametrize("name", RECIPES)
def test_the_published_file_becomes_a_model_that_answers(name, published_file, tmp_path):
    shutil.copytree(CONFIGS, tmp_path / "config/models/published")
    _, place = convert(name, published_file(name), tmp_path)
    backbone, _ = load_backbone(load_model_config(place), tmp_path)
    rng = np.random.default_rng(0)
    given = {"radioml_vgg10": (4, 2, 1024), "kjs_res_20db": (4, 2, 1, 504), "lwm_v1": (4, 8, 52)}[name]
    scenes = rng.normal(scale=0.5**0.5, size=given).astype(np.float32)
    if name == "lwm_v1":
        scenes = (scenes + 1j * rng.normal(scale=0.5**0.5, size=given)).astype(np.complex64)
    values = backbone.embed(scenes, 20e6, 3.5e9)
    assert values.dtype == np.float32 and values.shape[-1] == backbone.embedding_dim
    assert np.isfinite(values).all() and np.ptp(values, axis=0).max() > 0


def emma(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["emma", *map(str, arguments)])
    main()


def test_the_command_adds_a_published_network(project, monkeypatch, capsys):
    root, file = project
    (root / "config/config.yaml").write_text("models: [prior]\n")
    emma(monkeypatch, "add", "--published", "radioml_vgg10", file, "--root", root)
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("radioml_vgg10: 3 denormal numbers")
    assert f"{root / 'config/models/radioml_vgg10.yaml'}: written" in told
    assert told[-1].endswith("emma run --models prior,radioml_vgg10")
    assert load_model_config(root / "config/models/radioml_vgg10.yaml").name == "radioml_vgg10"


def test_the_command_says_what_a_recipe_needs(project, monkeypatch):
    root, file = project
    (root / "config/config.yaml").write_text("models: [prior]\n")
    with pytest.raises(InputError, match=r"; this is a published network: --published radioml_vgg10$"):
        emma(monkeypatch, "add", file, "--root", root)
    with pytest.raises(InputError, match=r"^--layout: the recipe radioml_vgg10 has its own, expected none with"):
        emma(monkeypatch, "add", "--published", "radioml_vgg10", "--layout", "image", file, "--root", root)
    assert not (root / "weights").exists()
