"""OOD protocols: which scenes are fit on, which are scored, and the guards that keep the two apart.

A fold holds out one value of an axis: the readout is fit on TRAIN scenes without that value and scored on evaluation
scenes that have it (WILDS, Koh et al., arXiv:2012.07421).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.hashing import sha256
from emma.data.tables import metadata_of, read_table, rows_of, unique_ids, write_table
from emma.tasks import OODAxis, Split, TaskSpec, target_of

#: One row a scene of a fold. ``role``: fit, query (scored) or enrol (gallery). ``session``: the bootstrap's unit, where
#: captures of one session are alike. ``target``: degrees, or the index of the class in the TaskSpec.
FOLD_SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("session", pa.string()),
        pa.field("target", pa.float64(), nullable=False),
    ]
)


class SplitNotAvailable(InputError):  # noqa: N818 (the protocol's own name)
    """A fold whose train and eval scenes are not what the protocol and the manifest allow; it is never scored."""


@dataclass(frozen=True)
class Fold:
    """One fold: FOLD_SCHEMA tables of fit scenes and of evaluation scenes, and why it is undefined, if it is.

    ``eval_split``: the split that it is scored on; ``enrolment_seed``: what drew its gallery, where it has one.
    """

    protocol: str
    held_out_value: str
    train: pa.Table
    eval: pa.Table
    undefined_reason: str | None = None
    eval_split: str | None = None
    enrolment_seed: int | None = None

    @property
    def queries(self) -> pa.Table:
        """The evaluation scenes that are scored."""
        return self.eval.filter(pc.equal(self.eval["role"], "query"))


class FoldFacts(Protocol):
    """What is known of a fold before and after its fit."""

    @property
    def eval_split(self) -> str | None:
        """The split that it is scored on."""

    @property
    def enrolment_seed(self) -> int | None:
        """What drew its gallery, where it has one."""

    @property
    def undefined_reason(self) -> str | None:
        """Why it cannot be scored, if it cannot."""


class OODProtocol(ABC):
    """A way to make folds: an axis, its held-out values in order, and the rows of a fold.

    Args:
        spec: the task's pinned declaration.

    Raises:
        InputError: the TaskSpec does not pin this protocol's axis.
    """

    name: str
    axis: OODAxis | None

    def __init__(self, spec: TaskSpec) -> None:
        if self.axis is not None and spec.ood_axis is not self.axis:
            raise InputError(
                f"{self.name}: ood_axis: the task is pinned to {spec.ood_axis.value}, expected {self.axis.value}"
            )
        self.spec = spec

    def eval_values(self) -> list[str]:
        """The held-out values, in the order of the TaskSpec."""
        return list(self.spec.held_out)

    @abstractmethod
    def held_out(self, index: pa.Table, value: str) -> np.ndarray:
        """Mask ``[rows]`` of the scenes that fold ``value`` scores."""

    def fitted(self, index: pa.Table, value: str) -> np.ndarray:
        """Mask ``[rows]`` of the scenes that fold ``value`` is fit on: those that do not carry the value."""
        return ~self.held_out(index, value)

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
        train = train_index.filter(pa.array(self.fitted(train_index, value)))
        queries = self.held_out(eval_index, value)
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
        )
        split = eval_index["split"][0].as_py() if eval_index.num_rows else None
        facts = {"eval_split": split, "enrolment_seed": seed if enrols else None}
        return replace(fold, undefined_reason=self.undefined_reason(fold), **facts)

    def _enrol(self, index: pa.Table, queries: np.ndarray, seed: int) -> np.ndarray:
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
            raise InputError(f"enrolment: captures a device {counts}, expected the same number for each")
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

    def held_out(self, index: pa.Table, value: str) -> np.ndarray:
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

    def __init__(self, spec: TaskSpec, stress: tuple[str, ...] | None = None) -> None:
        if stress is None:
            super().__init__(spec)
        self.spec, self.stress = spec, stress

    def eval_values(self) -> list[str]:
        """The regimes of the stress report, or the TaskSpec's."""
        return list(self.spec.held_out if self.stress is None else self.stress)


class LeaveOneBandOut(OODProtocol):
    """An unseen frequency band layered on an unseen environment: neither was met in training.

    Fold ``environment+band`` is fit on scenes of other environments in other bands, and scored on scenes of both.
    """

    name = "leave-one-band-out"
    axis = OODAxis.FREQUENCY_BAND

    def __init__(self, spec: TaskSpec) -> None:
        if spec.ood_axis is not OODAxis.ENVIRONMENT or not spec.layered_band:
            raise InputError(f"{self.name}: layered_band: expected a task pinned to environment that lists its bands")
        self.spec = spec

    def eval_values(self) -> list[str]:
        """Pairs ``environment+band``, environments first."""
        return [f"{environment}+{band}" for environment in self.spec.held_out for band in self.spec.layered_band]

    def held_out(self, index: pa.Table, value: str) -> np.ndarray:
        """Mask of the scenes that have both the environment and the band."""
        environment, band = value.split("+")
        return _mask(index, OODAxis.ENVIRONMENT, environment) & _mask(index, OODAxis.FREQUENCY_BAND, band)

    def fitted(self, index: pa.Table, value: str) -> np.ndarray:
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

    def held_out(self, index: pa.Table, value: str) -> np.ndarray:
        """Every scene is scored."""
        return np.ones(index.num_rows, bool)

    def fitted(self, index: pa.Table, value: str) -> np.ndarray:
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


