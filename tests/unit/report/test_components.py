"""No mean stands alone: held-out values, floor and headroom beside it, in every form of the board."""

import pytest

from emma.report.data import components, details, rank_rows
from emma.report.drawing import build_figures
from emma.report.latex import appendix, tex
from emma.report.page import build_page
from emma.report.tables import markdown
from emma.results.components import above_floor, components_head, components_text, headroom, short_names
from emma.results.frames import board_csv, board_frames
from emma.results.leaderboard import board_text
from emma.results.records import Board
from emma.tasks import TaskID

DRONE = TaskID.E_ID_DRONE


def scaled(board, **kinds):
    """The board with rows of other kinds and task scores: ``name=(kind, score)``."""
    rows = []
    for row in board.models:
        kind, score = kinds.get(row.model, (row.kind, row.tasks[DRONE].score))
        block = row.tasks[DRONE].model_copy(update={"score": score})
        rows.append(row.model_copy(update={"kind": kind, "tasks": {DRONE: block}}))
    return Board.model_validate(board.model_copy(update={"models": tuple(rows)}).model_dump())


def uneven(board):
    """The board with unlike held-out values in its first row, which does not beat the floor."""
    first, *others = board.models
    block = first.tasks[DRONE]
    values = {
        value: record.model_copy(update={"score": score})
        for (value, record), score in zip(block.values.items(), (0.61, 0.79), strict=True)
    }
    test = block.beats_floor.model_copy(update={"p": 0.2})
    block = block.model_copy(update={"values": values, "beats_floor": test})
    return board.model_copy(update={"models": (first.model_copy(update={"tasks": {DRONE: block}}), *others)})


def test_names_lose_the_words_that_all_share():
    assert short_names(["E_URBAN", "E_RURAL", "E_MICRO"]) == ["URBAN", "RURAL", "MICRO"]
    assert short_names(["U01", "U02"]) == ["U01", "U02"]
    assert short_names(["E_URBAN"]) == ["E_URBAN"]
    assert short_names(["E_A", "E_A"]) == ["A", "A"]


def test_many_values_are_shown_by_their_ends(board):
    record = next(iter(board.models[0].tasks[DRONE].values.values()))
    many = [record.model_copy(update={"score": score}) for score in (0.5, 0.3, None, 0.9, 0.7, 0.4)]
    assert components_text(many, lambda x: f"{x:.1f}") == "0.3 to 0.9, 1 undefined"
    assert components_head([f"U{i}" for i in range(6)]) == "lowest to highest of 6"
    assert components_text(many[:2], lambda x: f"{x:.1f}") == "0.5, 0.3"
    assert components_text([many[2]] * 6, str) == "none defined"


def test_a_terminal_gets_the_board_in_blocks_of_its_width(board):
    whole, narrow = board_text(board), board_text(board, 64)
    assert max(map(len, whole.splitlines())) > 80
    assert max(map(len, narrow.splitlines())) <= 64
    heads = dict.fromkeys(line for line in narrow.splitlines() if line.startswith("rank"))
    assert len(heads) > 1
    for task in board.models[0].tasks:
        assert sum(f"{task.value} (" in head for head in heads) == 1
    assert "are folded" in narrow
    assert "are folded" not in whole + board_text(board, 500)
    assert whole.split() == board_text(board, 100_000).split()


def test_every_table_shows_the_held_out_values_the_range_and_the_floor(board, manifest):
    board = uneven(board)
    page = build_page(board, build_figures(board, manifest))
    for text in (board_text(board), markdown(board)):
        assert "URBAN, RURAL" in text
        assert "(0.610, 0.790)" in text
    for text in (board_text(board), markdown(board), tex(board)):
        assert "1 to 2" in text
        assert "does not beat the floor" in text
    assert "0.700~ (" in board_text(board)
    assert "0.700† (" in markdown(board)
    assert "0.700\\tnote{\\dag}" in tex(board)
    assert "first & 0.700 & 0.610 (0.800 to 0.950) & 0.790 (0.800 to 0.950)" in appendix(board)
    for text in ("URBAN, RURAL", "<small>0.610, 0.790</small>", "<small>1 to 2</small>", "not above the floor"):
        assert text in page
    assert above_floor(board.models[0], DRONE) is False
    assert above_floor(board.models[1], DRONE) is True
    assert above_floor(board.models[3], DRONE) is None


