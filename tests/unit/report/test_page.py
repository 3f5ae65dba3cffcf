"""The page, its figures and its tables, from a small board that holds every awkward case."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from common.errors import InputError
from emma.report import figures
from emma.report.captures import gap_rows, read_report
from emma.report.data import brackets, details, number, values
from emma.report.drawing import build_figures, images
from emma.report.latex import latex, tex
from emma.report.page import build_page
from emma.report.tables import markdown
from emma.results.components import APART_TITLE
from emma.results.frames import board_csv, board_frames
from emma.results.leaderboard import board_text
from emma.tasks import TaskID

EVIL = "<script>alert(1)</script>"
ROOT = Path(__file__).resolve().parents[3]
NAMES = ["first", "second", EVIL, "broken", "textbook", "guest"]
STYLE = (ROOT / "src/emma/report/templates/style.css").read_text()


def test_a_bracket_joins_neighbours_that_cannot_be_told_apart_and_no_others(board):
    assert brackets(board) == {"first": "start", "second": "end", EVIL: "none"}


def test_names_from_models_are_text_everywhere(page, board, whole):
    page = whole(page)
    assert EVIL not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert EVIL not in markdown(board)
    assert latex("a_b & 5%") == "a\\_b \\& 5\\%"


def test_the_page_says_what_its_numbers_rest_on(page, whole):
    page = whole(page)
    for text in ("A comparative ranking &amp; no population", "seed 3", "scored on DEV", "lacks a class", "submitted"):
        assert text in page
    assert "chosen with v0.1 DEV scores in view" in page
    assert "Not configured: no captures" in page
    assert page.count("<summary>Run manifest of") == 6


def test_predictions_alone_have_a_table_of_their_own(page, board, manifest):
    """And no place among ranks, nor in the figure of averages."""
    assert page.index('id="submitted"') > page.index("rows without a rank") > page.index("Ranked by OOD-avg")
    assert page.index('data-key="guest"') > page.index('id="submitted"')
    assert "Predictions &lt;alone&gt;." in page
    for text in (markdown(board), tex(board), board_text(board)):
        own, submitted = text.split(APART_TITLE)
        assert "guest" not in own and "guest" in submitted
    assert [row["model"] for row in build_figures(board, manifest)["ranking"].rows] == ["first", "second", EVIL]
    table = board_frames(board).models.set_index("model")
    assert (table.loc["guest", "standing"], table.loc["first", "standing"]) == (
        "submitted, predictions only",
        "reproduced here",
    )
    assert board_csv(board).splitlines()[-1].startswith(',,,guest,submitted,"submitted, predictions only",')


def test_the_page_asks_for_nothing_outside_itself(page, packed, whole):
    page = whole(page)
    assert "default-src 'none'" in page
    assert not re.search(r"<(?:script|img|iframe)[^>]* src=|<link[^>]* href=\"(?!data:)|@import|url\(", page[:20000])
    assert packed(page, "packed-library").count("window.vegaEmbed=") == 1


def test_a_page_of_thirty_models_on_twelve_tasks_is_under_two_megabytes(wide, wide_page):
    assert (len(wide.models), len(wide.models[0].tasks)) == (30, 12)
    assert len(wide_page.encode()) < 2_000_000


def test_a_file_that_is_too_large_for_the_page_is_linked(wide, wide_figures, wide_page, monkeypatch):
    assert wide_page.count("data-download=") == 5
    monkeypatch.setattr("emma.report.page.LARGEST_DOWNLOAD", 100_000)
    shorter = build_page(wide, wide_figures)
    for name in ("leaderboard.csv", "leaderboard.json"):
        assert f'href="{name}" download' in shorter
        assert f'id="download-{name}"' not in shorter
    assert shorter.count("data-download=") == 3
    assert len(shorter) < len(wide_page) - 800_000


def test_the_same_board_gives_the_same_bytes(board, page, manifest):
    found = build_figures(board, manifest)
    assert build_page(board, found) == page
    assert images(found, NAMES) == images(build_figures(board, manifest), NAMES)


def test_bold_is_for_a_best_that_holds(board):
    assert "**" not in markdown(board) and "textbf" not in tex(board)
    rows = [model.model_copy(update={"separable_from_next": True}) for model in board.models]
    firm = board.model_copy(update={"models": tuple(rows)})
    assert markdown(firm).count("**0.600**") == 1 and tex(firm).count("\\textbf{0.600}") == 1


def test_an_undefined_score_is_no_number(board, manifest):
    rows = [item for item in values(board, manifest) if item["model"] == "broken"]
    assert {item["text"] for item in rows} == {"–"} and {item["skill"] for item in rows} == {None}
    assert "broken: no OOD-avg: the fold of E\\_URBAN lacks a class" in markdown(board)


def test_values_stand_on_the_scale_of_the_anchors(board, manifest):
    assert values(board, manifest)[0]["skill"] == pytest.approx(0.4)
    assert number(-1e-9) == "0.000"


def test_a_board_of_another_release_is_refused(board, manifest):
    with pytest.raises(InputError, match="data_release_hash"):
        build_figures(board.model_copy(update={"data_release_hash": "cd" * 32}), manifest)


def test_another_process_writes_the_same_bytes(board, page, manifest, tmp_path):
    """Another process has another hash seed: no order of a set, no counter and no time may show."""
    (tmp_path / "board.json").write_text(board.model_dump_json())
    code = """
