"""Numbers of any array library as numpy arrays, without importing that library."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_numpy(values: Any) -> NDArray[Any]:
    """Return ``values`` as a numpy array of its own precision.

    Args:
        values: a number, a (nested) list of numbers, an array of any library that numpy reads, or a torch tensor of any
            device, with or without gradient; bfloat16 and float8, which numpy lacks, become float32 without loss.

    Raises:
        TypeError, ValueError, RuntimeError: numpy cannot make an array of it.
    """
    # Whoever holds a tensor has imported torch; no other caller shall pay for it.
    tensor_type = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor_type is not None:
        if isinstance(values, tensor_type):
            return _of_tensor(values)
        if isinstance(values, list | tuple) and any(isinstance(value, tensor_type) for value in values):
            return np.asarray([as_numpy(value) for value in values])
    return np.asarray(values)


def _of_tensor(tensor: Any) -> NDArray[Any]:
    torch = sys.modules["torch"]
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_floating_point() and tensor.dtype not in {torch.float16, torch.float32, torch.float64}:
        tensor = tensor.to(torch.float32)
    elif tensor.dtype == torch.complex32:
        tensor = tensor.to(torch.complex64)
    return np.asarray(tensor.numpy())
