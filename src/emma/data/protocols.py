"""OOD protocols: which scenes a fold is fit on, and which it is scored on.

A fold holds out one value of an axis: the readout is fit on TRAIN scenes without that value and scored on evaluation
scenes that have it (WILDS, Koh et al., arXiv:2012.07421).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.errors import InputError
from common.hashing import sha256
from emma.data.folds import Fold, fold_table
from emma.readouts import Readout, make_readout
from emma.tasks import OODAxis, TaskSpec, target_of

Mask = NDArray[np.bool_]


class OODProtocol(ABC):
    """A way to make folds: an axis, its held-out values in order, and the rows of a fold.

    ``LeaveOneEnvironmentOut()`` names a way alone; ``for_task`` gives it a task, which everything else needs.

    Args:
        spec: the task's pinned declaration.

    Raises:
        InputError: the TaskSpec does not pin this protocol's axis.
    """

    name: ClassVar[str]
    axis: ClassVar[OODAxis | None]

    def __init__(self, spec: TaskSpec | None = None) -> None:
        if spec is not None:
            self._check(spec)
        self._spec = spec

    def for_task(self, spec: TaskSpec) -> Self:
        """The same protocol on a task; InputError where the TaskSpec does not pin its axis."""
        bound = copy.copy(self)
        bound._check(spec)
        bound._spec = spec
        return bound

    @property
    def has_task(self) -> bool:
        """Whether it was given a task."""
        return self._spec is not None

    @property
    def spec(self) -> TaskSpec:
        """The task's pinned declaration; InputError where there is no task."""
        if self._spec is None:
            raise InputError(f"{self.name}: no task, expected one by for_task(spec)")
        return self._spec

    def _check(self, spec: TaskSpec) -> None:
        if self.axis is not None and spec.ood_axis is not self.axis:
            raise InputError(
                f"{self.name}: ood_axis: the task is pinned to {spec.ood_axis.value}, expected {self.axis.value}"
            )

    def readout_head(self) -> Readout:
        """The unfitted head that the task pins."""
        return make_readout(self.spec)

    def eval_values(self) -> list[str]:
        """The held-out values, in the order of the TaskSpec."""
        return list(self.spec.held_out)

    @abstractmethod
    def eval_mask(self, index: pa.Table, value: str) -> Mask:
        """Mask ``[rows]`` of the scenes that fold ``value`` scores."""

    def train_mask(self, index: pa.Table, value: str) -> Mask:
        """Mask ``[rows]`` of the scenes that fold ``value`` is fit on: those that do not carry the value."""
        return ~self.eval_mask(index, value)

    def fold(self, value: str, train_index: pa.Table, eval_index: pa.Table, seed: int) -> Fold:
        """Build the fold that holds out ``value``.

        Args:
            value: one of ``eval_values()``.
            train_index: index of the TRAIN scenes.
            eval_index: index of the evaluation scenes.
            seed: the run's seed; it draws the enrolment session of each device.

        Raises:
            InputError: another value, or devices whose enrolment the scenes do not allow.
        """
        if value not in self.eval_values():
            raise InputError(f"{self.name}: value {value}: expected one of {', '.join(self.eval_values())}")
        train = train_index.filter(pa.array(self.train_mask(train_index, value)))
        queries = self.eval_mask(eval_index, value)
        roles = np.where(queries, "query", "")
        enrols = target_of(self.spec).enrols
        if enrols:
            roles = self._enrol(eval_index, queries, seed)
        chosen = eval_index.filter(pa.array(roles != ""))
        fold = Fold(
            self.name,
            value,
            fold_table(self.spec, train, np.full(train.num_rows, "fit")),
            fold_table(self.spec, chosen, roles[roles != ""]),
            eval_split=eval_index["split"][0].as_py() if eval_index.num_rows else None,
            enrolment_seed=seed if enrols else None,
        )
        return replace(fold, undefined_reason=self.undefined_reason(fold))

    def _enrol(self, index: pa.Table, queries: Mask, seed: int) -> NDArray[np.str_]:
        """Roles of the rows: one enrolment session for every device, the queried scenes of the other sessions."""
        for column in ("device", "session", "receiver"):
            if index[column].null_count:
                raise InputError(f"{self.name}: {column}: null in an evaluation scene, expected a value to enrol by")
        devices = np.asarray(index["device"].to_pylist())
        sessions = np.asarray(index["session"].to_pylist())
        receivers = np.asarray(index["receiver"].to_pylist())
        enrolled = np.zeros(len(devices), bool)
        for device in self.spec.classes:
            own = np.unique(sessions[devices == device])
            if len(own) < 2:
                raise InputError(f"device {device}: {len(own)} evaluation sessions, expected two or more to enrol from")
            pick = int(sha256(f"{seed}/enrol/{device}".encode()), 16) % len(own)
            session = (devices == device) & (sessions == own[pick])
            enrolled |= session
            clash = queries & (devices == device) & ~session & np.isin(receivers, np.unique(receivers[session]))
            if clash.any():
                raise InputError(f"device {device}: receiver {receivers[clash][0]} both enrols and queries it")
        counts = {device: int((enrolled & (devices == device)).sum()) for device in self.spec.classes}
        if len(set(counts.values())) > 1:
            raise InputError(f"enrolment: captures per device {counts}, expected the same number for each")
        return np.where(enrolled, "enrol", np.where(queries, "query", ""))

    def undefined_reason(self, fold: Fold) -> str | None:
        """Why a fold that lacks scenes or classes cannot be scored, or None."""
        queries = fold.queries
        where = f"{fold.protocol} {fold.held_out_value}"
        if not fold.train.num_rows or not queries.num_rows:
            return f"{where}: no scenes to {'score' if fold.train.num_rows else 'fit on'}"
        sides = np.asarray(fold.train["target"]), np.asarray(queries["target"])
        reason = target_of(self.spec).undefined_reason(*sides, fold.held_out_value)
        return None if reason is None else f"{where}: {reason}"