import hashlib, pathlib, sys
from emma.results.records import Board
from emma.report.drawing import build_figures, images
from emma.report.page import build_page
from emma.tasks import Anchors
class Manifest:
    data_release_hash = "ab" * 32
    @staticmethod
    def spec(task):
        return type("Spec", (), {"anchors": Anchors(minimum=0.5, maximum=1.0)})
board = Board.model_validate_json(pathlib.Path(sys.argv[1]).read_text())
found = build_figures(board, Manifest)
models = [row.model for row in board.models]
figures = images({"ranking": found["ranking"], "jackknife": found["jackknife"]}, models)
pathlib.Path(sys.argv[2]).write_text(build_page(board, found) + repr(sorted(figures.items())))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "board.json"), str(tmp_path / "out")]
    subprocess.run(command, check=True, timeout=120)
    found = build_figures(board, manifest)
    own = images({"ranking": found["ranking"], "jackknife": found["jackknife"]}, NAMES)
    assert (tmp_path / "out").read_text() == page + repr(sorted(own.items()))


def test_every_score_of_a_task_stands_with_its_standard_error(board, page, whole):
    rows = {row["model"]: row for row in details(board, TaskID.E_ID_DRONE)}
    assert rows["first"]["AUC ↑, leave-one-environment-out"] == "0.700 ± 0.010"
    assert rows["first"]["EER ↓"] == "0.700 ± 0.020"
    assert rows["first"]["AUC ↑, leave-one-band-out"] == "0.700 ± 0.030"
    assert "lacks a class" in rows["broken"]["undefined"]
    assert "0.700 ± 0.030" in whole(page)


def test_a_value_met_in_pretraining_is_marked_in_words(board, manifest):
    found = build_figures(board, manifest)["held_out_E-ID-DRONE"]
    marks = {row["model"]: (row["mark"], row["met"]) for row in found.rows}
    assert marks["first"] == ("met", "yes")
    assert marks["second"] == ("", "no")
    assert marks["broken"] == ("undefined", "unknown")
    assert marks["textbook"] == ("met?", "unknown")
    drawn = images({"x": found}, NAMES)["x.svg"].decode()
    assert ">met<" in drawn
    assert ">met?<" in drawn


def luminance(colour):
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("theme", [0, 1, 2])
def test_text_on_the_heat_map_can_be_read_in_every_theme(theme):
    root = re.findall(r":root\{([^}]*)\}", STYLE)[theme]
    colours = {}
    for name, digits in re.findall(r"--(\w+):#(\w+)", root):
        full = digits if len(digits) == 6 else "".join(2 * c for c in digits)
        colours[name] = np.array([int(full[place : place + 2], 16) for place in (0, 2, 4)]) / 255
    for depth in figures.DEPTH:
        cell = depth * colours["accent"] + (1 - depth) * colours["ground"]
        low, high = sorted([luminance(cell), luminance(colours["ink"])])
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_captions_do_not_repeat_what_is_read_aloud(page, whole):
    page = whole(page)
    spoken = set(re.findall(r'role="img" tabindex="0" aria-label="([^"]*)"', page))
    captions = set(re.findall(r"<figcaption>([^<]*)</figcaption>", page))
    assert len(spoken) >= 4
    assert captions
    assert not spoken & captions


def test_no_gap_is_made_up_where_no_captures_are(board, manifest):
    assert gap_rows(board, None) == []
    assert "sim_to_real" not in build_figures(board, manifest)


@pytest.mark.parametrize("reported", [False, True])
def test_a_surrogate_is_never_called_real(with_gaps, manifest, reported):
    board, report = with_gaps("surrogate")
    found = build_figures(board, manifest, report if reported else None)
    page = build_page(board, found, report if reported else None)
    drawn = images({"gap": found["sim_to_real"]}, NAMES)["gap.svg"].decode()
    assert "hollow and dashed are surrogates" in page
    assert "myset: surrogate (not real captures)" in drawn
    assert 'stroke-dasharray="4,3"' in drawn
    for text in (page[page.index('id="sim-to-real"') :], drawn):
        assert re.sub(r"not real captures|no real captures|eq 'real'|== 'real'", "", text).count("real captures") == 0


