"""A backbone in an ONNX file, run by onnxruntime: any real layout, any tensor of its graph as the answer."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.backbones import onnx_graph
from emma.backbones.base import Embeddings
from emma.backbones.inputs import Channels, Contract, lay_out
from emma.backbones.onnx_graph import Dims, Fit, Head, told
from emma.backbones.onnx_input import OnnxInput, one_input

#: What an answer's width is measured with, where neither file nor config fixes them.
_TRIED_SAMPLES, _TRIED_ANTENNAS = (1024, 4096), (1, 8)

#: What onnxruntime says of a file that it does not take, and what to do; the group is a number or a name.
_REFUSALS = {
    r"till opset (\d+)": "its opset is newer than onnxruntime's {}; export with opset_version={}",
    r"max supported IR version: (\d+)": "its IR version is newer than onnxruntime's {}; set ir_version={} by onnx",
    r"Fatal error: (\S+?)\(.*not a registered": "onnxruntime has no operator {}; export with standard operators",
    r"No Op registered for (\w+)": "onnxruntime has no operator {} in this opset; export with another opset_version",
    r"Could not find an implementation for (\w+)": "onnxruntime cannot run {} on these types; export in float32",
}


#: Seconds that one run of a graph may take: a loop may have no end.
_MOST_SECONDS = 600.0


class DeviceError(InputError):
    """onnxruntime finds no such device."""


class EndlessError(InputError):
    """A run that took more time than any batch needs, and was ended."""


class OnnxBackbone:
    """A backbone in an ONNX file.

    The graph has one input of floating numbers, float32 ``[batch, 2 antennas, samples]`` with I and Q of each antenna
    in turn unless the contract has another layout (float16 and float64 are cast); inputs that have an initialiser, or
    that the answer does not need, do not count. The answer is the graph's one output or the tensor ``output``: ``[B,
    D]`` once axes of length one are dropped, or ``[B, tokens, D]`` with a pooling. A file that fixes its batch to N is
    run on N scenes at a time, the last ones filled up with zeros. Weights are in the file itself, never beside it.

    Args:
        name: the model's name.
        data: the file's content.
        path: the file's name in errors.
        device: ``cpu`` or ``cuda``.
        contract: how scenes reach the model: ``layout``, ``pooling``, and what it fixes of antennas and samples.
        output: tensor that is the answer, any that the graph computes.
        weights: other numbers for initialisers and constants, by name.

    Raises:
        InputError: a file that cannot be run, with what to do.
    """

    def __init__(
        self,
        name: str,
        data: bytes,
        path: str,
        device: str = "cpu",
        *,
        contract: Contract | None = None,
        output: str | None = None,
        weights: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.name, self._path, self.device = name, path, device
        self._contract = contract or Contract()
        self._layout = self._contract.layout or "channels"
        whole = onnx_graph.read_graph(data, path)
        if weights:
            onnx_graph.set_weights(whole, weights, path)
        self._whole = whole
        if output is None and len(found := onnx_graph.outputs(whole)) != 1:
            names = ", ".join(map(str, found)) or "none"
            raise InputError(f"{path}: outputs {names}: expected one; name it by output in the config")
        self._output = output or onnx_graph.outputs(whole)[0].name
        model = onnx_graph.cut(whole, output, path) if output else whole
        self._entry = OnnxInput(model, path, self._contract)
        self._input = self._entry.tensor
        onnx_graph.check_graph(model, path)
        self._session = self._start(model.SerializeToString() if output or weights else data)
        self._entry.check_layout()
        self._axes, self.embedding_dim = self._read_answer()

    @property
    def head(self) -> Head | None:
        """The classifier's last layer that the answer comes from; None where it is an embedding as it stands."""
        return onnx_graph.find_head(onnx_graph.with_shapes(self._whole), self._output)

    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Run the graph; complex scenes in its layout. ValueError where it does not take them."""
        del sample_rate_hz, center_frequency_hz
        given = self._entry.check_given(self._entry.lay_out(iq))
        values = self._run(self._session, given)
        if values.ndim == 0 or len(values) != len(given):
            raise ValueError(
                f"{self._path}: output {self._output} is {list(values.shape)} for {len(given)} scenes, expected the "
                f"batch first{'; where the file fixes its batch within, set batch_size: 1' if len(given) > 1 else ''}"
            )
        rows: Embeddings = values.reshape(len(values), *(values.shape[axis] for axis in self._axes))
        return rows.astype(np.float32, copy=False)

    def run_tensor(self, name: str, iq: NDArray[Any]) -> NDArray[Any]:
        """Any tensor of the graph, in its own shape and type, for scenes as ``embed`` takes them.

        Raises:
            InputError: no node computes it.
            ValueError: the graph does not take the scenes.
        """
        part = onnx_graph.cut(self._whole, name, self._path)
        one_input(part, self._path)
        return self._run(self._start(part.SerializeToString()), self._entry.check_given(self._entry.lay_out(iq)))

    def _start(self, data: bytes) -> Any:
        import onnxruntime

        provider = "CUDAExecutionProvider" if self.device == "cuda" else "CPUExecutionProvider"
        absent = f"model {self.name}: device: onnxruntime has no {self.device} here, expected cpu or auto"
        if provider not in onnxruntime.get_available_providers():
            raise DeviceError(absent)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what goes wrong is said here, once
        # Weights in files beside the graph would escape its SHA-256: there is no folder to read them from.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        try:
            session = onnxruntime.InferenceSession(data, options, providers=[provider])
        except Exception as error:  # noqa: BLE001 (onnxruntime raises its own types from C++)
            text = " ".join(str(error).split())
        else:
            # Where the library is built for a GPU and finds none, it goes on without a word.
            if provider not in session.get_providers():
                raise DeviceError(absent)
            return session
        for pattern, advice in _REFUSALS.items():
            if found := re.search(pattern, text):
                raise InputError(f"{self._path}: {advice.format(*[found[1]] * 2)}")
        reason = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)[:120]
        raise InputError(f"{self._path}: expected an ONNX file that onnxruntime runs; export it again ({reason})")

    @property
    def _batch(self) -> int | None:
        """Scenes per run that the file fixes."""
        first = self._input.dims[0] if self._input.dims else None
        return first if isinstance(first, int) else None

    def _run(self, session: Any, given: Channels) -> NDArray[Any]:
        """Run a session on scenes, as many at a time as the file fixes."""
        given = given.astype(self._input.dtype, copy=False)
        count = self._batch
        if count is None or len(given) == count:
            return self._run_once(session, given)
        parts = []
        for start in range(0, len(given), count):
            part = given[start : start + count]
            filled = np.concatenate([part, np.zeros((count - len(part), *part.shape[1:]), part.dtype)])
            values = self._run_once(session, filled)
            if values.ndim == 0 or len(values) != count:
                return values
            parts.append(values[: len(part)])
        return np.concatenate(parts)

    def _run_once(self, session: Any, given: NDArray[Any]) -> NDArray[Any]:
        try:
            values = self._in_time(session, given)
        except Exception as error:  # noqa: BLE001 (onnxruntime raises its own types from C++)
            text = " ".join(str(error).split())
        else:
            return values
        if "terminate flag" in text:
            raise EndlessError(
                f"{self._path}: a run of {len(given)} scenes took over {_MOST_SECONDS:.0f} s, and was ended"
            )
        node = re.search(r"running (\w+) node\. Name:'([^']*)'", text)
        place = f"node {node[2]!r} ({node[1]})" if node else "the graph"
        if asked := re.search(r"Failed to allocate memory(?:.*size (\d+))?|bad.?alloc", text):
            size = f", {int(asked[1]) / 2**30:.1f} GiB" if asked[1] else ""
            raise ValueError(f"{self._path}: {place} takes more memory than there is{size}; lower batch_size")
        if len(given) > 1 and self._batch is None and self._takes_one(session, given):
            raise ValueError(f"{self._path}: takes one scene a call, fixed within; set batch_size: 1")
        raise ValueError(
            f"{self._path}: {place} does not take {told(('B', *given.shape[1:]))}; set antennas and samples to those "
            "that the network was made for"
        )

    def _in_time(self, session: Any, given: NDArray[Any]) -> NDArray[Any]:
        """The answer of a session, which is told to stop after _MOST_SECONDS, and then raises."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        timer = threading.Timer(_MOST_SECONDS, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            values: NDArray[Any] = session.run(None, {self._input.name: given}, options)[0]
        finally:
            timer.cancel()
        return values

    def _takes_one(self, session: Any, given: NDArray[Any]) -> bool:
        try:
            return len(self._in_time(session, given[:1])) == 1
        except Exception:  # noqa: BLE001 (onnxruntime raises its own types from C++)
            return False

    def _read_answer(self) -> tuple[tuple[int, ...], int]:
        """Axes of the answer that are kept after the batch, and its width."""
        answer = self._session.get_outputs()[0]
        kind = re.search(r"tensor\((float16|float|double)\)", answer.type)
        if kind is None:
            raise InputError(f"{self._path}: output {self._output}: expected floating numbers, found {answer.type}")
        dims: Dims = tuple(answer.shape)
        batch = self._input.dims[0] if self._input.dims else None
        last = batch in dims[1:] and isinstance(batch, str)
        if len(dims) < 2 or not all(isinstance(dim, int) for dim in dims[1:]):
            if (measured := self._measure()) is None and not dims:
                raise InputError(
                    f"{self._path}: output {self._output}: its axes are not known, nor found by a run on silence; set "
                    "antennas and samples to those of the network"
                )
            dims = dims if measured is None else ((batch, *measured[1:]) if measured else ())
            last = last or (measured is not None and measured[:1] != (2,))
        expected = f"{self._path}: output {self._output} {told(dims)}: expected [B, D]"
        tokens = self._contract.pooling != "none"
        if len(dims) < 2 or last:
            raise InputError(f"{expected}, a row for each scene; name another tensor by output")
        wide = [axis for axis, dim in enumerate(dims) if axis and dim != 1]
        axes = [*range(1, len(dims))] if len(dims) == (3 if tokens else 2) else wide or [1]
        if len(axes) == 2 and not tokens:
            raise InputError(f"{expected}; a sequence of tokens is read by pooling: mean, first or max")
        if len(axes) != (2 if tokens else 1):
            hint = "; pooling reads [B, tokens, D]" if tokens else ""
            raise InputError(f"{expected}{hint}; name another tensor by output")
        width = dims[axes[-1]]
        if not isinstance(width, int):
            raise InputError(f"{expected} with D fixed; set samples (and antennas) to those of the network")
        return tuple(axes), width

    def _measure(self) -> Dims | None:
        """Axes of the answer as runs on silence show them, those that differ between lengths left open."""
        seen: list[Sequence[int]] = []
        for antennas, samples in itertools.product(*self._sizes()):
            given = lay_out(np.zeros((2, antennas, samples), np.complex64), self._layout)
            try:
                seen.append(self._run(self._session, given).shape)  # type: ignore[arg-type]
            except EndlessError:
                raise
            except ValueError:
                continue
        if not seen or len({len(shape) for shape in seen}) > 1:
            return None
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*seen, strict=True))

    def _sizes(self) -> tuple[Sequence[int], Sequence[int]]:
        """Antennas and samples that the width is measured with."""
        fixed = onnx_graph.fits(self._input.dims, self._layout) if self._input.dims else None
        fixed = fixed or Fit(self._layout, None, None)
        asked = self._contract
        antennas = fixed.antennas or (None if asked.antennas == "any" else asked.antennas)
        samples = fixed.samples or (None if asked.samples == "any" else asked.samples)
        return (antennas,) if antennas else _TRIED_ANTENNAS, (samples,) if samples else _TRIED_SAMPLES
