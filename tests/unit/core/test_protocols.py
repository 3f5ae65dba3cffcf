"""Folds: which scenes are on which side, and every way round the guards."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.data.enrolment import session_turns
from emma.data.folds import Fold, SplitNotAvailable, fold_table, read_fold, write_side
from emma.data.guards import guard_fold
from emma.data.protocols import (
    InDistribution,
    LeaveOneBandOut,
    LeaveOneEnvironmentOut,
    LeaveOneReceiverOut,
    LeaveOneSNRRegimeOut,
    LeaveOneUnitOut,
    LeaveOneWaveformOut,
    OODProtocol,
    base_name,
    board_protocols,
    primary_protocol,
    reference_name,
    task_protocols,
)
from emma.data.release import load_release_config
from emma.tasks import OODAxis, TaskID, TaskSpec

AOA, LOS, DRONE, FP, AMC = tuple(TaskID)[:5]
HASH = "a" * 64
SEED = 3


#: The tasks of release tiny, as in ``world``.
TASKS = tuple(load_release_config(Path(__file__).parents[3] / "config/releases/tiny.yaml").tasks)


def column(table: pa.Table, name: str) -> list:
    return table[name].to_pylist()


def replaced(table: pa.Table, name: str, values: list) -> pa.Table:
    number = table.schema.get_field_index(name)
    return table.set_column(number, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def rows_in(index: pa.Table, fold_side: pa.Table) -> pa.Table:
    return index.filter(pc.is_in(index["scene_id"], fold_side["scene_id"].combine_chunks()))


@pytest.fixture(params=TASKS, ids=str)
def every(request, world):
    """A task's protocols with its indexes."""
    task = request.param
    spec = world.manifest.tasks[task]
    protocols = task_protocols(spec, world.manifest.stress_regimes.get(task, ()))
    return protocols, *world.indexes(task)


def test_every_fold_of_every_protocol_passes_its_guard_in_memory_and_from_files(every, tmp_path):
    protocols, train, evaluation = every
    for name, protocol in protocols.items():
        for value in protocol.eval_values():
            fold = protocol.fold(value, train, evaluation, SEED)
            guard_fold(protocol, fold, train, evaluation)
            assert fold.undefined_reason is None
            for side in ("train", "eval"):
                write_side(tmp_path / f"{side}.parquet", fold, side, HASH)
            again = read_fold(tmp_path / "train.parquet", tmp_path / "eval.parquet", name, value, HASH)
            guard_fold(protocol, again, train, evaluation)
            assert again.train.equals(fold.train)
            assert again.eval.equals(fold.eval)


def test_the_order_of_an_index_changes_no_fold(every):
    protocols, train, evaluation = every
    for protocol in protocols.values():
        for value in protocol.eval_values():
            fold = protocol.fold(value, train, evaluation, SEED)
            turned = [index.take(list(range(index.num_rows))[::-1]) for index in (train, evaluation)]
            again = protocol.fold(value, *turned, SEED)
            assert again.train.equals(fold.train)
            assert again.eval.equals(fold.eval)
            assert column(fold.train, "scene_id") == sorted(column(fold.train, "scene_id"))


def test_a_fold_is_fit_without_the_value_and_scored_on_all_of_it(world):
    for task in (AOA, LOS, DRONE, AMC):
        protocol = primary_protocol(world.manifest.tasks[task])
        train, evaluation = world.indexes(task)
        axis = protocol.axis.value
        for value in protocol.eval_values():
            fold = protocol.fold(value, train, evaluation, SEED)
            assert value not in column(rows_in(train, fold.train), axis)
            assert fold.train.num_rows == sum(v != value for v in column(train, axis))
            assert set(column(rows_in(evaluation, fold.eval), axis)) == {value}
            assert fold.eval.num_rows == column(evaluation, axis).count(value)


def test_the_layered_band_leaves_both_out(world):
    protocol = LeaveOneBandOut(world.manifest.tasks[LOS])
    train, evaluation = world.indexes(LOS)
    assert len(protocol.eval_values()) == 4
    for value in protocol.eval_values():
        environment, band = value.split("+")
        fold = protocol.fold(value, train, evaluation, SEED)
        fit = rows_in(train, fold.train)
        assert environment not in column(fit, "environment")
        assert band not in column(fit, "frequency_band")
        scored = rows_in(evaluation, fold.eval)
        assert set(column(scored, "environment")) == {environment}
        assert set(column(scored, "frequency_band")) == {band}


