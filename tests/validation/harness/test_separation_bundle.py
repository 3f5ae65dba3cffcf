"""Waveforms from elsewhere: a bundle of them is scored as the workflow's own, and refused with every fault named."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from emma.audit.submissions import Bundle, Expected, score, validate
from emma.audit.verify.fits import REAPPLIED
from emma.evaluation.prediction import query_scores
from emma.readouts import load_readout, make_readout
from emma.tasks import TaskID

TASK = TaskID.E_SC_SEP
PLACE = "leave-one-waveform-out/gfsk.parquet"


@pytest.fixture(scope="module")
def run(small):
    backbone, provenance, config = small.model("wiener_mask")
    return small.evaluator.evaluate(backbone, TASK, config=config, provenance=provenance)


@pytest.fixture(scope="module")
def expected(expected_of) -> Expected:
    return expected_of(TASK)


@pytest.fixture
def folder(small, bundle_of, run):
    """A bundle of the textbook's waveforms."""
    parameters = make_readout(small.manifest.spec(TASK)).parameters(256)
    return bundle_of(run, TASK, {"kind": "masking", "embedding_dim": 256, "parameters": parameters})


def test_waveforms_get_the_score_of_the_workflow_s_own(folder, run, expected) -> None:
    bundle = Bundle(folder)
    assert validate(bundle, expected) == []
    scored = score(bundle, expected)
    assert scored.record.tasks[TASK].score == run.score
    block = scored.record.tasks[TASK]
    assert block.secondary_metrics.keys() == {"SISDRImprovement"}
    assert max(path.stat().st_size for path in folder.rglob("*.parquet")) < 2**21


def scores(change):
    """A change of the column of scores, from a matrix ``[N, 2 T]`` to a list of rows."""

    def apply(table: pa.Table) -> pa.Table:
        rows = np.array(table["scores"].to_pylist(), np.float32)
        return table.set_column(1, "scores", pa.array(list(change(rows)), pa.list_(pa.float32())))

    return apply


def put(value: float):
    def change(rows: np.ndarray) -> np.ndarray:
        rows[3, 5] = value
        return rows

    return change


def silent(rows: np.ndarray) -> np.ndarray:
    rows[2] = 0
    return rows


def as_text(table: pa.Table) -> pa.Table:
    return table.set_column(1, "scores", table["scores"].cast(pa.list_(pa.string())))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (scores(put(np.nan)), "NaN or infinity"),
        (scores(put(np.inf)), "NaN or infinity"),
        (scores(silent), "silent waveform in row 2"),
        (scores(lambda rows: rows[:, :-2]), "expected lists of 2048 numbers"),
        (as_text, "expected list<"),
        (lambda table: table.slice(1), "scene_id: 1 "),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "scene_id: "),
    ],
    ids=["nan", "inf", "silent", "short", "text", "missing", "twice"],
)
def test_what_is_no_waveform_of_every_scene_is_refused(folder, expected, change, message: str) -> None:
    path = folder / "predictions" / TASK.value / PLACE
    pq.write_table(change(pq.read_table(path)), path)
    faults = validate(Bundle(folder), expected)
    assert any(message in fault and "gfsk" in fault for fault in faults), faults


def test_a_head_over_the_capacity_of_a_window_is_refused(folder, expected) -> None:
    path = folder / "submission.yaml"
    content = yaml.safe_load(path.read_text())
    content["readouts"][TASK.value] |= {"embedding_dim": 13 * 256}
    path.write_text(yaml.safe_dump(content))
    assert any("3328 is wider than the pinned 2048" in fault for fault in validate(Bundle(folder), expected))


def test_other_waveforms_change_the_score(folder, run, expected) -> None:
    """Scenes exchanged within a file: joined by scene id, so that they are scored against other sources."""
    path = folder / "predictions" / TASK.value / PLACE
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "scene_id", table["scene_id"].take(np.arange(len(table))[::-1])), path)
    bundle = Bundle(folder)
    assert validate(bundle, expected) == []
    assert (
        score(bundle, expected).record.tasks[TASK].values["gfsk"].score
        < run.record.tasks[TASK].values["gfsk"].score - 5
    )


def test_one_sample_of_the_quietest_waveform_is_seen_by_the_audit(small, run) -> None:
    """Waveforms are compared by their own size: the loudest scene of a fold hides none of the others."""
    spec, fold = small.manifest.spec(TASK), run.folds["leave-one-waveform-out"]["gfsk"]
    readout = load_readout(spec, fold.tensors)
    again = query_scores(readout, small.embedded(TASK, "wiener_mask"), fold.predictions)
    stored = readout.target.read(fold.predictions["scores"], "scores")
    assert readout.target.distance(stored, again) <= REAPPLIED
    quietest = int(np.abs(stored).max(axis=1).argmin())
    stored[quietest, 100] += 0.02 * np.abs(stored[quietest]).max()
    assert readout.target.distance(stored, again) > REAPPLIED
