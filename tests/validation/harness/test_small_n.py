"""Two environments are two observations: standard errors with n - 1, jackknives over values, the caveat everywhere."""

import csv
import io
import re

import numpy as np
import pytest

from emma import OODAxis, TaskID
from emma.data.release import load_release_config
from emma.evaluation.statistics import standard_error
from emma.results.frames import board_csv
from emma.results.leaderboard import board_text, build_board

MODELS = ("prior", "dsp")
WORDS = {"two": 2, "three": 3, "four": 4, "five": 5}


@pytest.fixture(scope="module")
def board(small):
    runs = {name: small.run(name) for name in MODELS}
    records = {name: record for name, (record, _) in runs.items()}
    return build_board(small.manifest, records, {name: draws for name, (_, draws) in runs.items()})


def test_standard_errors_have_n_minus_one(board) -> None:
    for row in board[0].models:
        for block in row.tasks.values():
            values = [record.score for record in block.values.values()]
            assert block.standard_error == pytest.approx(np.std(values, ddof=1) / np.sqrt(len(values)), abs=1e-15)
            if len(values) == 2:  # s / sqrt(2) of two values is half their distance
                assert block.standard_error == pytest.approx(abs(values[0] - values[1]) / 2, abs=1e-15)
    assert standard_error([0.3]) is None


def test_each_environment_dropped_in_turn_bounds_the_average(small, board) -> None:
    """With two values, the average lies between those without either; clipping aside, it is their midpoint."""
    for row in board[0].models:
        found = row.sensitivity.leave_one_value_out.averages
        without = [found["environment=E_URBAN"], found["environment=E_RURAL"]]
        assert min(without) - 1e-12 <= row.ood_avg <= max(without) + 1e-12
        expected = []
        for environment in ("E_RURAL", "E_URBAN"):
            parts = []
            for task, block in row.tasks.items():
                spec = small.manifest.spec(task)
                if not spec.in_ood_avg:
                    continue
                on_axis = spec.ood_axis is OODAxis.ENVIRONMENT
                score = block.values[environment].score if on_axis else block.score
                share = (score - spec.anchors.minimum) / (spec.anchors.maximum - spec.anchors.minimum)
                parts.append(np.clip(1 - share if block.direction == "lower" else share, 0, 1))
            expected.append(np.mean(parts))
        assert without == pytest.approx(expected, abs=1e-12)
        assert row.sensitivity.leave_one_value_out.min == min(found.values())
        assert row.sensitivity.leave_one_value_out.max == max(found.values())


def test_every_aggregate_comes_with_its_components(board) -> None:
    for row in board[0].models:
        for block in row.tasks.values():
            assert len(block.values) >= 2
            for record in block.values.values():
                assert record.n > 0
                assert record.ci95 is not None


def test_the_caveat_stands_wherever_an_aggregate_is_shown(small, board) -> None:
    made, report = board
    caveat = next(text for text in small.manifest.caveats if "degree" in text)
    assert caveat in made.caveats
    assert caveat in report.caveats
    assert caveat in board_text(made)
    rows = list(csv.DictReader(io.StringIO(board_csv(made))))
    assert all(caveat in row["caveats"] for row in rows if row["ood_avg"])
    run = small.evaluator.evaluate(small.model("prior")[0], "E-LOC-LOS")
    assert "mean over 2 held-out values" in repr(run)
    assert "not a population estimate" in repr(run)
    for value in run.record.tasks[TaskID.E_LOC_LOS].values:
        assert value in repr(run)


def test_the_caveat_counts_what_the_release_holds_out(releases) -> None:
    """The number of environments, and its degrees of freedom, in the sentence that the release freezes."""
    counted = {}
    for path in releases:
        data = load_release_config(path).model_dump() | {"caveats": load_release_config(path).all_caveats}
        counted[path.stem] = {len(t["held_out"]) for t in data["tasks"].values() if t["ood_axis"] == "environment"}
        sentence = next(text for text in data["caveats"] if "environment axis has" in text)
        assert "not a population estimate" in sentence
        said = re.findall(r"environment axis has (\w+) values.*? has (\d+) degrees? of freedom", sentence)
        assert {WORDS[word] for word, _ in said} == counted[path.stem]
        assert all(int(freedom) == WORDS[word] - 1 for word, freedom in said)
    assert counted["v0.1"] == {2}
    assert counted["v1.0"] == {3, 5}
