"""The input of an ONNX graph: whether scenes fit it, told from the graph alone, which nothing runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from common.errors import InputError
from emma.backbones import onnx_graph
from emma.backbones.base import Embeddings
from emma.backbones.inputs import AXES, Channels, Contract, lay_out
from emma.backbones.onnx_graph import Fit, Tensor, told


class OnnxInput:
    """The one input of a graph, and how a contract fills it.

    Args:
        model: the graph, cut at the tensor that is the answer.
        path: the file's name in errors.
        contract: how scenes reach the model.

    Raises:
        InputError: not one input of three or four axes of floating numbers.
    """

    def __init__(self, model: onnx.ModelProto, path: str, contract: Contract) -> None:
        self.tensor, self.path, self._contract = one_input(model, path), path, contract
        self._layout = contract.layout or "channels"

    def check_layout(self) -> None:
        """Refuse an input whose axes are none of the layout."""
        dims = self.tensor.dims
        if dims is None:
            return
        if self._contract.view == "spectrogram":
            if len(dims) != 4:
                expected = "expected [B, antennas, frequencies, frames] with view spectrogram"
                raise InputError(f"{self.path}: input {self.tensor}: {expected}")
            return
        guess = onnx_graph.guess_layout(dims)
        plain = self._contract.layout is None
        if onnx_graph.fits(dims, self._layout) is None or (plain and guess and guess.layout != self._layout):
            expected = f"expected {guess.layout}, as its axes say" if guess else "none has such axes; wrap by a factory"
            found = "no layout" if plain else f"layout {self._layout}"
            raise InputError(f"{self.path}: input {self.tensor}: layout: {expected}, found {found} in the config")

    def lay_out(self, iq: NDArray[Any]) -> Channels:
        """Complex scenes in the layout; others as they are."""
        return lay_out(iq, self._layout) if np.iscomplexobj(iq) else iq  # type: ignore[return-value]

    def check_given(self, given: Channels) -> Channels:
        """ValueError where the file fixes other antennas or samples than it is given, with the keys to set."""
        dims = self.tensor.dims or (None,) * given.ndim
        if all(not isinstance(dim, int) or dim == size for dim, size in zip(dims[1:], given.shape[1:], strict=True)):
            return given
        if self._contract.view == "spectrogram":
            shown = told(("B", *given.shape[1:]))
            raise ValueError(f"{self.path}: input {self.tensor}, given {shown}: set spectrogram, antennas and samples")
        fixed, found = onnx_graph.fits(dims, self._layout), onnx_graph.fits(given.shape, self._layout)
        keys = _keys(fixed, found) if fixed and found else [f"layout: {self._layout} does not fit"]
        raise ValueError(f"{self.path}: input {self.tensor}, given {told(('B', *given.shape[1:]))}: {' '.join(keys)}")


class Silent:
    """A backbone that looks at what it is given as an ONNX graph's input would, and answers with zeros.

    Args:
        name: the model's name.
        entry: the input.
        pooling: of the contract, which says whether an answer has tokens.
    """

    embedding_dim = 1

    def __init__(self, name: str, entry: OnnxInput, pooling: str) -> None:
        self.name, self._entry, self._tokens = name, entry, pooling != "none"

    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Zeros for scenes that fit; ValueError where they do not."""
        del sample_rate_hz, center_frequency_hz
        given = self._entry.check_given(self._entry.lay_out(iq))
        return np.zeros((len(given), 1, 1) if self._tokens else (len(given), 1), np.float32)


def silent_backbone(name: str, data: bytes, path: str, contract: Contract, output: str | None) -> Silent:
    """The input of an ONNX file as a backbone: to know before a run whether scenes fit.

    Raises:
        InputError: no graph, no such output, or an input whose axes are none of the layout.
    """
    whole = onnx_graph.read_graph(data, path)
    entry = OnnxInput(onnx_graph.cut(whole, output, path) if output else whole, path, contract)
    entry.check_layout()
    return Silent(name, entry, contract.pooling)


def one_input(model: onnx.ModelProto, path: str) -> Tensor:
    """The one input of a graph; InputError where it is not one of three or four axes of floating numbers."""
    found = onnx_graph.inputs(model)
    if len(found) != 1:
        raise InputError(
            f"{path}: inputs {', '.join(map(str, found)) or 'none'}: expected one; write the constant ones into the "
            "file as initialisers, or wrap it by a factory"
        )
    if found[0].dtype not in {"float16", "float32", "float64"}:
        raise InputError(
            f"{path}: input {found[0]}: expected floating numbers, found {found[0].dtype}; export the network in "
            "float32, or wrap it by a factory"
        )
    if found[0].dims is not None and len(found[0].dims) not in {3, 4}:
        raise InputError(
            f"{path}: input {found[0]}: expected three or four axes, such as {told(('B', *AXES['channels']))}; "
            "wrap it by a factory"
        )
    return found[0]


def _keys(fixed: Fit, found: Fit) -> list[str]:
    """Keys of a config that bring scenes to what a file fixes."""
    keys = []
    if fixed.antennas and fixed.antennas != found.antennas:
        more = ", missing_antennas: repeat" if fixed.antennas > (found.antennas or 0) else ""
        keys.append(f"set antennas: {fixed.antennas}{more}")
    if fixed.samples and fixed.samples != found.samples:
        keys.append(f"set samples: {fixed.samples}, fit: tile")
    return [" and ".join(keys)]
