"""A control beside its model: outside the ranking, moving nothing of it, and compared pair by pair."""

import pytest

from common.errors import InputError
from emma.results.leaderboard import build_board

MODELS = ("prior", "dsp", "random_conv")


@pytest.fixture(scope="module")
def made(small):
    """dsp with random_conv in the place of its control, and with a copy of itself."""
    runs = {name: small.run(name) for name in MODELS}
    records = {name: record for name, (record, _) in runs.items()}
    replicates = {name: draws for name, (_, draws) in runs.items()}

    def board(other: str | None):
        own, draws = dict(records), dict(replicates)
        if other is not None:
            name = {"model": "dsp.control", "kind": "control", "control_of": "dsp"}
            own["dsp.control"], draws["dsp.control"] = records[other].model_copy(update=name), replicates[other]
        return build_board(small.manifest, own, draws)[0]

    return board


def row(board, name):
    return next(row for row in board.models if row.model == name)


def test_a_control_is_outside_the_ranking_and_moves_nothing(made) -> None:
    alone, beside = made(None), made("random_conv")
    assert row(beside, "dsp.control").rank is None
    assert row(beside, "dsp.control").ood_avg is not None
    for name in MODELS:
        assert row(beside, name).model_copy(update={"control": None, "caveats": ()}) == row(alone, name)


def test_differences_are_scores_less_controls_whatever_the_direction(made) -> None:
    board = made("random_conv")
    own, control = row(board, "dsp"), row(board, "dsp.control")
    bought = own.control
    assert bought.model == "dsp.control"
    assert set(bought.tasks) == set(own.tasks)
    assert bought.ood_avg.difference == own.ood_avg - control.ood_avg
    for task, block in own.tasks.items():
        sign = -1 if block.direction == "lower" else 1
        found = bought.tasks[task]
        assert found.score == control.tasks[task].score
        assert found.difference == pytest.approx(sign * (block.score - control.tasks[task].score))
        assert found.ci95[0] < found.difference < found.ci95[1]
    assert row(board, "random_conv").control is None


def test_pairs_cancel_what_both_share(made) -> None:
    """A model against itself differs by nothing, surely; unpaired, both intervals would add."""
    bought = row(made("dsp"), "dsp").control
    assert bought.ood_avg.difference == 0
    assert bought.ood_avg.ci95 == pytest.approx((0, 0), abs=1e-9)
    for found in bought.tasks.values():
        assert found.ci95 == pytest.approx((0, 0), abs=1e-9)


def test_draws_of_the_control_must_be_there(small) -> None:
    runs = {name: small.run(name) for name in MODELS}
    records = {name: record for name, (record, _) in runs.items()}
    name = {"kind": "control", "control_of": "dsp"}
    records["random_conv"] = records["random_conv"].model_copy(update=name)
    replicates = {name: draws for name, (_, draws) in runs.items()}
    task = next(task for task, block in records["dsp"].tasks.items() if not block.in_ood_avg)
    replicates["random_conv"] = {key: draws for key, draws in replicates["random_conv"].items() if key != task}
    with pytest.raises(InputError, match=r"random_conv|dsp"):
        build_board(small.manifest, records, replicates)
