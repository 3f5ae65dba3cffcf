"""Tasks that ask for an embedding of every window of a scene: what their windows make of a model's contract."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import pyarrow as pa

from common.errors import InputError
from emma.backbones.base import IQ
from emma.backbones.inputs import Contract
from emma.backbones.units import joined_width
from emma.tasks import TaskID, TaskSpec

#: Columns of an index that a window has from its scene. A reference symbol need not lie in it: `csi` is refused.
_SHOWN = ("sample_rate_hz", "center_frequency_hz")


class DenseContract(Contract):
    """A model's contract for a task with windows: each window is shown to the model as a scene of its own.

    Windows of ``dense_window`` samples are cut at the scene's own sample rate, every ``dense_hop`` samples. To each of
    them all of the model's rules are then applied as to any scene: resampling, its own ``samples`` with ``fit`` (a
    model of 1,024 samples gets a window of 256 tiled or padded, and is unsuited where it declares neither), its own
    ``window`` within the task's, level, view and layout. The rows of a scene's windows stand side by side, in order of
    time.
    """

    dense_window: int
    dense_hop: int

    @classmethod
    def of(cls, contract: Contract, window: int, hop: int) -> Self:
        """The contract of a model, whatever else its config says, with a task's windows."""
        rules = {name: getattr(contract, name) for name in Contract.model_fields}
        return cls(**rules, dense_window=window, dense_hop=hop)

    @property
    def of_a_window(self) -> Contract:
        """The model's own rules, which hold for each window."""
        return Contract(**{name: getattr(self, name) for name in Contract.model_fields})

    def count(self, samples: int) -> int:
        """Windows of a scene; ValueError where not one lies in it."""
        if samples < self.dense_window:
            raise ValueError(f"{samples} samples, expected at least the {self.dense_window} of the task's windows")
        return 1 + (samples - self.dense_window) // self.dense_hop

    def cut(self, iq: IQ, index: pa.Table) -> tuple[IQ, pa.Table]:
        """Scenes ``[B, A, T]`` and their index rows as windows ``[B windows, A, samples]`` with the rows of theirs."""
        count = self.count(iq.shape[2])
        windows = np.lib.stride_tricks.sliding_window_view(iq, self.dense_window, axis=2)[:, :, :: self.dense_hop]
        units = windows.swapaxes(1, 2).reshape(-1, iq.shape[1], self.dense_window)
        return units, index.select(list(_SHOWN)).take(pa.array(np.repeat(np.arange(len(iq)), count)))


def task_contract(contract: Contract, spec: TaskSpec) -> Contract:
    """A model's contract for a task: its own, or with the windows that the task's readout pins."""
    return windowed(contract, spec.readout.window, spec.readout.hop)


def windowed(contract: Contract, window: int | None, hop: int | None) -> Contract:
    """A contract with a task's windows, if it has some."""
    return contract if window is None or hop is None else DenseContract.of(contract, window, hop)


def row_width(contract: Contract, width: int, shape: tuple[int, ...]) -> int:
    """Width of a row of scenes ``[.., antennas, samples]``, where the model's own is ``width``."""
    count = contract.count(shape[-1]) if isinstance(contract, DenseContract) else 1
    return count * joined_width(contract, width, shape[-2])


def window_options(specs: Mapping[TaskID, TaskSpec]) -> list[str]:
    """Windows of the tasks that have some, ``TASK=SAMPLES/HOP``, as programs take them."""
    pinned = {task: spec.readout for task, spec in specs.items()}
    return [f"{task.value}={own.window}/{own.hop}" for task, own in pinned.items() if own.window is not None]


def contracts_of(contract: Contract, options: Sequence[str]) -> dict[TaskID, Contract]:
    """A model's contract for each task of ``window_options``; InputError for another text."""
    made = {}
    for option in options:
        found = re.fullmatch(r"([A-Z0-9-]+)=([1-9][0-9]*)/([1-9][0-9]*)", option)
        if found is None or found[1] not in set(TaskID):
            raise InputError(f"--windows: {option[:80]}, expected TASK=SAMPLES/HOP")
        made[TaskID(found[1])] = windowed(contract, int(found[2]), int(found[3]))
    return made
