"""Scores against the number of fit scenes: on the page where a probe report of the board is given, and else nowhere."""

import json

import pytest

from common.errors import InputError
from emma.evaluation.probes import Draws, ModelProbes, Probed, TaskProbes
from emma.report.drawing import build_figures, images
from emma.report.page import build_page
from emma.report.probes import read_probes
from emma.results.probes import ProbesReport

NAME = "label_efficiency_E-ID-DRONE"


@pytest.fixture(scope="module")
def report(board):
    """Probes of two models, one of them without a score at the least number of scenes."""
    none = Probed(score=None, values={}, undefined="a fold lacks a class")
    models = {}
    for model, means in (("first", (0.6, 0.7, 0.8)), ("second", (None, 0.5, 0.9))):
        draws = [
            Draws(scenes=size, scores=(mean,) * 5, mean=mean, deviation=None if mean is None else 0.012)
            for size, mean in zip((50, 150), means, strict=False)
        ]
        draws.append(Draws(scenes=None, scores=(means[-1],), mean=means[-1], deviation=None))
        task = TaskProbes(
            metric="AUC",
            protocol="leave-one-environment-out",
            embedding_dim=8,
            pinned=none,
            neighbours=none,
            strengths=(),
            label_efficiency=tuple(draws),
        )
        own = board.models[0].run_manifest.model_provenance.model_copy(update={"name": model})
        head = {key: getattr(board, key) for key in ("release", "data_release_hash", "eval_split", "seed")}
        models[model] = ModelProbes(
            model=model, kind="backbone", model_provenance=own, tasks={"E-ID-DRONE": task}, **head
        )
    return ProbesReport(**head, caveats=(), models=models, ranks={})


def test_the_page_shows_the_figure_where_probes_are_given(board, manifest, report, page, whole, packed):
    drawn = build_figures(board, manifest, None, report)
    made = build_page(board, drawn)
    assert f'id="figure-{NAME}"' in whole(made)
    assert f'id="figure-{NAME}"' not in whole(page)
    content = json.loads(packed(made, "packed-figures"))
    columns = content["data"][content["figures"][NAME]["data"]]
    assert columns["model"] == ["first"] * 3 + ["second"] * 3
    assert columns["at"] == [50, 150, 300] * 2
    assert columns["scenes"] == ["50", "150", "all"] * 2
    assert columns["text"] == ["0.600", "0.700", "0.800", "–", "0.500", "0.900"]
    svg = images({NAME: drawn[NAME]}, [row.model for row in board.models])[f"{NAME}.svg"].decode()
    assert svg.count('aria-roledescription="point"') == 5
    assert svg.count('aria-roledescription="line mark"') == 2


def test_probes_of_another_board_are_refused(board, report, tmp_path):
    path = tmp_path / "probes.json"
    good = report.model_dump(mode="json")
    path.write_text(json.dumps(good))
    assert read_probes(path, board) == report
    for change in ({"seed": 4}, {"eval_split": "holdout"}, {"data_release_hash": "cd" * 32}):
        path.write_text(json.dumps(good | change))
        with pytest.raises(InputError, match=f"probes.json: {next(iter(change))}: "):
            read_probes(path, board)
    path.write_text(json.dumps(good | {"models": {"other": good["models"]["first"]}}))
    with pytest.raises(InputError, match="models: other is not on the leaderboard"):
        read_probes(path, board)
