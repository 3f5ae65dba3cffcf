"""OOD protocols: which scenes a fold is fit on, and which it is scored on.

A fold holds out one value of an axis: the readout is fit on TRAIN scenes without that value and scored on evaluation
scenes that have it (WILDS, Koh et al., arXiv:2012.07421).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.errors import InputError, advice
from emma.data.draws import link_groups, stratified_draw
from emma.data.enrolment import check_enrolment
from emma.data.folds import Fold, fold_table, split_of
from emma.readouts import Readout, make_readout
from emma.tasks import OODAxis, SecondaryAxis, Split, TaskSpec, target_of

Mask = NDArray[np.bool_]


class OODProtocol(ABC):
    """A way to make folds: an axis, its held-out values in order, and the rows of a fold.

    ``LeaveOneEnvironmentOut()`` names a way alone; ``for_task`` gives it a task, which everything else needs.

    Args:
        spec: the task's pinned declaration.

    Raises:
        InputError: the TaskSpec does not pin this protocol's axis.
    """

    name: str
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

    @abstractmethod
    def _check(self, spec: TaskSpec) -> None:
        """InputError where the protocol is none of a task's."""

    def readout_head(self) -> Readout:
        """The unfitted head that the task pins."""
        return make_readout(self.spec)

    @abstractmethod
    def eval_values(self) -> list[str]:
        """The held-out values, in the order of the TaskSpec."""

    @abstractmethod
    def parts(self, value: str) -> Mapping[OODAxis, str]:
        """What a held-out value stands for: the value of each axis that it takes out."""

    @abstractmethod
    def eval_mask(self, index: pa.Table, value: str) -> Mask:
        """Mask ``[rows]`` of the scenes that fold ``value`` scores."""

    def train_mask(self, index: pa.Table, value: str, eval_split: str | None = None) -> Mask:
        """Mask ``[rows]`` of the scenes that fold ``value`` is fit on: those that do not carry the value.

        Args:
            index: index of the TRAIN scenes.
            value: one of ``eval_values()``.
            eval_split: the split that is scored. Where HOLDOUT has units of its own, no TRAIN scene carries one.
        """
        del eval_split
        return ~self.eval_mask(index, value)

    def fit_size(self, index: pa.Table, value: str, eval_split: str | None = None) -> int:
        """Number of TRAIN scenes that fold ``value`` is fit on; the arguments of ``train_mask``."""
        return int(self.train_mask(index, value, eval_split).sum())

    def fit_mask(self, index: pa.Table, value: str, seed: int | None, eval_split: str | None = None) -> Mask:
        """Mask ``[rows]`` of the scenes that fold ``value`` is fit on, all those of ``train_mask`` or a draw of them.

        Args:
            index: index of the TRAIN scenes, with labels.
            value: one of ``eval_values()``.
            seed: what draws them, where they are drawn.
            eval_split: the split that is scored.
        """
        del seed
        return self.train_mask(index, value, eval_split)

    def fold(self, value: str, train_index: pa.Table, eval_index: pa.Table, seed: int) -> Fold:
        """Build the fold that holds out ``value``.

        Args:
            value: one of ``eval_values()``.
            train_index: index of the TRAIN scenes.
            eval_index: index of the evaluation scenes.
            seed: the run's seed; it draws the fit scenes of a reference.

        Raises:
            InputError: another value, or devices whose enrolment the scenes do not allow.
        """
        if value not in self.eval_values():
            raise InputError(f"{self.name}: value {value}: {advice(value, self.eval_values())}")
        eval_split = split_of(eval_index)
        train = train_index.filter(pa.array(self.fit_mask(train_index, value, seed, eval_split)))
        queries = self.eval_mask(eval_index, value)
        roles = np.where(queries, "query", "")
        if target_of(self.spec).enrols:
            check_enrolment(eval_index, self.spec.classes, queries)
            # Every session of every unit enrols in its turn.
            roles = np.where(queries, "query", "enrol")
        chosen = eval_index.filter(pa.array(roles != ""))
        fold = Fold(
            self.name,
            value,
            fold_table(self.spec, train, np.full(train.num_rows, "fit")),
            fold_table(self.spec, chosen, roles[roles != ""]),
            eval_split=eval_split,
            draw_seed=seed if self.axis is None else None,
        )
        return replace(fold, undefined_reason=self.undefined_reason(fold))

    def undefined_reason(self, fold: Fold) -> str | None:
        """Why a fold that lacks scenes or classes, or a reference of unmet units, cannot be scored, or None."""
        queries = fold.queries
        where = f"{fold.protocol} {fold.held_out_value}"
        if self.axis is None and self.spec.new_holdout_units and fold.eval_split == Split.HOLDOUT:
            return f"{where}: the units of HOLDOUT are no TRAIN units, so that no fit has met them"
        if not fold.train.num_rows or not queries.num_rows:
            return f"{where}: no scenes to {'score' if fold.train.num_rows else 'fit on'}"
        kind = target_of(self.spec)
        sides = kind.numbers(fold.train["target"]), kind.numbers(queries["target"])
        # A reference has met every class; only a fold that holds one out need not show it to the fit.
        spared = None if self.axis is None else fold.held_out_value
        reason = kind.undefined_reason(*sides, spared)
        return None if reason is None else f"{where}: {reason}"