def test_every_session_of_every_unit_enrols_in_turn(world):
    spec = world.manifest.tasks[FP]
    train, evaluation = world.indexes(FP)
    scenes = {row["scene_id"]: row for row in evaluation.to_pylist()}
    sessions = sorted(set(column(evaluation, "session")))
    for value in spec.held_out:
        fold = LeaveOneUnitOut(spec).fold(value, train, evaluation, SEED)
        assert value not in column(rows_in(train, fold.train), "device")
        assert column(fold.train, "turn") == [None] * fold.train.num_rows
        assert set(column(fold.eval, "scene_id")) == set(scenes)
        for row in fold.eval.to_pylist():
            capture = scenes[row["scene_id"]]
            assert row["role"] == ("query" if capture["device"] == value else "enrol")
            assert row["turn"] == sessions.index(capture["session"])
        asked = fold.queries.to_pylist()
        # Every capture of the unit, in every turn but that of its own session.
        assert len(asked) == column(evaluation, "device").count(value) * (len(sessions) - 1)
        assert all(scenes[row["scene_id"]]["session"] != sessions[row["turn"]] for row in asked)
        # No seed has a say.
        assert LeaveOneUnitOut(spec).fold(value, train, evaluation, SEED + 1).eval.equals(fold.eval)


def test_a_turn_is_a_units_own_session_in_sorted_order():
    units, sessions = np.array(list("bababa")), np.array(["b-2", "a-9", "b-1", "a-10", "b-2", "a-9"])
    assert session_turns(units, sessions).tolist() == [1, 1, 0, 0, 1, 1]


def test_a_secondary_axis_that_is_not_layered_is_left_out_alone(world):
    protocol = LeaveOneWaveformOut(world.manifest.tasks[DRONE])
    train, evaluation = world.indexes(DRONE)
    assert protocol.eval_values() == list(protocol.spec.secondary[0].held_out)
    for value in protocol.eval_values():
        fold = protocol.fold(value, train, evaluation, SEED)
        fit, scored = rows_in(train, fold.train), rows_in(evaluation, fold.eval)
        assert value not in column(fit, "waveform")
        assert set(column(scored, "waveform")) == {value}
        assert fit.num_rows == train.num_rows - column(train, "waveform").count(value)
        assert {"E_URBAN", "E_RURAL"} == set(column(fit, "environment")) == set(column(scored, "environment"))
        assert set(column(scored, "class")) == {"absent", "present"}


def test_a_reference_has_as_many_scenes_as_its_fold_and_the_values_in_their_share(every):
    protocols, train, evaluation = every
    for reference in protocols.values():
        if not isinstance(reference, InDistribution):
            continue
        draws = set()
        for value, seed in itertools.product(reference.eval_values(), (SEED, SEED + 1)):
            fold, own = (each.fold(value, train, evaluation, seed) for each in (reference, reference.base))
            assert fold.train.num_rows == own.train.num_rows
            assert fold.eval.equals(own.eval)
            assert (fold.draw_seed, own.draw_seed) == (seed, None)
            share = fold.train.num_rows / train.num_rows
            drawn = rows_in(train, fold.train)
            label = "class" if "class" in train.column_names else None
            strata = [axis.value for axis in reference.parts(value)] + [label] * bool(label)
            cells = list(zip(*(column(train, name) for name in strata), strict=True))
            taken = list(zip(*(column(drawn, name) for name in strata), strict=True))
            # Largest remainder: no stratum is further than one scene from its exact share.
            assert all(abs(taken.count(cell) - share * cells.count(cell)) < 1 for cell in set(cells))
            draws.add((value, seed, tuple(column(fold.train, "scene_id"))))
        assert len({ids for *_, ids in draws}) == len(draws)