def test_headroom_runs_from_the_floor_to_the_oracle(board, manifest):
    assert headroom(board, board.models[0], DRONE) is None
    made = scaled(board, second=("chance", 0.5), textbook=("oracle", 0.9))
    rows = {row.model: row for row in made.models}
    assert headroom(made, rows["first"], DRONE) == pytest.approx(0.5)
    assert headroom(made, rows["second"], DRONE) is headroom(made, rows["textbook"], DRONE) is None
    assert components(made, rows["first"], DRONE) == "0.700, 0.700; 50 %"
    assert {cells["model"]: cells for cells in details(made, DRONE)}["first"]["of the headroom"] == "50 %"
    page = build_page(made, build_figures(made, manifest))
    for text in (markdown(made), tex(made), page):
        assert "an oracle knows its true parameters" in text
    assert "; 50" in markdown(made) and "; 50" in page
    assert "first & 0.700 & 50 \\% &" in appendix(made)
    assert "(floor)" in markdown(made) and "(oracle)" in markdown(made)
    assert '<span class="tag">floor</span>' in page


def test_what_a_rank_rests_on_is_a_table(board, manifest):
    (row, *_) = rank_rows(board)
    assert (row["model"], row["error_by_scenes"], row["by_fits"], row["by_enrolment"]) == (
        "first",
        "0.040",
        "0.030",
        "–",
    )
    page = build_page(board, build_figures(board, manifest))
    assert "Ranges of ranks, and standard errors of the OOD average." in page
    assert details(board, DRONE)[0]["p against the floor"] == "0.004"


def test_frames_and_csv_carry_range_floor_and_errors(board):
    frames = board_frames(board)
    first = frames.models.iloc[0]
    assert (first["rank_best"], first["rank_worst"], first["ood_avg_error_fit"]) == (1, 2, 0.03)
    assert frames.scores.iloc[0]["floor_p"] == 0.004
    assert {"gap_low", "gap_high", "error_scenes"} <= set(frames.held_out_values)
    head, line, *_ = board_csv(board).splitlines()
    assert dict(zip(head.split(","), line.split(","), strict=False))["rank_worst"] == "2"


def test_a_gap_never_stands_without_its_meaning(board, with_gaps):
    """Terminal, Markdown and LaTeX: a column with the tasks in brackets and a line that says what it is, or neither."""
    shown, _ = with_gaps("surrogate")
    for text in (board_text, markdown, tex):
        table = text(shown)
        if text is not tex:
            assert "Gap, points (surrogate)" in table
            assert "4.2 (E-ID-DRONE)" in table
        assert "Gap: 100 (synthetic - captured)" in table
        assert "Gap" not in text(board)


def test_what_pretraining_bought_stands_beside_the_average(board):
    """Terminal, Markdown, LaTeX and CSV show the difference with its interval; boards without a control do not."""
    content = board.model_dump(mode="json")
    difference = {"score": 0.4, "difference": 0.2, "ci95": [0.05, 0.35]}
    task = {"score": 0.61, "difference": 0.09, "ci95": None}
    content["models"][0]["control"] = {"model": "first.control", "ood_avg": difference, "tasks": {"E-ID-DRONE": task}}
    shown = type(board).model_validate(content)
    for text in (board_text, markdown, tex):
        assert "Over its control" in text(shown)
        assert "0.200 (0.050 to 0.350)" in text(shown)
        assert "what pretraining bought" in text(shown)
        assert "control" not in text(board)
    frames = board_frames(shown)
    first = frames.models.set_index("model").loc["first"]
    assert first[["control", "control_ood_avg", "over_control", "over_control_high"]].tolist() == [
        "first.control",
        0.4,
        0.2,
        0.35,
    ]
    scores = frames.scores.query("primary").set_index("model")
    assert scores.loc["first", "score_over_control"] == 0.09
    assert scores["control_score"].isna().sum() == len(scores) - 1
    assert "over_control_low" in board_csv(shown).splitlines()[0]
