"""A fold that is not what protocol and manifest allow raises ``SplitNotAvailable``; it is never scored."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from common.errors import InputError
from emma import LeaveOneEnvironmentOut, ProtocolRunner, SplitNotAvailable, TaskID
from emma.data.embeddings import Embeddings
from emma.data.folds import fold_table, read_fold, write_side
from emma.data.guards import guard_fold
from emma.data.protocols import InDistribution, board_protocols, primary_protocol, task_protocols
from emma.evaluation import fitting
from emma.evaluation.fitting import fit_fold

HASH = "a" * 64
ENVIRONMENTS = ("E_URBAN", "E_RURAL")


class Setting:
    """A task's protocol, indexes and honest folds."""

    def __init__(self, small, task: str) -> None:
        self.manifest = small.manifest
        self.spec = small.manifest.spec(task)
        self.protocol = primary_protocol(self.spec)
        self.assigned = small.index(task)
        self.embeddings = small.embedded(task)

    def fold(self, value: str):
        return self.protocol.fold(value, *self.assigned, 0)

    def fit(self, fold, protocol=None):
        return fit_fold(self.spec, protocol or self.protocol, fold, self.assigned, self.embeddings)

    def rows(self, side: int, mask: np.ndarray, role: str) -> pa.Table:
        index = self.assigned[side].filter(pa.array(mask))
        return fold_table(self.spec, index, np.full(index.num_rows, role))


@pytest.fixture(scope="module")
def los(small) -> Setting:
    return Setting(small, "E-LOC-LOS")


@pytest.fixture(scope="module")
def units(small) -> Setting:
    return Setting(small, "E-ID-FP")


def joined(*tables: pa.Table) -> pa.Table:
    return pa.concat_tables(tables).sort_by("scene_id")


def as_role(table: pa.Table, role: str) -> pa.Table:
    return table.set_column(1, table.schema.field("role"), pa.array([role] * table.num_rows))


def test_honest_folds_pass(small) -> None:
    for task in small.manifest.tasks:
        setting = Setting(small, task)
        for protocol in task_protocols(setting.spec, small.manifest.stress_regimes.get(task, ())).values():
            for value in protocol.eval_values():
                guard_fold(protocol, protocol.fold(value, *setting.assigned, 0), *setting.assigned)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_swapped_sides(los, environment: str, monkeypatch) -> None:
    fold = los.fold(environment)
    swapped = replace(fold, train=as_role(fold.eval, "fit"), eval=as_role(fold.train, "query"))
    with pytest.raises(SplitNotAvailable, match="not assigned"):
        los.fit(swapped)
    # Off, the guard is what stood between the swap and a score.
    monkeypatch.setattr(fitting, "guard_fold", lambda *_: None)
    monkeypatch.setattr(fitting, "rows_of", lambda _ids, wanted, _where: np.arange(len(wanted)))
    scored = set(los.fit(swapped).predictions["scene_id"].to_pylist())
    assert scored == set(fold.train["scene_id"].to_pylist())