def fold_table(spec: TaskSpec, index: pa.Table, roles: np.ndarray) -> pa.Table:
    """A FOLD_SCHEMA table of index rows, in scene-id order."""
    kind = target_of(spec)
    target = kind.encode(index[kind.column])
    if target.null_count:
        raise InputError(f"{kind.column}: a scene without a label of the task, expected one for every scene")
    session = kind.groups(index)
    table = pa.table([index["scene_id"], pa.array(roles, pa.string()), session, target], schema=FOLD_SCHEMA)
    return table.sort_by("scene_id")


def fold_metadata(fold: FoldFacts, data_release_hash: str) -> dict[str, str]:
    """What the schema metadata of a fold's files says: release, evaluation split, enrolment seed, why undefined."""
    facts = {
        "data_release_hash": data_release_hash,
        "eval_split": fold.eval_split,
        "enrolment_seed": fold.enrolment_seed,
        "undefined_reason": fold.undefined_reason,
    }
    return {key: str(fact) for key, fact in facts.items() if fact is not None}


def write_side(path: str | Path, fold: Fold, side: Literal["train", "eval"], data_release_hash: str) -> None:
    """Write one side of a fold with its name and what ``fold_metadata`` says of it."""
    naming = {"protocol": fold.protocol, "held_out_value": fold.held_out_value}
    table = fold.train if side == "train" else fold.eval
    write_table(path, table, naming | fold_metadata(fold, data_release_hash))


def read_side(path: str | Path, protocol: str, held_out_value: str, data_release_hash: str) -> pa.Table:
    """Read one side that ``write_side`` wrote.

    Raises:
        InputError: a broken file.
        SplitNotAvailable: another fold's, or one of another release.
    """
    table = read_table(path, FOLD_SCHEMA)
    metadata = metadata_of(table)
    if (metadata.get("protocol"), metadata.get("held_out_value")) != (protocol, held_out_value):
        actual = f"{metadata.get('protocol')} {metadata.get('held_out_value')}"
        raise SplitNotAvailable(f"{path}: fold {actual}, expected {protocol} {held_out_value}")
    if metadata.get("data_release_hash") != data_release_hash:
        raise SplitNotAvailable(f"{path}: data_release_hash: expected {data_release_hash}, that of the release")
    unique_ids(path, table["scene_id"])
    return table


def read_fold(
    train: str | Path, evaluation: str | Path, protocol: str, held_out_value: str, data_release_hash: str
) -> Fold:
    """Read the sides that ``write_side`` wrote; raises what ``read_side`` raises."""
    place = (protocol, held_out_value)
    sides = read_side(train, *place, data_release_hash), read_side(evaluation, *place, data_release_hash)
    metadata = metadata_of(sides[1])
    seed = metadata.get("enrolment_seed")
    if seed is not None and not seed.isdecimal():
        raise InputError(f"{evaluation}: enrolment_seed: {seed}, expected a number of 0 or more")
    drawn = None if seed is None else int(seed)
    return Fold(*place, *sides, metadata.get("undefined_reason"), metadata.get("eval_split"), drawn)


