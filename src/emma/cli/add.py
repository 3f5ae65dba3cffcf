"""Add a model: read its file, write its config, look at it.

An ONNX file is read: layout, antennas, samples, and the layer before a classifier's last. The file goes to
weights/NAME.SUFFIX, its config to config/models/NAME.yaml. A published network comes by its recipe.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from common.doors import read_bytes
from common.errors import InputError, unknown
from common.files import parse, write_files
from common.hashing import sha256
from emma.backbones.config import CONTROL_SUFFIX, ModelConfig
from emma.backbones.inputs import AXES
from emma.backbones.published.convert import convert, recipe_of
from emma.backbones.published.recipes import RECIPES
from emma.cli.reading import Key, read_onnx
from emma.data.release import release_names

#: What to do with files that are not taken.
_REFUSED = (
    "expected .onnx, or .safetensors with --factory; pickles, which .pt, .pth and .pt2 hold, run code as they are read"
)
_ADVICE = {
    ".pt2": "write it as ONNX where you trust it: torch.onnx.export(torch.export.load(FILE), f='NAME.onnx', "
    "external_data=False)",
    ".pt": "write its weights: safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'NAME.safetensors')",
}
_ADVICE[".pth"] = _ADVICE[".pt"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sub-command."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the network: .onnx, or .safetensors with --factory")
    parser.add_argument(
        "--published",
        metavar="NAME",
        help=f"FILE is a published network, to be converted by its recipe: {', '.join(sorted(RECIPES))}",
    )
    parser.add_argument("--name", help="the model's name (default: the file's)")
    parser.add_argument("--factory", help="package.module:function that builds the network from safetensors weights")
    parser.add_argument("--output", metavar="TENSOR", help="tensor of the ONNX graph that is the embedding")
    layouts = ", ".join(["complex", *AXES])
    parser.add_argument("--layout", help=f"how I and Q fill the input, where its axes do not say: {layouts}")
    parser.add_argument("--antennas", type=int, metavar="K", help="antennas of the network, where the file is open")
    parser.add_argument("--samples", type=int, metavar="N", help="samples of the network, where the file is open")
    parser.add_argument("--pooling", help="for an output [B, tokens, D]: mean, first or max")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another key of the config, its value in YAML, such as --set per_antenna=concat; may be given again",
    )
    parser.add_argument("--release", help="release whose tasks the model is looked at with, by its name")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument("--force", action="store_true", help="overwrite the model's config and file")


def run(arguments: argparse.Namespace) -> int:
    """Write the model's files, look at it by scripts/check_backbone.py, and return that program's status."""
    root: Path = arguments.root
    if not (root / "config/config.yaml").is_file():
        raise InputError(f"{root}: expected the project's folder, with config/config.yaml; name it by --root")
    releases = release_names(root / "config/releases")
    if arguments.release is not None and arguments.release not in releases:
        raise InputError(f"--release: {unknown(arguments.release, releases)}")
    file: Path = arguments.file
    if arguments.published is not None:
        _convert(arguments)
        return _finish(root, arguments.published, arguments.release)
    data = read_bytes(file)
    name = arguments.name or re.sub(r"[^A-Za-z0-9._-]+", "_", file.stem).lstrip("._-")
    if file.suffix == ".onnx":
        keys = read_onnx(data, file, arguments, _say)
    elif file.suffix == ".safetensors":
        keys = _read_safetensors(file, arguments)
    else:
        recipe = recipe_of(data)
        advice = f"this is a published network: --published {recipe.name}" if recipe else _ADVICE.get(file.suffix)
        raise InputError(f"{file}: {_REFUSED}{'; ' + advice if advice else ''}")
    if name.endswith(CONTROL_SUFFIX):
        raise InputError(f"--name: {name}: {CONTROL_SUFFIX} ends the names of controls, expected another")
    place = _place(file, root, name)
    source = "onnx" if file.suffix == ".onnx" else "weights"
    keys = [
        Key("name", name),
        *[key for key in keys if key.name == "factory"],
        Key(source, str(place)),
        Key("weights_sha256", sha256(data)),
        *[key for key in keys if key.name != "factory"],
        Key("pretraining", "unknown", "or what it saw, {} for nothing: environments, devices, frequency_bands, ..."),
    ]
    asked = _asked(arguments.set)
    keys = [*(key for key in keys if key.name not in asked), *(Key(*item) for item in asked.items())]
    path = root / f"config/models/{name}.yaml"
    # Refused here, before anything is written.
    parse(ModelConfig, {key.name: key.value for key in keys}, path)
    files = {path: _text(file, keys).encode()}
    if not _is_same(root / place, data):
        files[root / place] = data
    if not arguments.force and (there := [str(path) for path in files if path.exists()]):
        raise InputError(f"{', '.join(there)}: already there; expected another --name, or --force to overwrite")
    write_files(files)
    for written in files:
        _say(f"{written}: written")
    return _finish(root, name, arguments.release)


def _asked(settings: list[str]) -> dict[str, Any]:
    """Keys and values of --set."""
    pairs = {}
    for setting in settings:
        key, is_there, value = setting.partition("=")
        try:
            pairs[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            is_there = ""
        if not is_there:
            raise InputError(f"--set: {setting}: expected KEY=VALUE, the value in YAML")
    return pairs


def _convert(arguments: argparse.Namespace) -> None:
    """Write the files of a published network."""
    for key in ("name", "factory", "output", "layout", "antennas", "samples", "pooling", "set"):
        if getattr(arguments, key):
            raise InputError(f"--{key}: the recipe {arguments.published} has its own, expected none with --published")
    for written in convert(arguments.published, arguments.file, arguments.root, _say, force=arguments.force):
        _say(f"{written}: written")


def _finish(root: Path, name: str, release: str | None) -> int:
    """Look at the model that was written, and say how to run it, or how to look again."""
    status = _look(root, name, release)
    named = "" if release is None else f" --release {release}"
    if status:
        _say(
            f"It cannot run as it is. Change config/models/{name}.yaml and look again, by emma check {name}{named}; "
            "or add it again with --force"
        )
        return status
    _say(f"To run it, add this line under `models:` in config/config.yaml:\n  - {name}")
    _say(f"or run it alone: emma run{named} --models prior,{name}")
    return status


def _read_safetensors(file: Path, arguments: argparse.Namespace) -> list[Key]:
    """Keys of a network that a factory builds."""
    if arguments.factory is None:
        raise InputError(f"{file}: weights alone are no network; expected --factory package.module:function too")
    if arguments.output is not None:
        raise InputError("--output: names a tensor of an ONNX graph, expected with an .onnx file")
    asked = {key: getattr(arguments, key) for key in ("factory", "layout", "antennas", "samples", "pooling")}
    fit = [Key("fit", "tile", "shorter scenes are repeated; or pad, with zeros")] if arguments.samples else []
    return [*(Key(key, value) for key, value in asked.items() if value is not None), *fit]


def _place(file: Path, root: Path, name: str) -> Path:
    """Where the file is to lie, relative to the project: where it is already, or weights/."""
    real = file.resolve()
    return (
        real.relative_to(root.resolve())
        if real.is_relative_to(root.resolve())
        else Path(f"weights/{name}{file.suffix}")
    )


def _is_same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _text(file: Path, keys: list[Key]) -> str:
    lines = [f"# Written by `emma add {file.name}`. Every key: config/README.md."]
    lines += map(str, keys)
    lines.append("# licence: Apache-2.0 # of the weights, an SPDX expression")
    text = "\n".join(lines) + "\n"
    # A name from a file cannot change what the config says.
    assert yaml.safe_load(text) == {key.name: key.value for key in keys}
    return text


def _look(root: Path, name: str, release: str | None) -> int:
    """The status of scripts/check_backbone.py on the model."""
    program = root / "scripts/check_backbone.py"
    if not program.is_file():
        _say(f"{program}: no such program here, so that the model is not looked at")
        return 0
    sys.stdout.flush()
    asked = [] if release is None else ["--release", release]
    return subprocess.run([sys.executable, program, name, "--root", root, *asked], check=False).returncode


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