def test_a_reference_of_another_draw_is_refused(world):
    train, evaluation = world.indexes(LOS)
    reference = InDistribution(LeaveOneEnvironmentOut(world.manifest.tasks[LOS]))
    fold, other = (reference.fold("E_URBAN", train, evaluation, seed) for seed in (SEED, SEED + 1))
    guard_fold(reference, fold, train, evaluation)
    with pytest.raises(SplitNotAvailable, match=f"train: other scenes than seed {SEED} draws"):
        guard_fold(reference, replace(fold, train=other.train), train, evaluation)
    with pytest.raises(SplitNotAvailable, match="other scenes than seed"):
        guard_fold(reference, replace(fold, draw_seed=SEED + 1), train, evaluation)
    with pytest.raises(SplitNotAvailable, match="draw_seed: None, expected the seed"):
        guard_fold(reference, replace(fold, draw_seed=None), train, evaluation)
    # One scene more or fewer than the fold has is no equal number.
    rest = train.filter(pc.invert(pc.is_in(train["scene_id"], fold.train["scene_id"].combine_chunks())))
    more = pa.concat_tables([fold.train, fold_table(reference.spec, rest.slice(0, 1), np.array(["fit"]))])
    for table in (fold.train.slice(1), more.sort_by("scene_id")):
        with pytest.raises(SplitNotAvailable, match="missing or occur twice"):
            guard_fold(reference, replace(fold, train=table), train, evaluation)
    plain = reference.base.fold("E_URBAN", train, evaluation, SEED)
    with pytest.raises(SplitNotAvailable, match=f"draw_seed: {SEED}, expected none"):
        guard_fold(reference.base, replace(plain, draw_seed=SEED), train, evaluation)


def test_a_reference_shares_the_value_and_never_a_scene_samples_or_link(world):
    train, evaluation = world.indexes(LOS)
    reference = InDistribution(LeaveOneEnvironmentOut(world.manifest.tasks[LOS]))
    fold = reference.fold("E_URBAN", train, evaluation, SEED)
    assert "E_URBAN" in column(rows_in(train, fold.train), "environment")
    for name, what in (("iq_sha256", "samples"), ("link_id", "propagation link")):
        met = column(rows_in(train, fold.train), name)[0]
        scored = column(evaluation, "scene_id").index(column(fold.eval, "scene_id")[0])
        cells = [*column(evaluation, name)[:scored], met, *column(evaluation, name)[scored + 1 :]]
        with pytest.raises(SplitNotAvailable, match=f"{name}: train and eval share a {what}"):
            guard_fold(reference, fold, train, replaced(evaluation, name, cells))


def test_a_reference_without_a_class_is_undefined(world):
    train, evaluation = world.indexes(FP)
    protocol = LeaveOneUnitOut(world.manifest.tasks[FP])
    without = train.filter(pc.not_equal(train["device"], "U02"))
    assert protocol.fold("U02", without, evaluation, SEED).undefined_reason is None
    reference = InDistribution(protocol)
    fold = reference.fold("U02", without, evaluation, SEED)
    assert fold.undefined_reason == "in-distribution U02: class U02 has no fit scene"
    guard_fold(reference, fold, without, evaluation)


def test_a_reference_of_units_that_no_fit_has_met_is_undefined(world):
    """HOLDOUT's units have the names of TRAIN's and are others: they are scored, and nothing is in-distribution."""
    train, evaluation = world.indexes(FP)
    opened = replaced(evaluation, "split", ["HOLDOUT"] * evaluation.num_rows)
    plain = world.manifest.tasks[FP].model_copy(update={"new_holdout_units": False})
    for spec, why in (
        (plain, None),
        (
            plain.model_copy(update={"new_holdout_units": True}),
            "in-distribution U02: the units of HOLDOUT are no TRAIN units, so that no fit has met them",
        ),
    ):
        for index, reason in ((evaluation, None), (opened, why)):
            protocol = LeaveOneUnitOut(spec)
            own = protocol.fold("U02", train, index, SEED)
            assert own.undefined_reason is None
            guard_fold(protocol, own, train, index)
            # Other units under the same names: every TRAIN unit is fit on, and one left out is a fold of its own.
            others = spec.new_holdout_units and index is opened
            assert (own.train.num_rows == train.num_rows) is others
            if others:
                fewer = LeaveOneUnitOut(plain).fold("U02", train, evaluation, SEED).train
                with pytest.raises(SplitNotAvailable, match="scenes are missing"):
                    guard_fold(protocol, replace(own, train=fewer), train, index)
            reference = InDistribution(protocol)
            fold = reference.fold("U02", train, index, SEED)
            assert fold.undefined_reason == reason
            guard_fold(reference, fold, train, index)
            if reason is not None:
                with pytest.raises(SplitNotAvailable, match="undefined_reason: None, expected in-distribution U02"):
                    guard_fold(reference, replace(fold, undefined_reason=None), train, index)


