"""A published file becomes weights and a config of this project: the right file, each tensor placed, the same bytes."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.doors import read_bytes
from common.errors import InputError, advice
from common.files import read_text, write_files
from common.hashing import sha256
from emma.backbones.config import load_model_config
from emma.backbones.published.recipes import RECIPES, Recipe

Weights = dict[str, NDArray[Any]]


def convert(
    name: str, path: Path, root: Path, tell: Callable[[str], None] = lambda line: None, *, force: bool = False
) -> list[Path]:
    """Make a published network a model of the project.

    Args:
        name: of its recipe.
        path: the published file, as it was fetched.
        root: the project's folder; ``config/models/published/NAME.yaml`` in it is the recipe.
        tell: gets a line for each thing that a reader should know.
        force: replace a config of that name with other content.

    Returns:
        the files that were written: weights, and ``config/models/NAME.yaml``.

    Raises:
        InputError: no such recipe, another file than the published one, or a config of that name with other content.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        raise InputError(f"published: no recipe {name}, {advice(name, sorted(RECIPES))}")
    template = root / f"config/models/published/{name}.yaml"
    config, text = load_model_config(template), read_text(template)
    pinned = config.weights or config.onnx
    if pinned is None:
        raise InputError(f"{template}: weights: expected the file that conversion writes")
    data = converted_file(recipe, path, tell)
    if sha256(data) != config.weights_sha256:
        raise InputError(
            f"{template}: weights_sha256: expected {sha256(data)}, which {path} gives, found {config.weights_sha256}"
        )
    place = root / f"config/models/{name}.yaml"
    if not force and place.is_file() and read_text(place) != text:
        raise InputError(f"{place}: differs from {template}; expected none or the same, or --force to replace it")
    files = {root / pinned: data, place: text.encode()}
    write_files(files)
    return list(files)


def recipe_of(data: bytes) -> Recipe | None:
    """The recipe of a published file by its content, if it has one."""
    digest = sha256(data)
    return next((recipe for recipe in RECIPES.values() if recipe.sha256 == digest), None)


def converted_file(recipe: Recipe, path: Path, tell: Callable[[str], None] = lambda line: None) -> bytes:
    """The file of weights that a published file gives: safetensors, or an ONNX file as it is.

    Raises:
        InputError: the file cannot be read, or is another than the published one.
    """
    data = read_bytes(path)
    if sha256(data) != recipe.sha256:
        raise InputError(
            f"{path}: expected {recipe.source}, of SHA-256 {recipe.sha256}, found {sha256(data)} (a file of "
            f"{len(data)} bytes; a pointer of Git LFS or a web page instead of the file would be a few hundred)"
        )
    if recipe.network is None:
        return data
    from safetensors.numpy import save

    network = importlib.import_module(recipe.network)
    weights, flushed = without_denormals(renamed(read_state(data), network.names(), network.DROPPED, path))
    if flushed:
        tell(f"{recipe.name}: {flushed} denormal numbers, slow on some processors, are zero in the weights")
    tell(f"{recipe.name}: left out: {'; '.join(network.DROPPED.values())}")
    return save(weights)


def read_state(data: bytes) -> Weights:
    """The tensors of a torch checkpoint by name, on the CPU; nothing but tensors and containers is ever unpickled."""
    import torch

    state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return {key: value.numpy() for key, value in state.items()}


def renamed(
    state: Mapping[str, NDArray[Any]], names: Mapping[str, str], dropped: Mapping[str, str], path: str | Path
) -> Weights:
    """The tensors under the names of our own module.

    Args:
        state: tensors by published name.
        names: published name to own name.
        dropped: regular expressions of published names that are left out on purpose, with the reason.
        path: named in errors.

    Raises:
        InputError: a tensor that is missing, or one that has neither a place nor a reason.
    """
    if missing := sorted(set(names) - set(state)):
        raise InputError(f"{path}: {missing[0]}: expected a tensor of that name (and {len(missing) - 1} more)")
    odd = [key for key in sorted(set(state) - set(names)) if not any(re.fullmatch(rule, key) for rule in dropped)]
    if odd:
        raise InputError(f"{path}: {odd[0]}: a tensor that has no place (and {len(odd) - 1} more)")
    return {own: np.array(state[key]) for key, own in names.items()}


def without_denormals(weights: Mapping[str, NDArray[Any]]) -> tuple[Weights, int]:
    """Floating weights whose denormal numbers are zero, and how many these were."""
    kept, flushed = {}, 0
    for key, values in weights.items():
        tiny = (values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)
        kept[key], flushed = np.where(tiny, np.zeros_like(values), values), flushed + int(tiny.sum())
    return kept, flushed