def swapped_environments(los, environment: str):
    """A true swap: fit on TRAIN scenes of the held-out environment, score DEV scenes of the training one."""
    fold = los.fold(environment)
    train, evaluation = (los.protocol.eval_mask(index, environment) for index in los.assigned)
    return fold, replace(fold, train=los.rows(0, train, "fit"), eval=los.rows(1, ~evaluation, "query"))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_swapped_environments(los, environment: str, monkeypatch) -> None:
    """Refused by the guard; without it, the fold would be fit and scored, on no scene that the honest one has."""
    fold, swapped = swapped_environments(los, environment)
    with pytest.raises(SplitNotAvailable, match="train scene carries the held-out value"):
        los.fit(swapped)
    monkeypatch.setattr(fitting, "guard_fold", lambda *_: None)
    for side in ("train", "eval"):
        honest, other = (set(getattr(each, side)["scene_id"].to_pylist()) for each in (fold, swapped))
        assert honest.isdisjoint(other)
        assert len(honest | other) == los.assigned[side == "eval"].num_rows
    predictions = los.fit(swapped).predictions
    assert set(predictions["scene_id"].to_pylist()) == set(swapped.eval["scene_id"].to_pylist())


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_swapped_splits_in_the_runner(los, environment: str, monkeypatch) -> None:
    """Each argument in the other's place: consistent with itself, and not with the manifest's assignments."""
    swapped = los.assigned[::-1]
    with pytest.raises(SplitNotAvailable, match="train draws from DEV"):
        ProtocolRunner(los.manifest, "E-LOC-LOS", los.protocol, 0).run(los.embeddings, *swapped)
    monkeypatch.setattr(fitting, "guard_fold", lambda *_: None)
    run = ProtocolRunner(los.manifest, "E-LOC-LOS", los.protocol, 0).run(los.embeddings, *swapped)
    scored = set(run.folds[environment].predictions["scene_id"].to_pylist())
    train = los.assigned[0].filter(pa.array(los.protocol.eval_mask(los.assigned[0], environment)))
    assert scored == set(train["scene_id"].to_pylist())


def test_one_split_on_both_sides(los) -> None:
    train = los.assigned[0]
    with pytest.raises(SplitNotAvailable, match="eval draws from"):
        ProtocolRunner(los.manifest, "E-LOC-LOS", los.protocol, 0).run(los.embeddings, train, train)


def test_swapped_splits_on_disk(small, tmp_path) -> None:
    """The Evaluator checks each index against the manifest's hash of that split."""
    from emma import Evaluator

    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "manifest.json").write_bytes((small.results / "release" / "manifest.json").read_bytes())
    folder = tmp_path / "scenes" / "E-LOC-LOS"
    folder.mkdir(parents=True)
    for ours, theirs in (("TRAIN", "DEV"), ("DEV", "TRAIN")):
        for kind in ("parquet", "index.parquet", "labels.parquet"):
            (folder / f"{ours}.{kind}").symlink_to(small.results / "scenes" / "E-LOC-LOS" / f"{theirs}.{kind}")
    backbone, provenance, config = small.model("prior")
    evaluator = Evaluator("small", results=tmp_path)
    with pytest.raises(InputError, match="content differs from the manifest"):
        evaluator.evaluate(backbone, TaskID.E_LOC_LOS, config=config, provenance=provenance)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_one_leaking_scene(los, environment: str) -> None:
    fold = los.fold(environment)
    held_out = los.protocol.eval_mask(los.assigned[0], environment)
    leaks = {
        "carries the held-out value": los.rows(0, held_out, "fit").slice(0, 1),
        "not assigned": as_role(fold.eval.slice(0, 1), "fit"),
    }
    for message, scene in leaks.items():
        with pytest.raises(SplitNotAvailable, match=message):
            los.fit(replace(fold, train=joined(fold.train, scene)))


def test_one_foreign_scene_is_scored(los) -> None:
    fold = los.fold("E_URBAN")
    scene = los.rows(1, ~los.protocol.eval_mask(los.assigned[1], "E_URBAN"), "query").slice(0, 1)
    with pytest.raises(SplitNotAvailable, match="eval scene does not carry the held-out value"):
        los.fit(replace(fold, eval=joined(fold.eval, scene)))


def test_unknown_scene(los) -> None:
    fold = los.fold("E_URBAN")
    ids = pa.array(["0" * 64, *fold.train["scene_id"].to_pylist()[1:]])
    with pytest.raises(SplitNotAvailable, match="not assigned"):
        los.fit(replace(fold, train=fold.train.set_column(0, fold.train.schema.field(0), ids)))