def test_a_protocol_of_another_axis_is_refused(world):
    specs = world.manifest.tasks
    for protocol, task in ((LeaveOneUnitOut, AOA), (LeaveOneEnvironmentOut, FP), (LeaveOneSNRRegimeOut, LOS)):
        with pytest.raises(InputError, match=f"{protocol.name}: ood_axis: the task is pinned to"):
            protocol(specs[task])
    for task in (AOA, FP, AMC):
        with pytest.raises(InputError, match=f"task is pinned to {specs[task].ood_axis}, expected frequency_band"):
            LeaveOneBandOut(specs[task])
    with pytest.raises(InputError, match="pinned to environment, frequency_band, expected waveform"):
        LeaveOneWaveformOut(specs[LOS])
    for kind in (LeaveOneReceiverOut, LeaveOneWaveformOut, LeaveOneBandOut):
        pinned = specs[LOS].model_copy(update={"ood_axis": kind.axis, "secondary": ()})
        assert type(primary_protocol(pinned)) is kind


def test_protocols_of_a_task(world):
    specs = world.manifest.tasks
    assert list(board_protocols(specs[LOS])) == [
        "leave-one-environment-out",
        "in-distribution",
        "leave-one-band-out",
        "in-distribution-leave-one-band-out",
    ]
    assert list(task_protocols(specs[FP], ("mid", "high"))) == [
        "leave-one-unit-out",
        "in-distribution",
        "leave-one-snr-regime-out",
        "in-distribution-leave-one-snr-regime-out",
    ]
    # Where the regime is the task's own axis, there is no second protocol of that name.
    assert list(task_protocols(specs[AMC], ("mid", "high"))) == ["leave-one-snr-regime-out", "in-distribution"]
    assert task_protocols(specs[AMC], ("mid", "high"))["leave-one-snr-regime-out"].eval_values() == [
        "low",
        "mid",
        "high",
    ]
    for spec in specs.values():
        for name, protocol in task_protocols(spec, ("mid", "high")).items():
            reference = task_protocols(spec, ("mid", "high"))[reference_name(spec, name)]
            assert reference.axis is None
            assert reference.eval_values() == protocol.eval_values()
            assert reference_name(spec, reference.name) == reference.name
            assert base_name(spec, reference.name) == base_name(spec, name) == reference.base.name


def test_another_value_is_refused(world):
    spec = world.manifest.tasks[AOA]
    with pytest.raises(InputError, match="value E_MOON: expected one of E_URBAN, E_RURAL"):
        LeaveOneEnvironmentOut(spec).fold("E_MOON", *world.indexes(AOA), SEED)


# What the guard refuses


@pytest.fixture
def guarded(world) -> Callable[..., tuple[OODProtocol, Fold, pa.Table, pa.Table]]:
    def of(task: TaskID, value: str | None = None):
        protocol = primary_protocol(world.manifest.tasks[task])
        indexes = world.indexes(task)
        return protocol, protocol.fold(value or protocol.eval_values()[0], *indexes, SEED), *indexes

    return of


def altered(fold: Fold, **sides) -> Fold:
    return replace(fold, **sides)


@pytest.mark.parametrize("task", [AOA, FP, AMC])
def test_swapped_sides_are_refused(guarded, task):
    protocol, fold, train, evaluation = guarded(task)
    swapped = altered(fold, train=fold.eval, eval=fold.train)
    with pytest.raises(SplitNotAvailable, match="not assigned to the split"):
        guard_fold(protocol, swapped, train, evaluation)
    # Even where the indexes are swapped with them, so that every id is where it is said to be.
    with pytest.raises(SplitNotAvailable, match="train draws from DEV"):
        guard_fold(protocol, swapped, evaluation, train)
    with pytest.raises(SplitNotAvailable, match="eval draws from DEV, TRAIN"):
        guard_fold(protocol, fold, train, pa.concat_tables([train, evaluation]))


