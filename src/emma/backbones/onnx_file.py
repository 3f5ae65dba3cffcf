"""A backbone in an ONNX file, run by onnxruntime."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.backbones.base import Embeddings
from emma.backbones.inputs import as_channels


class OnnxBackbone:
    """A backbone in an ONNX file.

    Its one input is float32 of rank three, ``[batch, 2 antennas, samples]`` with I and Q of each antenna in turn unless
    the config declares another layout; its one output is float32 ``[batch, D]``, or ``[batch, tokens, D]`` with a
    pooling, D fixed in the file. Weights are in the file itself, never beside it.
    """

    def __init__(self, name: str, data: bytes, path: str, device: str = "cpu") -> None:
        import onnxruntime

        provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            raise InputError(f"model {name}: device: onnxruntime has no {device} here, expected cpu")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Weights in files beside the graph would escape its SHA-256: there is no folder to read them from.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=[provider])
        except Exception as error:  # noqa: BLE001 (onnxruntime raises its own types from C++)
            raise InputError(f"{path}: expected an ONNX file ({' '.join(str(error).split())[:200]})") from None
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        shape = outputs[0].shape if len(outputs) == 1 else [None]
        if len(inputs) != 1 or len(inputs[0].shape) != 3 or len(shape) not in {2, 3} or not isinstance(shape[-1], int):
            raise InputError(
                f"{path}: expected one input [batch, 2 antennas, samples], one output [batch, D] or [batch, tokens, D] "
                "with D fixed"
            )
        self.name, self.embedding_dim, self._input = name, shape[-1], inputs[0].name

    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Run the graph; complex scenes as channels. ValueError where it does not take them."""
        del sample_rate_hz, center_frequency_hz
        given: NDArray[np.float32] = as_channels(iq) if np.iscomplexobj(iq) else iq
        try:
            values: Embeddings = self._session.run(None, {self._input: given})[0]
        except Exception as error:  # noqa: BLE001 (onnxruntime raises its own types from C++)
            raise ValueError(" ".join(str(error).split())[:200]) from None
        return values
