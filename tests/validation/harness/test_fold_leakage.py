"""Scene-level audit of every fold: what the guard promises, recomputed from the indexes without it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from common.errors import InputError
from emma import Split, SplitNotAvailable, TaskID
from emma.data.freezing import freeze
from emma.data.guards import guard_fold
from emma.data.protocols import InDistribution, primary_protocol, task_protocols
from emma.tasks import target_of

TASKS = tuple(task.value for task in TaskID)


def frames(small, task: str):
    return [index.to_pandas().set_index("scene_id") for index in small.index(task)]


@pytest.mark.parametrize("task", TASKS)
def test_every_fold_of_every_protocol(small, task: str) -> None:
    spec = small.manifest.spec(task)
    train, evaluation = frames(small, task)
    assert set(train.index).isdisjoint(evaluation.index)
    for protocol in task_protocols(spec, small.manifest.stress_regimes.get(TaskID(task), ())).values():
        for value in protocol.eval_values():
            fold = protocol.fold(value, *small.index(task), 0)
            fit = train.loc[fold.train["scene_id"].to_pylist()]
            roles = np.array(fold.eval["role"].to_pylist())
            scored = evaluation.loc[np.array(fold.eval["scene_id"].to_pylist())[roles == "query"]]
            seen = evaluation.loc[fold.eval["scene_id"].to_pylist()]
            for column in ("iq_sha256", "link_id"):
                assert set(fit[column].dropna()).isdisjoint(seen[column].dropna())
            if isinstance(protocol, InDistribution):
                own = protocol.base.fold(value, *small.index(task), 0)
                assert len(fit) == own.train.num_rows < len(train)
                assert fold.eval.equals(own.eval)
                for axis, part in protocol.parts(value).items():
                    assert part in set(fit[axis.value])
                continue
            layered = any(entry.layered for entry in spec.secondary if entry.ood_axis is protocol.axis)
            columns = [spec.ood_axis.value, protocol.axis.value] if layered else [protocol.axis.value]
            for column, part in zip(columns, value.split("+"), strict=True):
                assert part not in set(fit[column])
                assert set(scored[column]) == {part}
            # Every scene of the held-out value is there, and scored; a unit is enrolled by another session of its own.
            everything = evaluation
            for column, part in zip(columns, value.split("+"), strict=True):
                everything = everything[everything[column] == part]
            assert set(everything.index) == set(scored.index)
            asked = fold.queries.to_pandas()
            if not target_of(spec).enrols:
                assert (roles == "query").all()
                assert asked.turn.isna().all()
                continue
            assert set(seen.index) == set(evaluation.index)
            sessions = evaluation.groupby("device").session.unique().map(sorted)
            for row in asked.itertuples():
                capture = evaluation.loc[row.scene_id]
                enrolling = sessions[capture.device][row.turn]
                enrolled = evaluation[(evaluation.device == capture.device) & (evaluation.session == enrolling)]
                assert capture.session != enrolling
                assert capture.receiver not in set(enrolled.receiver)
            turns = asked.groupby("scene_id").turn.nunique()
            assert set(turns.index) == set(scored.index)
            assert (turns == sessions.map(len).iloc[0] - 1).all()


def altered(index: pa.Table, row: int, **columns: str) -> pa.Table:
    """The index with some columns of one row changed."""
    for name, value in columns.items():
        cells = index[name].to_pylist()
        cells[row] = value
        index = index.set_column(index.schema.get_field_index(name), index.schema.field(name), pa.array(cells))
    return index


@pytest.mark.parametrize(("column", "what"), [("iq_sha256", "samples"), ("link_id", "propagation link")])
@pytest.mark.parametrize("task", ["E-LOC-LOS", "E-LOC-AOA", "E-ID-DRONE"])
def test_shared_samples_or_link(small, task: str, column: str, what: str) -> None:
    """Other metadata, so another scene id; the same waveform or the same rays on both sides of the boundary."""
    train, evaluation = small.index(task)
    protocol = primary_protocol(small.manifest.spec(task))
    fold = protocol.fold("E_URBAN", train, evaluation, 0)
    scored = int(np.flatnonzero(protocol.eval_mask(evaluation, "E_URBAN"))[0])
    fitted = int(np.flatnonzero(protocol.train_mask(train, "E_URBAN"))[-1])
    twin = altered(evaluation, scored, **{column: train[column][fitted].as_py()})
    with pytest.raises(SplitNotAvailable, match=f"{column}: train and eval share a {what}"):
        guard_fold(protocol, fold, train, twin)


def test_null_links_are_not_one_link(small) -> None:
    """E-ID-AMC has no links: nulls on both sides are no leak."""
    train, evaluation = small.index("E-ID-AMC")
    assert train["link_id"].null_count == train.num_rows
    protocol = primary_protocol(small.manifest.spec("E-ID-AMC"))
    guard_fold(protocol, protocol.fold("low", train, evaluation, 0), train, evaluation)


def test_a_release_with_samples_in_two_splits_is_not_frozen(small, tmp_path) -> None:
    import pyarrow.parquet as pq

    from emma.data.scenes import INDEX_SCHEMA

    train, evaluation = small.index("E-ID-AMC")
    twin = altered(evaluation, 3, iq_sha256=train["iq_sha256"][5].as_py())
    for split, index in ((Split.TRAIN, train), (Split.DEV, twin)):
        pq.write_table(index.select(INDEX_SCHEMA.names), tmp_path / f"{split.value}.index.parquet")
        pq.write_table(index.select(["scene_id", "class"]), tmp_path / f"{split.value}.labels.parquet")
    paths = {TaskID.E_ID_AMC: {s: tmp_path / f"{s.value}.index.parquet" for s in (Split.TRAIN, Split.DEV)}}
    with pytest.raises(InputError, match="splits TRAIN and DEV share samples"):
        freeze(small.config, paths, "0", "0")


def test_duplicates_within_a_side_are_no_leak_but_a_repeated_scene_is_refused(small) -> None:
    train, evaluation = small.index("E-LOC-LOS")
    protocol = primary_protocol(small.manifest.spec("E-LOC-LOS"))
    fold = protocol.fold("E_URBAN", train, evaluation, 0)
    first = fold.train.slice(0, 1)
    with pytest.raises(SplitNotAvailable, match=r"occur twice|differ from the split's index"):
        guard_fold(protocol, replace(fold, train=pa.concat_tables([fold.train, first])), train, evaluation)


def test_scenes_and_metadata_that_were_edited_lose_their_id(small, tmp_path) -> None:
    """A scene moved to the training environment by editing its metadata no longer has the id that it is known by."""
    import pyarrow.parquet as pq

    from emma.data.scenes import iterate_scenes

    table = pq.read_table(small.results / "scenes" / "E-LOC-LOS" / "TRAIN.parquet")
    place = table.schema.get_field_index("environment")
    cells = table["environment"].to_pylist()
    cells[0] = "E_RURAL" if cells[0] == "E_URBAN" else "E_URBAN"
    moved = table.set_column(place, table.schema.field(place), pa.array(cells))
    pq.write_table(moved, tmp_path / "TRAIN.parquet")
    with pytest.raises(InputError, match="does not match its content"):
        list(iterate_scenes(tmp_path / "TRAIN.parquet"))