def test_a_fold_of_another_protocol_or_value_is_refused(guarded, world):
    protocol, fold, train, evaluation = guarded(LOS)
    for other in (InDistribution(protocol), LeaveOneBandOut(protocol.spec)):
        with pytest.raises(SplitNotAvailable, match=f"expected a fold of {other.name}"):
            guard_fold(other, fold, train, evaluation)
    with pytest.raises(SplitNotAvailable, match="E_MOON: expected a fold of"):
        guard_fold(protocol, Fold(fold.protocol, "E_MOON", fold.train, fold.eval), train, evaluation)


def test_a_scene_of_the_other_split_is_refused(guarded):
    protocol, fold, train, evaluation = guarded(AOA)
    with pytest.raises(SplitNotAvailable, match="not assigned to the split that train draws from"):
        guard_fold(
            protocol, altered(fold, train=pa.concat_tables([fold.train, fold.eval.slice(0, 1)])), train, evaluation
        )
    with pytest.raises(SplitNotAvailable, match="not assigned to the split that eval draws from"):
        guard_fold(
            protocol, altered(fold, eval=pa.concat_tables([fold.eval, fold.train.slice(0, 1)])), train, evaluation
        )


def test_a_scene_on_the_wrong_side_of_the_value_is_refused(guarded, world):
    protocol, fold, train, evaluation = guarded(AOA)
    other = protocol.fold(protocol.eval_values()[1], *world.indexes(AOA), SEED)
    with pytest.raises(SplitNotAvailable, match="a train scene carries the held-out value"):
        guard_fold(protocol, altered(fold, train=other.train), train, evaluation)
    with pytest.raises(SplitNotAvailable, match="an eval scene does not carry the held-out value"):
        guard_fold(protocol, altered(fold, eval=other.eval), train, evaluation)


@pytest.mark.parametrize(("name", "what"), [("iq_sha256", "samples"), ("link_id", "propagation link")])
def test_shared_samples_and_links_are_refused(guarded, name, what):
    protocol, fold, train, evaluation = guarded(AOA)
    fit = column(fold.train, "scene_id")[5]
    scored = column(fold.eval, "scene_id")[2]
    shared = column(train.filter(pc.equal(train["scene_id"], fit)), name)[0]
    values = [
        shared if i == scored else v
        for i, v in zip(column(evaluation, "scene_id"), column(evaluation, name), strict=True)
    ]
    with pytest.raises(SplitNotAvailable, match=f"{name}: train and eval share a {what}"):
        guard_fold(protocol, fold, train, replaced(evaluation, name, values))


def test_scenes_without_a_link_share_none(guarded):
    protocol, fold, train, evaluation = guarded(AOA)
    bare = [replaced(index, "link_id", [None] * index.num_rows) for index in (train, evaluation)]
    guard_fold(protocol, fold, *bare)


@pytest.mark.parametrize("task", [AOA, LOS, FP])
@pytest.mark.parametrize("side", ["train", "eval"])
def test_a_missing_scene_is_refused(guarded, task, side):
    protocol, fold, train, evaluation = guarded(task)
    table = getattr(fold, side)
    for row in (0, table.num_rows - 1):
        kept = pc.invert(pc.equal(table["scene_id"], table["scene_id"][row]))
        with pytest.raises(SplitNotAvailable, match=r"missing or occur twice|every evaluation capture of every unit"):
            guard_fold(protocol, altered(fold, **{side: table.filter(kept)}), train, evaluation)


@pytest.mark.parametrize("side", ["train", "eval"])
def test_a_repeated_scene_is_refused(guarded, side):
    protocol, fold, train, evaluation = guarded(AOA)
    table = getattr(fold, side)
    doubled = pa.concat_tables([table, table.slice(3, 1)]).sort_by("scene_id")
    with pytest.raises(SplitNotAvailable, match="missing or occur twice"):
        guard_fold(protocol, altered(fold, **{side: doubled}), train, evaluation)


