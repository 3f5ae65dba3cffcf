"""Enrolment in turn: every session of a unit enrols it once, and queries all the other times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.errors import InputError


def session_turns(units: NDArray[np.str_], sessions: NDArray[np.str_]) -> NDArray[np.int32]:
    """The turn ``[N]`` in which each capture's session enrols its unit: its place among the unit's sorted sessions.

    Args:
        units: unit of each capture ``[N]``.
        sessions: its session ``[N]``.
    """
    pairs, capture = np.unique(np.stack([units, sessions]), axis=1, return_inverse=True)
    # Columns are sorted by unit, then by session.
    _, first, of_unit = np.unique(pairs[0], return_index=True, return_inverse=True)
    turn: NDArray[np.int32] = (np.arange(pairs.shape[1]) - first[of_unit])[capture].astype(np.int32)
    return turn


def check_enrolment(index: pa.Table, classes: Sequence[str], queries: NDArray[np.bool_]) -> None:
    """Refuse evaluation captures of which not every session can enrol its unit while the others are queried.

    Args:
        index: the evaluation captures, with ``device``, ``session`` and ``receiver``.
        classes: the units.
        queries: mask ``[rows]`` of the captures that are scored.

    Raises:
        InputError: a null; a unit with fewer than two sessions; units that differ in sessions, or in captures in a
            turn; a unit that is enrolled and queried at one receiver in some turn.
    """
    for column in ("device", "session", "receiver"):
        if index[column].null_count:
            raise InputError(f"enrolment: {column}: null in an evaluation scene, expected a value to enrol by")
    devices, sessions, receivers = (
        np.asarray(index[name].to_pylist(), str) for name in ("device", "session", "receiver")
    )
    turns = session_turns(devices, sessions) if len(devices) else np.zeros(0, np.int32)
    captures = np.zeros((len(classes), int(turns.max(initial=-1)) + 1), int)
    for row, device in enumerate(classes):
        own = turns[devices == device]
        captures[row] = np.bincount(own, minlength=captures.shape[1])
        if own.max(initial=0) < 1:
            raise InputError(
                f"device {device}: {min(len(own), 1)} evaluation sessions, expected two or more to enrol from"
            )
    for turn, counts in enumerate(captures.T):
        if len(set(counts)) > 1:
            told = dict(zip(classes, counts.tolist(), strict=True))
            raise InputError(f"enrolment: turn {turn}: captures per device {told}, expected the same number for each")
    # One receiver in two sessions of a unit would enrol it in the turn of one and query it in the other.
    chains = list(zip(devices.tolist(), receivers.tolist(), strict=True))
    met = Counter(chain for chain, _ in set(zip(chains, turns.tolist(), strict=True)))
    for device, receiver in sorted({chain for chain, query in zip(chains, queries, strict=True) if query}):
        if met[device, receiver] > 1:
            raise InputError(f"device {device}: receiver {receiver} both enrols and queries it")