class _LeaveOneValueOut(OODProtocol):
    """Hold out the scenes that carry one value of the axis."""

    axis: ClassVar[OODAxis]

    def eval_mask(self, index: pa.Table, value: str) -> Mask:
        """Mask of the scenes whose axis value is ``value``."""
        return _mask(index, self.axis, value)


class LeaveOneEnvironmentOut(_LeaveOneValueOut):
    """Asks whether the model transfers across channel conditions."""

    name = "leave-one-environment-out"
    axis = OODAxis.ENVIRONMENT


class LeaveOneUnitOut(_LeaveOneValueOut):
    """Asks whether the model recognises a device that it has never seen, by enrolment, session apart."""

    name = "leave-one-unit-out"
    axis = OODAxis.DEVICE


class LeaveOneSNRRegimeOut(_LeaveOneValueOut):
    """Asks whether the model transfers to a noise regime that it has never seen.

    Args:
        spec: the task's pinned declaration.
        stress: regimes to hold out in the stress report; None where the TaskSpec pins this axis itself.
    """

    name = "leave-one-snr-regime-out"
    axis = OODAxis.SNR_REGIME

    def __init__(self, spec: TaskSpec | None = None, stress: tuple[str, ...] | None = None) -> None:
        self.stress = stress
        super().__init__(spec)

    def _check(self, spec: TaskSpec) -> None:
        if self.stress is None:
            super()._check(spec)

    def eval_values(self) -> list[str]:
        """The regimes of the stress report, or the TaskSpec's."""
        return list(self.spec.held_out if self.stress is None else self.stress)


class LeaveOneBandOut(OODProtocol):
    """An unseen frequency band layered on an unseen environment: neither was met in training.

    Fold ``environment+band`` is fit on scenes of other environments in other bands, and scored on scenes of both.
    """

    name = "leave-one-band-out"
    axis = OODAxis.FREQUENCY_BAND

    def _check(self, spec: TaskSpec) -> None:
        if spec.ood_axis is not OODAxis.ENVIRONMENT or not spec.layered_band:
            raise InputError(f"{self.name}: layered_band: expected a task pinned to environment that lists its bands")

    def eval_values(self) -> list[str]:
        """Pairs ``environment+band``, environments first."""
        return [f"{environment}+{band}" for environment in self.spec.held_out for band in self.spec.layered_band]

    def eval_mask(self, index: pa.Table, value: str) -> Mask:
        """Mask of the scenes that have both the environment and the band."""
        environment, band = value.split("+")
        return _mask(index, OODAxis.ENVIRONMENT, environment) & _mask(index, OODAxis.FREQUENCY_BAND, band)

    def train_mask(self, index: pa.Table, value: str) -> Mask:
        """Mask of the scenes that have neither the environment nor the band."""
        environment, band = value.split("+")
        return ~_mask(index, OODAxis.ENVIRONMENT, environment) & ~_mask(index, OODAxis.FREQUENCY_BAND, band)


class InDistribution(OODProtocol):
    """No value held out: a readout fit on all TRAIN scenes, against which the generalisation gap is read."""

    name = "in-distribution"
    axis = None

    def eval_values(self) -> list[str]:
        """One fold for all values."""
        return ["all"]

    def eval_mask(self, index: pa.Table, value: str) -> Mask:
        """Every scene is scored."""
        return np.ones(index.num_rows, bool)

    def train_mask(self, index: pa.Table, value: str) -> Mask:
        """Every TRAIN scene is fit on."""
        return np.ones(index.num_rows, bool)


_PRIMARY = {kind.axis: kind for kind in (LeaveOneEnvironmentOut, LeaveOneUnitOut, LeaveOneSNRRegimeOut)}


def primary_protocol(spec: TaskSpec) -> OODProtocol:
    """The protocol that the TaskSpec pins."""
    if spec.ood_axis not in _PRIMARY:
        expected = ", ".join(axis.value for axis in _PRIMARY)
        raise InputError(f"ood_axis: {spec.ood_axis.value} is a secondary axis, expected one of {expected}")
    return _PRIMARY[spec.ood_axis](spec)


def board_protocols(spec: TaskSpec) -> dict[str, OODProtocol]:
    """The protocols that the leaderboard shows for a task, by name: primary, in-distribution, layered band."""
    protocols = [primary_protocol(spec), InDistribution(spec)]
    protocols += [LeaveOneBandOut(spec)] if spec.layered_band else []
    return {protocol.name: protocol for protocol in protocols}


def task_protocols(spec: TaskSpec, stress_regimes: tuple[str, ...] = ()) -> dict[str, OODProtocol]:
    """All protocols of a task by name: the board's and, where it is not the primary one, the SNR stress."""
    protocols = board_protocols(spec)
    if stress_regimes and LeaveOneSNRRegimeOut.name not in protocols:
        protocols[LeaveOneSNRRegimeOut.name] = LeaveOneSNRRegimeOut(spec, stress_regimes)
    return protocols


def protocol_named(name: str, spec: TaskSpec, stress_regimes: tuple[str, ...] = ()) -> OODProtocol:
    """One of a task's protocols by its name; InputError for a name that is none of them."""
    protocols = task_protocols(spec, stress_regimes)
    if name not in protocols:
        raise InputError(f"protocol {name}: expected one of {', '.join(protocols)}")
    return protocols[name]


def _mask(index: pa.Table, axis: OODAxis, value: str) -> Mask:
    return np.asarray(pc.fill_null(pc.equal(index[axis.value], value), False))