@pytest.mark.parametrize("side", ["train", "eval"])
@pytest.mark.parametrize("task", [AOA, LOS, FP])
def test_a_changed_label_is_refused(guarded, task, side):
    protocol, fold, train, evaluation = guarded(task)
    table = getattr(fold, side)
    targets = column(table, "target")
    for change in ([*targets[:-1], 1.0 + (targets[-1] == 1.0)], targets[::-1]):
        if change == targets:
            continue
        with pytest.raises(SplitNotAvailable, match=f"{side}: order, session, target or turn differ"):
            guard_fold(protocol, altered(fold, **{side: replaced(table, "target", change)}), train, evaluation)


def test_changed_sessions_and_another_order_are_refused(guarded):
    protocol, fold, train, evaluation = guarded(FP)
    merged = replaced(fold.eval, "session", ["one"] * fold.eval.num_rows)
    with pytest.raises(SplitNotAvailable, match="eval: order, session, target or turn differ"):
        guard_fold(protocol, altered(fold, eval=merged), train, evaluation)
    turned = fold.train.take(list(range(fold.train.num_rows))[::-1])
    with pytest.raises(SplitNotAvailable, match="train: order, session, target or turn differ"):
        guard_fold(protocol, altered(fold, train=turned), train, evaluation)


def test_roles_cannot_take_scenes_out_of_the_score(guarded):
    protocol, fold, train, evaluation = guarded(AOA)
    for role, message in (("enrol", "role: enrol"), ("spare", "role: expected"), ("", "role: expected")):
        table = replaced(fold.eval, "role", [role, *column(fold.eval, "role")[1:]])
        with pytest.raises(SplitNotAvailable, match=message):
            guard_fold(protocol, altered(fold, eval=table), train, evaluation)
    table = replaced(fold.train, "role", ["query", *column(fold.train, "role")[1:]])
    with pytest.raises(SplitNotAvailable, match="role: expected fit in train"):
        guard_fold(protocol, altered(fold, train=table), train, evaluation)


def test_roles_of_captures_are_those_of_the_value(guarded):
    protocol, fold, train, evaluation = guarded(FP)
    roles = column(fold.eval, "role")
    for before, after, message in (
        ("query", "enrol", "role: enrol, expected query for every capture that has the held-out value"),
        ("enrol", "query", "does not carry the held-out value"),
    ):
        where = roles.index(before)
        table = replaced(fold.eval, "role", [*roles[:where], after, *roles[where + 1 :]])
        with pytest.raises(SplitNotAvailable, match=message):
            guard_fold(protocol, altered(fold, eval=table), train, evaluation)


def test_another_turn_is_refused(guarded):
    protocol, fold, train, evaluation = guarded(FP)
    turns = column(fold.eval, "turn")
    for change in ([(turn + 1) % 3 for turn in turns], [0] * len(turns), [None] * len(turns)):
        with pytest.raises(SplitNotAvailable, match="eval: order, session, target or turn differ"):
            guard_fold(protocol, altered(fold, eval=replaced(fold.eval, "turn", change)), train, evaluation)


def test_an_enrolment_receiver_among_the_queries_is_refused_in_every_turn(guarded):
    protocol, fold, train, evaluation = guarded(FP)
    pairs = list(zip(column(evaluation, "device"), column(evaluation, "session"), strict=True))
    sessions = sorted({session for _, session in pairs})
    for session in sessions[1:]:
        # One later session of the queried unit at the first one's receiver: it enrols in the other's turn.
        receivers = [
            "R0" if pair == (fold.held_out_value, session) else receiver
            for pair, receiver in zip(pairs, column(evaluation, "receiver"), strict=True)
        ]
        shared = replaced(evaluation, "receiver", receivers)
        with pytest.raises(SplitNotAvailable, match="device U01: receiver R0 both enrols and queries it"):
            guard_fold(protocol, fold, train, shared)
        with pytest.raises(InputError, match="device U01: receiver R0 both enrols and queries it"):
            protocol.fold(fold.held_out_value, train, shared, SEED)