def test_real_captures_are_filled_and_carry_no_surrogate_note(with_gaps, manifest):
    board, report = with_gaps("real")
    found = build_figures(board, manifest, report)
    page = build_page(board, found, report)
    assert "surrogate" not in page[page.index('id="sim-to-real"') : page.index('id="jackknife"')]
    assert 'stroke-dasharray="4,3"' not in images({"gap": found["sim_to_real"]}, NAMES)["gap.svg"].decode()


def test_a_gap_shows_sides_sessions_licence_caveats_and_reasons(with_gaps, manifest):
    board, report = with_gaps("real")
    page = build_page(board, build_figures(board, manifest, report), report)
    section = page[page.index('id="sim-to-real"') : page.index('id="jackknife"')]
    for text in (
        "0.900",
        "0.879",
        "0.829 to 0.929",
        "<td>77</td>",
        "<td>5</td>",
        "CC-BY-4.0",
        "4.2",
        "one class",
        "0.654",
    ):
        assert text in section
    assert "<b>myset, shown</b>: Recorded in one &lt;flat&gt;." in section
    assert "a demonstration: in no mean" in section
    assert "far: AUC 0.432, n 9" in section
    assert {row["set"] for row in gap_rows(board, report)} == {"myset", "shown", None}
    unable = report.models["first"].model_copy(update={"sets": {}})
    assert {row["gap"] for row in gap_rows(board, report.model_copy(update={"models": {"first": unable}}))} == {None}
    assert "E-ID-FP has no gap: no public set." in section


def test_a_report_that_is_not_the_boards_is_refused(with_gaps, tmp_path):
    board, report = with_gaps("surrogate")
    path = tmp_path / "sim_to_real.json"
    good = report.model_dump(mode="json")
    path.write_text(json.dumps(good))
    assert read_report(path, board) == report
    for change in ({"seed": 4}, {"eval_split": "holdout"}, {"data_release_hash": "cd" * 32}):
        path.write_text(json.dumps(good | change))
        with pytest.raises(InputError, match=next(iter(change))):
            read_report(path, board)
    good["models"]["first"]["gap_percentage_points"] = 1.0
    path.write_text(json.dumps(good))
    with pytest.raises(InputError, match=r"models\.first: expected the gaps that stand on the leaderboard"):
        read_report(path, board)


def test_files_that_are_no_python_are_installed_with_the_package():
    """A wheel holds what pyproject.toml names, and a page without its style would be blank."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    package = ROOT / "src/emma/report"
    named = {path for pattern in declared["emma.report"] for path in package.glob(pattern)}
    there = {path for path in package.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert named == there
    assert {path.name for path in named} == {
        "macros.html", "page.html", "ranking.html", "charts.js", "page.js", "table.js", "style.css",
    }  # fmt: skip


def test_controls_and_costs_stand_on_the_page(board, manifest, whole):
    content = board.model_dump(mode="json")
    first = content["models"][0]
    first["control"] = {
        "model": "first.control",
        "ood_avg": {"score": 0.4, "difference": 0.2, "ci95": [0.05, 0.35]},
        "tasks": {"E-ID-DRONE": {"score": 0.61, "difference": 0.09, "ci95": [-0.01, 0.19]}},
    }
    task = {"macs": 123456, "uncounted": None, "width": 32, "dead_features": 3}
    first["cost"] = {
        "parameters": 98765,
        "macs": 123456,
        "width": 32,
        "weights_bytes": 400,
        "tasks": {"E-ID-DRONE": task},
    }
    first["cost"] |= {"description": "a network <b>", "link": "https://example.org/net", "licence": "MIT"}
    first["tasks"]["E-ID-DRONE"]["normalized"] = 0.4
    shown = type(board).model_validate(content)
    figures = build_figures(shown, manifest)
    assert [point["macs"] for point in figures["cost_E-ID-DRONE"].rows] == [123456]
    page = whole(build_page(shown, figures))
    for text in ("What pretraining bought", "0.050 to 0.350", "0.090", "-0.010 to 0.190", "98,765", "123,456"):
        assert text in page
    assert "a network &lt;b&gt;" in page
    assert "a network <b>" not in page
    table = markdown(shown)[markdown(shown).index("What the models cost") :]
    assert "| first | 98,765 | 123,456 | 32 | 400 | MIT |" in table
    assert "What the models cost" not in markdown(board)
    plain = build_page(board, build_figures(board, manifest))
    assert "What pretraining bought" not in plain
    assert 'id="costs"' not in plain