class _LeaveOneValueOut(OODProtocol):
    """Hold out the scenes that carry one value of the axis: the task's own, or a secondary one.

    Where the TaskSpec layers a secondary axis on its own, fold ``environment+band`` is fit on scenes that have neither
    value, and scored on scenes that have both.
    """

    axis: ClassVar[OODAxis]

    def _check(self, spec: TaskSpec) -> None:
        if self.axis is not spec.ood_axis and self._secondary(spec) is None:
            pinned = ", ".join(axis.value for axis in (spec.ood_axis, *(entry.ood_axis for entry in spec.secondary)))
            raise InputError(f"{self.name}: ood_axis: the task is pinned to {pinned}, expected {self.axis.value}")

    def _secondary(self, spec: TaskSpec) -> SecondaryAxis | None:
        return next((entry for entry in spec.secondary if entry.ood_axis is self.axis), None)

    def eval_values(self) -> list[str]:
        """The values of the axis, or pairs ``primary+secondary`` where it is layered, primary values first."""
        secondary = self._secondary(self.spec)
        if secondary is None:
            return list(self.spec.held_out)
        if not secondary.layered:
            return list(secondary.held_out)
        return [f"{first}+{second}" for first in self.spec.held_out for second in secondary.held_out]

    def parts(self, value: str) -> Mapping[OODAxis, str]:
        """The value of the axis, and of the task's own where it is layered on that."""
        secondary = self._secondary(self.spec)
        if secondary is None or not secondary.layered:
            return {self.axis: value}
        return dict(zip((self.spec.ood_axis, self.axis), value.split("+"), strict=True))

    def eval_mask(self, index: pa.Table, value: str) -> Mask:
        """Mask of the scenes that have every part of ``value``."""
        mask: Mask = np.all([_mask(index, axis, part) for axis, part in self.parts(value).items()], axis=0)
        return mask

    def train_mask(self, index: pa.Table, value: str, eval_split: str | None = None) -> Mask:
        """Mask of the scenes that have no part of ``value``; a unit of HOLDOUT has but its name from one of TRAIN."""
        other_units = self.spec.new_holdout_units and eval_split == Split.HOLDOUT
        carried = np.zeros(index.num_rows, bool)
        for axis, part in self.parts(value).items():
            if not (other_units and axis is OODAxis.DEVICE):
                carried |= _mask(index, axis, part)
        return ~carried


class LeaveOneEnvironmentOut(_LeaveOneValueOut):
    """Asks whether the model transfers across channel conditions."""

    name = "leave-one-environment-out"
    axis = OODAxis.ENVIRONMENT


class LeaveOneUnitOut(_LeaveOneValueOut):
    """Asks whether the model recognises a device that it has never seen, by enrolment, session apart."""

    name = "leave-one-unit-out"
    axis = OODAxis.DEVICE


class LeaveOneBandOut(_LeaveOneValueOut):
    """Asks whether the model transfers to a frequency band that it has never seen."""

    name = "leave-one-band-out"
    axis = OODAxis.FREQUENCY_BAND


class LeaveOneWaveformOut(_LeaveOneValueOut):
    """Asks whether the model detects emitters of a waveform family that it has never seen."""

    name = "leave-one-waveform-out"
    axis = OODAxis.WAVEFORM


class LeaveOneReceiverOut(_LeaveOneValueOut):
    """Asks whether the model transfers to a receiver that it has never seen."""

    name = "leave-one-receiver-out"
    axis = OODAxis.RECEIVER