def test_a_gallery_that_lacks_a_capture_is_refused(guarded):
    protocol, fold, train, evaluation = guarded(FP)
    units, scenes = column(evaluation, "device"), column(evaluation, "scene_id")
    other = next(i for i, scene in enumerate(column(fold.eval, "scene_id")) if units[scenes.index(scene)] == "U02")
    kept = [i for i in range(fold.eval.num_rows) if i != other]
    with pytest.raises(SplitNotAvailable, match="expected every evaluation capture of every unit"):
        guard_fold(protocol, altered(fold, eval=fold.eval.take(kept)), train, evaluation)


def test_the_reason_of_an_undefined_fold_is_neither_added_nor_dropped(guarded):
    protocol, fold, train, evaluation = guarded(LOS)
    with pytest.raises(SplitNotAvailable, match="undefined_reason: too hard, expected None"):
        guard_fold(protocol, altered(fold, undefined_reason="too hard"), train, evaluation)
    one_class = train.filter(pc.equal(train["class"], "LOS"))
    undefined = protocol.fold(fold.held_out_value, one_class, evaluation, SEED)
    assert undefined.undefined_reason == "leave-one-environment-out E_URBAN: class NLOS has no fit scene"
    guard_fold(protocol, undefined, one_class, evaluation)
    with pytest.raises(SplitNotAvailable, match="undefined_reason: None, expected leave-one"):
        guard_fold(protocol, altered(undefined, undefined_reason=None), one_class, evaluation)


def test_folds_without_classes_or_scenes_are_undefined(world):
    spec = world.manifest.tasks[LOS]
    train, evaluation = world.indexes(LOS)
    protocol = LeaveOneEnvironmentOut(spec)
    cases = {
        "class LOS has no scored scene": (train, evaluation.filter(pc.equal(evaluation["class"], "NLOS"))),
        "no scenes to fit on": (train.slice(0, 0), evaluation),
        "no scenes to score": (train, evaluation.slice(0, 0)),
    }
    for reason, indexes in cases.items():
        fold = protocol.fold("E_RURAL", *indexes, SEED)
        assert fold.undefined_reason == f"leave-one-environment-out E_RURAL: {reason}"
        guard_fold(protocol, fold, *indexes)
    units = world.manifest.tasks[FP]
    fit, scored = world.indexes(FP)
    without = fit.filter(pc.not_equal(fit["device"], "U02"))
    assert LeaveOneUnitOut(units).fold("U02", without, scored, SEED).undefined_reason is None
    assert "class U02 has no fit scene" in LeaveOneUnitOut(units).fold("U01", without, scored, SEED).undefined_reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.filter(pc.or_(pc.not_equal(t["device"], "U01"), pc.equal(t["session"], "DEV0"))),
            "1 evaluation sess",
        ),
        (lambda t: t.filter(pc.not_equal(t["device"], "U01")), "U01: 0 evaluation sessions"),
        (lambda t: replaced(t, "receiver", ["R0"] * t.num_rows), "receiver R0 both enrols and queries"),
        (lambda t: t.slice(1), "turn 0: captures per device"),
        (lambda t: replaced(t, "session", [None, *column(t, "session")[1:]]), "session: null"),
        (lambda t: replaced(t, "receiver", [None] * t.num_rows), "receiver: null"),
    ],
)
def test_devices_that_cannot_be_enrolled_are_refused(world, change, message):
    train, evaluation = world.indexes(FP)
    protocol = LeaveOneUnitOut(world.manifest.tasks[FP])
    with pytest.raises(InputError, match=message):
        protocol.fold("U01", train, change(evaluation), SEED)


def test_a_label_that_the_task_does_not_know_is_refused(world):
    train, evaluation = world.indexes(LOS)
    odd = replaced(train, "class", ["los", *column(train, "class")[1:]])
    with pytest.raises(InputError, match="class: a scene without a label of the task"):
        LeaveOneEnvironmentOut(world.manifest.tasks[LOS]).fold("E_RURAL", odd, evaluation, SEED)


