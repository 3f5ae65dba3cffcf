"""What the config of an ONNX file says, read off the file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from common.errors import InputError, advice
from common.files import parse
from emma.backbones.inputs import AXES, Contract

if TYPE_CHECKING:
    import onnx

    from emma.backbones.onnx_graph import Fit

#: Tensors that are offered besides the one that is taken.
_OFFERED = 8

#: Fewest samples of a scene that are believed, where there are more antennas.
_FEWEST = 16

#: Antennas that an open input is tried with.
_ANTENNAS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Key:
    """A key of a config, its value, and a remark behind it."""

    name: str
    value: Any
    remark: str = ""

    def __str__(self) -> str:
        """Its line of YAML."""
        value = yaml.safe_dump(self.value, width=10_000, allow_unicode=True).removesuffix("...\n").strip()
        return f"{self.name}: {value}" + (f" # {' '.join(self.remark.split())}" if self.remark else "")


def read_onnx(data: bytes, file: Path, asked: argparse.Namespace, say: Callable[[str], None]) -> list[Key]:
    """Keys that bring scenes into an ONNX file and take its embedding out.

    Args:
        data: the file's content.
        file: its name.
        asked: what the user wants: ``output``, ``layout``, ``antennas``, ``samples``, ``pooling``, or None.
        say: takes what was found, a line at a time.

    Raises:
        InputError: a file that cannot be run, or a choice that the user has to make.
    """
    from emma.backbones.onnx_file import OnnxBackbone
    from emma.backbones.onnx_graph import read_graph, with_shapes

    if asked.factory is not None:
        raise InputError(f"{file}: is a whole network; expected no --factory")
    model = with_shapes(read_graph(data, str(file)))
    keys = _output(model, file, asked, say)
    output = next((str(key.value) for key in keys if key.name == "output"), None)
    keys += _input(model, output, file, asked, say)
    values = {key.name: key.value for key in keys}
    contract = parse(Contract, {key: value for key, value in values.items() if key != "output"}, file)
    backbone = OnnxBackbone(file.stem, data, str(file), contract=contract, output=output)
    if contract.antennas == "any" and (antennas := _antennas(backbone, contract)):
        keys += _antenna_keys(antennas)
    say(f"{file}: an embedding of {backbone.embedding_dim} numbers")
    return keys


def _output(model: onnx.ModelProto, file: Path, asked: argparse.Namespace, say: Callable[[str], None]) -> list[Key]:
    """The tensor that is the embedding, and how its tokens are pooled."""
    from emma.backbones.onnx_graph import candidates, find_head, outputs, tensors

    own = outputs(model)
    others = [f"{tensor.name} ({width})" for tensor, width in candidates(model)[:_OFFERED]]
    offer = f"choose by --output: {', '.join(others)}" if others else "choose by --output"
    if asked.output is None and len(own) != 1:
        raise InputError(f"{file}: outputs {', '.join(map(str, own)) or 'none'}: {offer}")
    keys, name = [], asked.output or own[0].name
    if (head := find_head(model, name)) is not None:
        ends = f"ends in a {'softmax' if head.kind == 'softmax' else 'linear layer'} over {head.classes or '?'} classes"
        if asked.output is None:
            name = head.hidden.name
            keys.append(Key("output", name, f"the file {ends}; this is the tensor before the last layer"))
            say(f"{file}: {ends}; taken is the tensor before its last layer, {head.hidden}; {offer}")
        else:
            say(f"{file}: {name} {ends}; the tensor before the last layer is {head.hidden}")
    if asked.output is not None:
        keys.append(Key("output", asked.output))
    tensor = tensors(model).get(name)
    tokens = tensor is not None and tensor.dims is not None and len(tensor.dims) == 3 and 1 not in tensor.dims[1:]
    if asked.pooling is not None:
        keys.append(Key("pooling", asked.pooling))
    elif tokens:
        keys.append(Key("pooling", "mean", f"of {tensor}, tokens in its second axis; or first, max"))
    return keys


def _input(
    model: onnx.ModelProto, output: str | None, file: Path, asked: argparse.Namespace, say: Callable[[str], None]
) -> list[Key]:
    """Layout, antennas, samples and batch, as far as the file fixes them."""
    from emma.backbones.onnx_graph import cut, fits, guess_layout, inputs

    given = inputs(cut(model, output, str(file)) if output else model)
    dims = given[0].dims if len(given) == 1 else None
    if dims is None or len(dims) not in {3, 4}:
        # What is wrong with it is said where it is loaded.
        return [Key("layout", asked.layout)] if asked.layout else []
    if asked.layout is not None and asked.layout not in AXES:
        raise InputError(f"--layout: {asked.layout}: {advice(asked.layout, AXES)}")
    fit = guess_layout(dims) if asked.layout is None else fits(dims, asked.layout)
    if fit is None:
        layouts = ", ".join(f"{name} [B, {', '.join(axes)}]" for name, axes in AXES.items() if fits(dims, name))
        choice = f"expected one of {layouts}" if layouts else "no layout has such axes; wrap it by a factory"
        raise InputError(f"{file}: input {given[0]}: name what its axes are by --layout: {choice}")
    if fit.samples is not None and fit.samples < min(_FEWEST, fit.antennas or 1):
        raise InputError(
            f"{file}: input {given[0]}: layout {fit.layout} reads {fit.antennas} antennas of {fit.samples} samples; "
            "expected another --layout"
        )
    keys = [Key("layout", fit.layout, f"input {given[0]}" + _alike(fit))]
    if antennas := _agreed("antennas", fit.antennas, asked.antennas, file):
        keys += _antenna_keys(antennas)
    if samples := _agreed("samples", fit.samples, asked.samples, file):
        keys += [Key("samples", samples), Key("fit", "tile", "shorter scenes are repeated; or pad, with zeros")]
    if isinstance(dims[0], int):
        keys.append(Key("batch_size", dims[0], "the batch that the file fixes"))
    told = [
        f"{fit.antennas or 'any'} antennas" if fit.antennas != 1 else "1 antenna",
        f"{fit.samples or 'any'} samples",
    ]
    told += [f"{dims[0]} scenes a run"] if isinstance(dims[0], int) else []
    say(f"{file}: input {given[0]} read as {fit.layout}, {', '.join(told)}")
    return keys


def _alike(fit: Fit) -> str:
    """The other layout of the same axes, where antennas are several."""
    return "; or stacked, all I before all Q" if fit.layout == "channels" and (fit.antennas or 1) > 1 else ""


def _agreed(key: str, fixed: int | None, asked: int | None, file: Path) -> int | None:
    if fixed is not None and asked is not None and fixed != asked:
        raise InputError(f"{file}: --{key}: the file fixes {fixed}, found {asked}")
    return fixed or asked


def _antenna_keys(antennas: int) -> list[Key]:
    if antennas == 1:
        return [Key("antennas", 1, "the first one of several, which sees no bearing")]
    return [Key("antennas", antennas), Key("missing_antennas", "repeat", "what scenes of fewer lack; or zeros")]


def _antennas(backbone: object, contract: Contract) -> int | None:
    """The one number of antennas that an open input takes, as runs on silence show; None for several or none."""
    import numpy as np

    from emma.backbones.onnx_file import OnnxBackbone

    assert isinstance(backbone, OnnxBackbone)
    samples = 1024 if contract.samples == "any" else contract.samples
    taken = []
    for antennas in _ANTENNAS:
        try:
            backbone.embed(np.zeros((1, antennas, samples), np.complex64), 1.0, 1.0)
        except ValueError:
            continue
        taken.append(antennas)
    return taken[0] if len(taken) == 1 else None
