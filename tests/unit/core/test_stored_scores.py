"""Scores of every kind of label as a column: they come back as they went in, and nothing else is let in."""

import numpy as np
import pyarrow as pa
import pytest

from common.errors import InputError
from emma.tasks import TARGETS
from emma.tasks.targets.base import LONGEST_TEXT

#: Shapes of the targets that pin one.
_SHAPES = {"channel": (2, 8), "source": (16,), "answer": (3,)}


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param](("a", "b"), _SHAPES.get(request.param, ()))


def texts(target) -> bool:
    return pa.types.is_string(target.score_type.value_type)


def scores(target, rows: int = 5):
    rng = np.random.default_rng(rows)
    if texts(target):
        return np.array([[f"text {i} {j}" for j in range(target.width)] for i in range(rows)], object)
    return rng.normal(size=(rows, target.width)).astype(np.float32).astype(np.float64)


def column(target, values) -> pa.ChunkedArray:
    return pa.chunked_array([target.stored(values)])


def test_scores_come_back(target) -> None:
    values = scores(target)
    stored = column(target, values)
    assert stored.type == target.score_type
    read = target.read(stored, "scores")
    assert read.shape == values.shape and (read == values).all()
    assert target.distance(read, values) == 0.0
    assert target.read(stored.slice(0, 0), "scores").shape == (0, target.width)


def test_another_score_is_far(target) -> None:
    values = scores(target)
    other = values.copy()
    other[2, 0] = "another text" if texts(target) else values[2, 0] + 0.5
    assert target.distance(other, values) > 0.01
    assert target.distance(values[:4], values) == np.inf


@pytest.mark.parametrize("fault", ["width", "null", "null entry", "type", "value"])
def test_anything_else_is_refused(target, fault) -> None:
    values = scores(target).tolist()
    kind = target.score_type
    if fault == "width":
        values[1] = values[1] * 2
    elif fault == "null":
        values[1] = None
    elif fault == "null entry":
        values[1] = [None, *values[1][1:]]
    elif fault == "type":
        kind, values = pa.list_(pa.int64()), [[1] * target.width] * 5
    else:
        values[1] = ["x" * (LONGEST_TEXT + 1) if texts(target) else np.inf, *values[1][1:]]
    wrong = {"type": "expected list", "value": "characters" if texts(target) else "NaN or infinity in row 1"}
    with pytest.raises(InputError, match=f"here: .*{wrong.get(fault, 'expected lists of')}"):
        target.read(pa.chunked_array([pa.array(values, kind)]), "here")


def test_a_text_of_the_greatest_length_is_let_in(target) -> None:
    if texts(target):
        values = np.full((1, target.width), "x" * LONGEST_TEXT, object)
        assert (target.read(column(target, values), "scores") == values).all()