class LeaveOneSNRRegimeOut(_LeaveOneValueOut):
    """Asks whether the model transfers to a noise regime that it has never seen.

    Args:
        spec: the task's pinned declaration.
        stress: regimes to hold out in the stress report; None where the TaskSpec names this axis itself.
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
        return super().eval_values() if self.stress is None else list(self.stress)


class InDistribution(OODProtocol):
    """The reference of another protocol: as many fit scenes as its fold has, from all TRAIN scenes.

    The held-out value is met in its natural share, and the same evaluation scenes are scored, so that the difference
    of the two scores is what the unseen value costs and not what fewer scenes cost. The draw is stratified by the axes
    of the protocol and by class; it depends on the seed and the scenes alone and is the same for every model.

    Args:
        base: the protocol whose folds it is the reference of, with its task.
    """

    axis = None

    def __init__(self, base: OODProtocol) -> None:
        self.base = base
        self.name = reference_name(base.spec, base.name)
        super().__init__(base.spec)

    def for_task(self, spec: TaskSpec) -> Self:
        """The reference of the same protocol on a task."""
        return type(self)(self.base.for_task(spec))

    def _check(self, spec: TaskSpec) -> None:
        self.base._check(spec)

    def eval_values(self) -> list[str]:
        """The values of the protocol, one reference for each."""
        return self.base.eval_values()

    def parts(self, value: str) -> Mapping[OODAxis, str]:
        """What the value stands for; here it is met."""
        return self.base.parts(value)

    def eval_mask(self, index: pa.Table, value: str) -> Mask:
        """The scenes that the protocol's own fold scores."""
        return self.base.eval_mask(index, value)

    def train_mask(self, index: pa.Table, value: str, eval_split: str | None = None) -> Mask:
        """Any TRAIN scene may be drawn."""
        del value, eval_split
        return np.ones(index.num_rows, bool)

    def fit_size(self, index: pa.Table, value: str, eval_split: str | None = None) -> int:
        """As many as the protocol's own fold is fit on."""
        return self.base.fit_size(index, value, eval_split)

    def fit_mask(self, index: pa.Table, value: str, seed: int | None, eval_split: str | None = None) -> Mask:
        """The drawn scenes; InputError without a seed."""
        if seed is None:
            raise InputError(f"{self.name} {value}: draw_seed: none, expected the seed that drew the fit scenes")
        target = target_of(self.spec)
        strata = [np.asarray(pc.fill_null(index[axis.value], "")).astype(str) for axis in self.parts(value)]
        classes = target.strata(target.numbers(target.encode(index[target.column])))
        strata += [] if classes is None else [classes.astype(str)]
        # Captures of one session share a link and are alike: drawn one by one, they would bring in every session.
        groups, names = (
            [f"{seed}/{self.name}/{value}/{word}" for word in words]
            for words in (link_groups(index), index["scene_id"].to_pylist())
        )
        return stratified_draw(strata, groups, names, self.fit_size(index, value, eval_split))


_BY_AXIS: Mapping[OODAxis, type[_LeaveOneValueOut]] = {
    kind.axis: kind
    for kind in (
        LeaveOneEnvironmentOut,
        LeaveOneUnitOut,
        LeaveOneBandOut,
        LeaveOneSNRRegimeOut,
        LeaveOneWaveformOut,
        LeaveOneReceiverOut,
    )
}


def primary_protocol(spec: TaskSpec) -> OODProtocol:
    """The protocol that the TaskSpec pins."""
    return _BY_AXIS[spec.ood_axis](spec)


def reference_name(spec: TaskSpec, protocol: str) -> str:
    """Name of the reference of one of a task's protocols; a reference is its own."""
    if protocol.startswith(_REFERENCE):
        return protocol
    return _REFERENCE if protocol == _BY_AXIS[spec.ood_axis].name else f"{_REFERENCE}-{protocol}"


def base_name(spec: TaskSpec, protocol: str) -> str:
    """Name of the protocol that a reference belongs to; every other protocol is its own."""
    primary = _BY_AXIS[spec.ood_axis].name
    return primary if protocol == _REFERENCE else protocol.removeprefix(f"{_REFERENCE}-")


_REFERENCE = "in-distribution"


def _with_references(protocols: list[OODProtocol]) -> dict[str, OODProtocol]:
    """Protocols by name, each followed by its reference."""
    return {each.name: each for protocol in protocols for each in (protocol, InDistribution(protocol))}


def board_protocols(spec: TaskSpec) -> dict[str, OODProtocol]:
    """The protocols that the leaderboard shows for a task, by name: primary and secondary, each with its reference."""
    return _with_references([primary_protocol(spec), *(_BY_AXIS[entry.ood_axis](spec) for entry in spec.secondary)])


def task_protocols(spec: TaskSpec, stress_regimes: tuple[str, ...] = ()) -> dict[str, OODProtocol]:
    """All protocols of a task by name: the board's and, where it is none of them, the SNR stress."""
    protocols = board_protocols(spec)
    if stress_regimes and LeaveOneSNRRegimeOut.name not in protocols:
        protocols |= _with_references([LeaveOneSNRRegimeOut(spec, stress_regimes)])
    return protocols


def protocol_named(name: str, spec: TaskSpec, stress_regimes: tuple[str, ...] = ()) -> OODProtocol:
    """One of a task's protocols by its name; InputError for a name that is none of them."""
    protocols = task_protocols(spec, stress_regimes)
    if name not in protocols:
        raise InputError(f"protocol {name}: {advice(name, protocols)}")
    return protocols[name]


def _mask(index: pa.Table, axis: OODAxis, value: str) -> Mask:
    return np.asarray(pc.fill_null(pc.equal(index[axis.value], value), False))