@pytest.mark.parametrize("side", ["train", "eval"])
def test_a_scene_left_out_or_twice(los, side: str) -> None:
    """Leaving hard scenes out of the score, or easy ones out of the fit, is not the protocol's fold either."""
    fold = los.fold("E_URBAN")
    table = getattr(fold, side)
    with pytest.raises(SplitNotAvailable, match="scenes are missing or occur twice"):
        los.fit(replace(fold, **{side: table.slice(1)}))
    with pytest.raises(SplitNotAvailable, match=r"occur twice|differ from the split's index"):
        los.fit(replace(fold, **{side: joined(table, table.slice(0, 1))}))


@pytest.mark.parametrize("side", ["train", "eval"])
def test_changed_labels(los, side: str) -> None:
    fold = los.fold("E_URBAN")
    table = getattr(fold, side)
    flipped = table.set_column(3, table.schema.field(3), pa.array(1.0 - np.asarray(table["target"])))
    with pytest.raises(SplitNotAvailable, match="target or turn differ from the split's index"):
        los.fit(replace(fold, **{side: flipped}))


def test_a_defined_fold_declared_undefined(los) -> None:
    with pytest.raises(SplitNotAvailable, match="undefined_reason: a score"):
        los.fit(replace(los.fold("E_URBAN"), undefined_reason="a score that is better not shown"))


def test_a_fold_under_another_name(los) -> None:
    fold = los.fold("E_URBAN")
    within = board_protocols(los.spec)["in-distribution"]
    named = replace(fold, protocol=within.name)
    for other, protocol in (
        (fold, within),
        (named, los.protocol),
        (replace(fold, held_out_value="E_MICRO"), los.protocol),
    ):
        with pytest.raises(SplitNotAvailable, match="expected a fold of"):
            los.fit(other, protocol)


def test_a_fold_of_another_value(los) -> None:
    fold = los.fold("E_URBAN")
    with pytest.raises(SplitNotAvailable, match="train scene carries the held-out value"):
        los.fit(replace(fold, held_out_value="E_RURAL"))


def test_fold_files_of_another_fold(los, tmp_path) -> None:
    for value in ENVIRONMENTS:
        for side in ("train", "eval"):
            write_side(tmp_path / value / f"{side}.parquet", los.fold(value), side, HASH)
    name = LeaveOneEnvironmentOut.name
    train, evaluation = (tmp_path / "E_URBAN" / f"{side}.parquet" for side in ("train", "eval"))
    fold = read_fold(train, evaluation, name, "E_URBAN", HASH)
    assert los.fit(fold).predictions.num_rows == fold.eval.num_rows
    with pytest.raises(SplitNotAvailable, match="expected leave-one-environment-out E_URBAN"):
        read_fold(tmp_path / "E_RURAL" / "train.parquet", evaluation, name, "E_URBAN", HASH)


def test_a_query_in_the_turn_of_its_own_session(units) -> None:
    """A unit is queried on other days and receivers than it was enrolled on."""
    fold = units.fold("U02")
    turns = np.asarray(fold.eval["turn"])
    own = np.asarray(fold.eval["target"]) == units.spec.classes.index("U02")
    turns = np.where(own, (turns + 1) % 3, turns).astype("i4")
    place = fold.eval.schema.get_field_index("turn")
    moved = fold.eval.set_column(place, fold.eval.schema.field(place), pa.array(turns))
    with pytest.raises(SplitNotAvailable, match="target or turn differ from the split's index"):
        units.fit(replace(fold, eval=moved))


def test_an_unseen_unit_that_only_enrols(units) -> None:
    """A unit's captures left out of the queries, or another unit's among them."""
    fold = units.fold("U02")
    roles = np.array(fold.eval["role"].to_pylist())
    for before, after, message in (
        ("query", "enrol", "expected query for every"),
        ("enrol", "query", "does not carry"),
    ):
        changed = roles.copy()
        changed[np.flatnonzero(roles == before)[0]] = after
        with pytest.raises(SplitNotAvailable, match=message):
            units.fit(replace(fold, eval=fold.eval.set_column(1, fold.eval.schema.field(1), pa.array(changed))))