def test_files_of_another_fold_are_refused(guarded, tmp_path, world):
    protocol, fold, *indexes = guarded(AOA)
    train, evaluation = tmp_path / "train.parquet", tmp_path / "eval.parquet"
    other = protocol.fold(protocol.eval_values()[1], *indexes, SEED)
    write_side(train, fold, "train", HASH)
    write_side(evaluation, other, "eval", HASH)
    with pytest.raises(SplitNotAvailable, match=r"eval\.parquet: fold leave-one-environment-out E_RURAL, expected"):
        read_fold(train, evaluation, protocol.name, fold.held_out_value, HASH)
    pq.write_table(fold.eval, evaluation)
    with pytest.raises(SplitNotAvailable, match="fold None None, expected"):
        read_fold(train, evaluation, protocol.name, fold.held_out_value, HASH)
    doubled = pa.concat_tables([fold.eval, fold.eval.slice(0, 1)])
    write_side(evaluation, altered(fold, eval=doubled), "eval", HASH)
    with pytest.raises(InputError, match="occurs twice"):
        read_fold(train, evaluation, protocol.name, fold.held_out_value, HASH)
    write_side(evaluation, replace(fold, draw_seed="x"), "eval", HASH)
    with pytest.raises(SplitNotAvailable, match=r"train\.parquet: data_release_hash: expected b{64}, that of"):
        read_fold(train, evaluation, protocol.name, fold.held_out_value, "b" * 64)
    with pytest.raises(InputError, match="draw_seed: x, expected a number"):
        read_fold(train, evaluation, protocol.name, fold.held_out_value, HASH)


def test_a_fold_says_its_split_and_what_drew_it(guarded):
    protocol, fold, *indexes = guarded(AOA)
    reference = InDistribution(protocol).fold(fold.held_out_value, *indexes, SEED)
    assert [(each.eval_split, each.draw_seed) for each in (fold, reference)] == [("DEV", None), ("DEV", SEED)]


def test_names_of_classes_are_numbered_by_the_spec_alone(world):
    spec: TaskSpec = world.manifest.tasks[LOS]
    train, evaluation = world.indexes(LOS)
    fold = LeaveOneEnvironmentOut(spec).fold("E_URBAN", train, evaluation, SEED)
    named = dict(zip(column(train, "scene_id"), column(train, "class"), strict=True))
    expected = [float(spec.classes.index(named[scene])) for scene in column(fold.train, "scene_id")]
    assert column(fold.train, "target") == expected
    np.testing.assert_array_equal(np.unique(expected), [0, 1])


def test_both_sides_of_a_fold_say_the_same(world, tmp_path):
    indexes, spec = world.indexes(TaskID.E_ID_FP), world.manifest.spec(TaskID.E_ID_FP)
    fold = primary_protocol(spec).fold("U01", *indexes, 0)
    paths = tmp_path / "train.parquet", tmp_path / "eval.parquet"
    release = world.manifest.data_release_hash
    for path, side in zip(paths, ("train", "eval"), strict=True):
        write_side(path, fold, side, release)
    read_fold(*paths, fold.protocol, "U01", release)
    write_side(paths[0], replace(fold, draw_seed=999), "train", release)
    with pytest.raises(InputError, match=r"train\.parquet: draw_seed: differs from .*eval\.parquet"):
        read_fold(*paths, fold.protocol, "U01", release)


def test_a_protocol_is_named_without_a_task_and_bound_to_one(world):
    """``LeaveOneEnvironmentOut()`` knows its axis alone; a task gives it held-out values, folds and a head."""
    free, spec = LeaveOneEnvironmentOut(), world.manifest.spec(TaskID.E_LOC_LOS)
    assert free.axis is OODAxis.ENVIRONMENT
    for needs_a_task in (free.eval_values, free.readout_head):
        with pytest.raises(InputError, match="leave-one-environment-out: no task"):
            needs_a_task()
    bound = free.for_task(spec)
    assert bound.eval_values() == list(spec.held_out)
    assert (bound.readout_head().kind, bound.readout_head().tensors) == ("logistic", {})
    with pytest.raises(InputError, match="the task is pinned to device"):
        free.for_task(world.manifest.spec(TaskID.E_ID_FP))
    with pytest.raises(InputError, match="no task"):
        free.eval_values()