def guard_fold(protocol: OODProtocol, fold: Fold, train_index: pa.Table, eval_index: pa.Table) -> None:
    """Refuse a fold whose scenes are not those that the protocol and the manifest's assignments allow.

    Args:
        protocol: the protocol under which the fold is said to be.
        fold: the fold as it would be fit and scored.
        train_index: the frozen index of TRAIN, checked against the manifest.
        eval_index: the frozen index of the evaluation split, checked against the manifest.

    Raises:
        SplitNotAvailable: the fold is another protocol's, or a side draws from a split that is not its own; a scene
            is not assigned to its side's split, is on the wrong side of the held-out value, or is on both sides by id,
            by samples or by propagation link; a scene of the protocol's is missing or stands twice; a label, session
            or role is not the one that index and protocol give it.
    """
    where = f"fold {fold.protocol} {fold.held_out_value}"
    sides: Mapping[str, tuple[pa.Table, pa.Table]] = {
        "train": (fold.train, train_index),
        "eval": (fold.eval, eval_index),
    }
    if fold.protocol != protocol.name or fold.held_out_value not in protocol.eval_values():
        raise SplitNotAvailable(f"{where}: expected a fold of {protocol.name}")
    rows = {}
    for side, (table, index) in sides.items():
        # Two indexes in each other's place agree with a fold made of them, though not with what their scenes say.
        splits = set(index["split"].unique().to_pylist())
        allowed = {Split.TRAIN.value} if side == "train" else {Split.DEV.value, Split.HOLDOUT.value}
        if len(splits) > 1 or not splits <= allowed:
            raise SplitNotAvailable(f"{where}: {side} draws from {', '.join(sorted(splits))}")
        try:
            rows[side] = index.take(pa.array(rows_of(index["scene_id"], table["scene_id"], where)))
        except InputError as error:
            raise SplitNotAvailable(f"{error}: not assigned to the split that {side} draws from") from None
    if not protocol.fitted(rows["train"], fold.held_out_value).all():
        raise SplitNotAvailable(f"{where}: a train scene carries the held-out value")
    queries = np.asarray(fold.eval["role"].to_pylist()) == "query"
    if not protocol.held_out(rows["eval"], fold.held_out_value)[queries].all():
        raise SplitNotAvailable(f"{where}: an eval scene does not carry the held-out value")
    for column, what in (("scene_id", "scene"), ("iq_sha256", "samples"), ("link_id", "propagation link")):
        shared = pc.is_in(rows["eval"][column], value_set=rows["train"][column].combine_chunks().drop_null())
        if pc.any(shared).as_py():
            raise SplitNotAvailable(f"{where}: {column}: train and eval share a {what}")
    _guard_content(protocol, fold, rows, (train_index, eval_index))


def _guard_content(
    protocol: OODProtocol, fold: Fold, rows: Mapping[str, pa.Table], assigned: tuple[pa.Table, pa.Table]
) -> None:
    """Refuse a fold that is not all that the protocol makes of the indexes, or has other labels, sessions or roles."""
    where = f"fold {fold.protocol} {fold.held_out_value}"
    roles = {"train": fold.train["role"].to_pylist(), "eval": fold.eval["role"].to_pylist()}
    for side, table in {"train": fold.train, "eval": fold.eval}.items():
        if not fold_table(protocol.spec, rows[side], np.array(roles[side], str)).equals(table):
            raise SplitNotAvailable(f"{where}: {side}: order, session or target differ from the index of the split")
    value = fold.held_out_value
    expected = protocol.fitted(assigned[0], value), protocol.held_out(assigned[1], value)
    actual = len(set(fold.train["scene_id"].to_pylist())), int(protocol.held_out(rows["eval"], value).sum())
    if (fold.train.num_rows, *actual) != (actual[0], expected[0].sum(), expected[1].sum()):
        raise SplitNotAvailable(f"{where}: scenes are missing or stand twice, expected every scene of the value once")
    enrol = np.array(roles["eval"], str) == "enrol"
    if set(roles["train"]) - {"fit"} or set(roles["eval"]) - {"enrol", "query"}:
        raise SplitNotAvailable(f"{where}: role: expected fit in train, query or enrol in eval")
    enrols = target_of(protocol.spec).enrols
    if not enrols and enrol.any():
        raise SplitNotAvailable(f"{where}: role: enrol, expected query alone for this task")
    if enrols:
        _guard_gallery(where, protocol.spec, rows["eval"], enrol, assigned[1])
    reason = protocol.undefined_reason(fold)
    if reason != fold.undefined_reason:
        raise SplitNotAvailable(f"{where}: undefined_reason: {fold.undefined_reason}, expected {reason}")


def _guard_gallery(where: str, spec: TaskSpec, rows: pa.Table, enrol: np.ndarray, index: pa.Table) -> None:
    """Refuse a gallery that is not one whole session of each unit, or shares its receiver with a query of the unit."""
    gallery = rows.filter(pa.array(enrol))
    chains = pc.binary_join_element_wise(rows["device"], rows["receiver"], "/").to_numpy()
    if np.isin(chains[~enrol], chains[enrol]).any():
        raise SplitNotAvailable(f"{where}: receiver: a device is enrolled and queried at one")
    sessions = set(zip(gallery["device"].to_pylist(), gallery["session"].to_pylist(), strict=True))
    pairs = zip(index["device"].to_pylist(), index["session"].to_pylist(), strict=True)
    whole = sum(pair in sessions for pair in pairs)
    if sorted(device for device, _ in sessions) != sorted(spec.classes) or gallery.num_rows != whole:
        raise SplitNotAvailable(f"{where}: role: expected one whole enrolment session of each device")


def _mask(index: pa.Table, axis: OODAxis | None, value: str) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.equal(index[axis.value], value), False))