def test_half_an_enrolment_session(units) -> None:
    """A centroid from chosen captures is not the session's."""
    fold = units.fold("U02")
    others = np.flatnonzero(np.asarray(fold.eval["target"]) == units.spec.classes.index("U03"))
    kept = np.delete(np.arange(fold.eval.num_rows), others[0])
    with pytest.raises(SplitNotAvailable, match="expected every evaluation capture of every unit"):
        units.fit(replace(fold, eval=fold.eval.take(pa.array(kept))))


def test_a_query_at_the_enrolment_receiver(units) -> None:
    """The builder refuses it, and so does the guard where a fold comes from elsewhere."""
    fold = units.fold("U02")
    evaluation = units.assigned[1]
    receivers = pa.array(["R01"] * evaluation.num_rows)
    altered = evaluation.set_column(evaluation.schema.get_field_index("receiver"), "receiver", receivers)
    with pytest.raises(InputError, match="device U02: receiver R01 both enrols and queries it"):
        units.protocol.fold("U02", units.assigned[0], altered, 0)
    with pytest.raises(SplitNotAvailable, match="device U02: receiver R01 both enrols and queries it"):
        guard_fold(units.protocol, fold, units.assigned[0], altered)


def test_a_reference_of_a_chosen_draw(los) -> None:
    """A reference that were fit on the scenes that suit it, or on more of them, would move every gap."""
    reference = InDistribution(los.protocol)
    fold, other = (reference.fold("E_URBAN", *los.assigned, seed) for seed in (0, 1))
    assert los.fit(fold, reference).predictions.num_rows == fold.eval.num_rows
    with pytest.raises(SplitNotAvailable, match="train: other scenes than seed 0 draws"):
        los.fit(replace(fold, train=other.train), reference)
    everything = los.rows(0, np.ones(los.assigned[0].num_rows, bool), "fit")
    with pytest.raises(SplitNotAvailable, match="missing or occur twice"):
        los.fit(replace(fold, train=everything), reference)


def test_nothing_is_written_for_a_refused_fold(los, small, tmp_path) -> None:
    """The workflow's own program: status 2, one line, no predictions."""
    import subprocess
    import sys
    from pathlib import Path

    from common.columns import matrix_to_lists
    from emma.data.embeddings import EMBEDDING_SCHEMA
    from emma.data.tables import write_table

    fold = los.fold("E_URBAN")
    swapped = replace(fold, train=as_role(fold.eval, "fit"), eval=as_role(fold.train, "query"))
    for side in ("train", "eval"):
        write_side(tmp_path / f"{side}.parquet", swapped, side, small.manifest.data_release_hash)
    values: Embeddings = los.embeddings
    table = pa.table([values.ids, matrix_to_lists(values.values)], schema=EMBEDDING_SCHEMA)
    write_table(tmp_path / "embeddings.parquet", table, {"embedding_dim": "0"} | values.provenance.metadata)
    scenes = small.results / "scenes" / "E-LOC-LOS"
    arguments = {
        "manifest": small.results / "release" / "manifest.json",
        "task": "E-LOC-LOS",
        "protocol": fold.protocol,
        "value": fold.held_out_value,
        "train": tmp_path / "train.parquet",
        "eval": tmp_path / "eval.parquet",
        "train-index": scenes / "TRAIN.index.parquet",
        "eval-index": scenes / "DEV.index.parquet",
        "eval-split": "DEV",
        "embeddings": tmp_path / "embeddings.parquet",
        "readout": tmp_path / "out" / "readout.safetensors",
        "predictions": tmp_path / "out" / "predictions.parquet",
    }
    program = Path(__file__).parents[3] / "scripts" / "fit_fold.py"
    command = [sys.executable, program, *(str(x) for k, v in arguments.items() for x in (f"--{k}", v))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not assigned to the split that train draws from" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
