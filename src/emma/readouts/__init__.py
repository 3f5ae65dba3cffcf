"""Readouts: light heads, pinned by the TaskSpec, that are fit on frozen embeddings."""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from emma.readouts.base import READOUTS, Floats, Readout, standardise
from emma.readouts.discriminant import Discriminant
from emma.readouts.logistic import Logistic
from emma.readouts.ridge import Ridge
from emma.tasks import TaskSpec, target_of

__all__ = ["READOUTS", "Discriminant", "Logistic", "Readout", "Ridge", "load_readout", "make_readout", "standardise"]

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")


def make_readout(spec: TaskSpec) -> Readout:
    """The unfitted head that a TaskSpec pins."""
    return READOUTS[spec.readout.kind](spec.readout, target_of(spec))


def load_readout(spec: TaskSpec, tensors: Mapping[str, Any]) -> Readout:
    """A fitted head from its tensors."""
    readout = make_readout(spec)
    readout.tensors = dict(tensors)
    return readout
