"""Readouts: light heads, pinned by the TaskSpec, that are fit on frozen embeddings."""

from collections.abc import Mapping

from emma.readouts.base import Floats, Readout, standardise
from emma.readouts.discriminant import Discriminant
from emma.readouts.logistic import Logistic
from emma.readouts.ridge import Ridge
from emma.tasks import TaskSpec, target_of

__all__ = ["READOUTS", "Discriminant", "Logistic", "Readout", "Ridge", "load_readout", "make_readout", "standardise"]

#: Readouts by their kind.
READOUTS: dict[str, type[Readout]] = {readout.kind: readout for readout in (Ridge, Logistic, Discriminant)}


def make_readout(spec: TaskSpec) -> Readout:
    """The unfitted head that a TaskSpec pins."""
    return READOUTS[spec.readout.kind](spec.readout, target_of(spec))


def load_readout(spec: TaskSpec, tensors: Mapping[str, Floats]) -> Readout:
    """A fitted head from its tensors."""
    readout = make_readout(spec)
    readout.tensors = dict(tensors)
    return readout
