"""Captions from elsewhere: a bundle of texts is scored as the workflow's own, and refused with every fault named."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emma.audit.submissions import Bundle, Expected, score, validate
from emma.audit.verify.fits import REAPPLIED
from emma.evaluation.prediction import query_scores
from emma.readouts import load_readout
from emma.tasks import TaskID, target_of

TASK, MODEL = TaskID.E_S2T_CAP, "band_detector"
PROTOCOL = "leave-one-snr-regime-out"


@pytest.fixture(scope="module")
def run(small):
    backbone, provenance, config = small.model(MODEL)
    return small.evaluator.evaluate(backbone, TASK, config=config, provenance=provenance)


@pytest.fixture(scope="module")
def expected(expected_of) -> Expected:
    return expected_of(TASK)


@pytest.fixture
def folder(bundle_of, run):
    """A bundle of the textbook's captions."""
    return bundle_of(run, TASK, {"kind": "consensus", "embedding_dim": 28, "parameters": 0})


def texts(table: pa.Table, values, kind: pa.DataType | None = None) -> pa.Table:
    return table.set_column(1, "scores", pa.array(values, kind or pa.list_(pa.string())))


def test_captions_get_the_score_of_the_workflow_s_own(folder, run, expected) -> None:
    bundle = Bundle(folder)
    assert validate(bundle, expected) == []
    scored = score(bundle, expected)
    block = scored.record.tasks[TASK]
    assert block.score == run.score
    assert block.secondary_metrics.keys() == {"Bleu", "Meteor"}


def with_first(value):
    return lambda table: texts(table, [value, *table["scores"].to_pylist()[1:]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_first(["one", "two"]), "expected lists of 1 texts"),
        (with_first([]), "expected lists of 1 texts"),
        (with_first([None]), "null in a list"),
        (with_first(["a" * 513]), "513 characters, expected at most 512"),
        (with_first(["a" * 10**6]), "1000000 bytes, expected at most 2048"),
        (lambda table: texts(table, [[1.0]] * len(table), pa.list_(pa.float64())), "expected list<"),
        (lambda table: texts(table, ["a"] * len(table), pa.string()), "expected list<"),
        (lambda table: table.slice(1), "scene_id: 1 "),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "scene_id: "),
    ],
    ids=["two", "none", "null", "long", "megabyte", "numbers", "bare", "missing", "twice"],
)
def test_what_is_no_caption_of_every_scene_is_refused(folder, expected, change, message: str) -> None:
    path = folder / "predictions" / TASK.value / PROTOCOL / "mid.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    faults = validate(Bundle(folder), expected)
    assert any(message in fault and "mid" in fault for fault in faults), faults


def test_a_caption_of_any_words_is_taken_and_scored(folder, run, expected) -> None:
    """Texts need no grammar: empty ones, and ones that no reference has a word of, score nothing."""
    path = folder / "predictions" / TASK.value / PROTOCOL / "mid.parquet"
    table = pq.read_table(path)
    pq.write_table(texts(table, [[["", "zzz ∿\n"][row % 2]] for row in range(len(table))]), path)
    bundle = Bundle(folder)
    assert validate(bundle, expected) == []
    values = score(bundle, expected).record.tasks[TASK].values
    assert values["mid"].score == pytest.approx(0.0, abs=1e-9)
    assert values["low"].score == run.record.tasks[TASK].values["low"].score


def test_a_caption_that_is_changed_is_not_the_readout_s(small, run) -> None:
    """What verify compares: the readout, loaded from its tensors, gives every stored text again."""
    spec, embeddings = small.manifest.spec(TASK), small.embedded(TASK, MODEL)
    fold = run.folds[PROTOCOL]["low"]
    kind, stored = target_of(spec), fold.predictions
    again = query_scores(load_readout(spec, fold.tensors), embeddings, stored)
    actual = kind.read(stored["scores"], "scores")
    assert kind.distance(actual, again) == 0.0
    actual[3, 0] += " "
    assert kind.distance(actual, again) > REAPPLIED
