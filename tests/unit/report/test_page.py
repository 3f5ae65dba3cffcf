"""The page, its figures and its tables, from a small board that holds every awkward case."""

import html
import re
import shutil
import subprocess

import pytest

from emma.board import Board
from emma.files import InputError
from emma.report.data import brackets, check_release, gaps, number, values
from emma.report.page import build_figures, build_page, images
from emma.report.tables import latex, markdown, tex
from emma.tasks import Anchors

EVIL = "<script>alert(1)</script>"
HASH = "ab" * 32
CAVEAT = "A comparative ranking & no population estimate."


class Spec:
    anchors = Anchors(minimum=0.5, maximum=1.0)


class Manifest:
    data_release_hash = HASH

    @staticmethod
    def spec(task):
        return Spec


def row(model, rank, average, separable, *, score=0.9, undefined=None, kind="backbone", real=None):
    value = {"n": 40, "ci95": None if undefined else [0.8, 0.95], "in_distribution": 0.95}
    value |= {"value": None if undefined else score, "undefined": undefined, "met_in_pretraining": "unknown"}
    block = {"metric": "AUC", "unit": "1", "direction": "higher", "score": None if undefined else score}
    block |= {"standard_error": None, "undefined": undefined, "protocol": "leave-one-environment-out"}
    block |= {"axis": "environment", "values": {"E_URBAN": value, "E_RURAL": value}, "normalized": None}
    block |= {"clipped": None, "in_ood_avg": True, "secondary_metrics": {}, "secondary": {}}
    ranges = {"min": 0.2, "max": 0.7, "averages": {"E-ID-FP": 0.2, "E-LOC-AOA": 0.7}}
    span = {"leave_one_task_out": ranges, "leave_one_value_out": ranges, "fragile": True}
    provenance = {"name": model, "config_sha256": HASH, "weights_sha256": None, "pretraining": "unknown"}
    return {
        "model": model,
        "kind": kind,
        "rank": rank,
        "ood_avg": average,
        "ood_avg_ci95": None if average is None else [average - 0.1, average + 0.1],
        "undefined": undefined,
        "separable_from_next": separable,
        "tasks": {"E-ID-DRONE": block},
        "sensitivity": span if average is not None else None,
        "sim_to_real": real,
        "run_manifest": {
            "model_provenance": provenance,
            "data_release_hash": HASH,
            "prediction_bundle_hashes": {"E-ID-DRONE": HASH},
            "task_metrics": {"E-ID-DRONE": {"AUC": None}},
            "seed": 3,
            "harness_version": "0.1.0",
        },
    }


@pytest.fixture(scope="module")
def board():
    rows = [
        row("first", 1, 0.6, False, score=0.7),
        row("second", 2, 0.5, True, score=0.95),
        row(EVIL, 3, 0.4, None, kind="submitted"),
        row("broken", None, None, None, undefined="the fold of E_URBAN lacks a class"),
        row("textbook", None, None, None, kind="reference"),
    ]
    head = {"release": "v9", "data_release_hash": HASH, "eval_split": "dev", "seed": 3, "harness_version": "0.1.0"}
    return Board.model_validate({**head, "caveats": [CAVEAT], "models": rows})


@pytest.fixture(scope="module")
def page(board):
    return build_page(board, build_figures(board, Manifest))


def test_a_bracket_joins_neighbours_that_cannot_be_told_apart_and_no_others(board):
    assert brackets(board) == {"first": "start", "second": "end", EVIL: "none"}


def test_names_from_models_are_text_everywhere(page, board):
    assert EVIL not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert EVIL not in markdown(board)
    assert latex("a_b & 5%") == "a\\_b \\& 5\\%"


def test_the_page_says_what_its_numbers_rest_on(page):
    for text in ("A comparative ranking &amp; no population", "seed 3", "scored on DEV", "lacks a class", "submitted"):
        assert text in page
    assert "chosen with v0.1 DEV scores in view" in page
    assert "Not configured: no captures" in page
    assert page.count("<summary>Run manifest of") == 5


def test_the_page_asks_for_nothing_outside_itself(page):
    assert "default-src 'none'" in page
    assert not re.search(r"<(?:script|img|iframe)[^>]* src=|<link[^>]* href=\"(?!data:)|@import|url\(", page[:20000])
    assert page.count("window.vegaEmbed=") == 1
    assert len(page) < 3_000_000


def test_the_same_board_gives_the_same_bytes(board, page):
    found = build_figures(board, Manifest)
    assert build_page(board, found) == page
    assert images(found) == images(build_figures(board, Manifest))


def test_bold_is_for_a_best_that_holds(board):
    assert "**" not in markdown(board) and "textbf" not in tex(board)
    rows = [model.model_copy(update={"separable_from_next": True}) for model in board.models]
    firm = board.model_copy(update={"models": tuple(rows)})
    assert markdown(firm).count("**0.600**") == 1 and tex(firm).count("\\textbf{0.600}") == 1


def test_an_undefined_score_is_no_number(board):
    rows = [item for item in values(board, Manifest) if item["model"] == "broken"]
    assert {item["text"] for item in rows} == {"–"} and {item["skill"] for item in rows} == {None}
    assert "broken: no OOD-avg: the fold of E\\_URBAN lacks a class" in markdown(board)


def test_values_stand_on_the_scale_of_the_anchors(board):
    assert values(board, Manifest)[0]["skill"] == pytest.approx(0.4)
    assert number(-1e-9) == "0.000"


def test_a_board_of_another_release_is_refused(board):
    with pytest.raises(InputError, match="data_release_hash"):
        check_release(board.model_copy(update={"data_release_hash": "cd" * 32}), Manifest)


def test_no_gap_is_made_up_where_no_captures_are(board):
    assert gaps(board) == []
    assert "sim_to_real" not in build_figures(board, Manifest)


def test_a_surrogate_is_never_called_real(board):
    block = {"kind": "surrogate", "gap_percentage_points": 4.2, "undefined": None, "tasks": {}}
    other = Board.model_validate(board.model_dump(mode="json") | {"models": [row("first", 1, 0.6, None, real=block)]})
    found = build_figures(other, Manifest)
    page = build_page(other, found)
    assert "surrogate (not real captures)" in page and "Bars marked surrogate" in page
    assert "surrogate (not real captures)" in images({"gap": found["sim_to_real"]})["gap.svg"].decode()


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: tests/install_tools.sh installs it")
def test_a_browser_draws_every_figure_sorts_and_says_nothing_on_its_console(page, board, tmp_path):
    click = "<script>document.querySelectorAll('table.board button')[3].click()</script>"
    # The probe's own script is let in; all else stays as built.
    probe = re.sub(r"script-src [^\"]*", "script-src 'unsafe-inline'", page, count=1).replace(
        "</body>", click + "</body>"
    )
    (tmp_path / "page.html").write_text(probe)
    (tmp_path / "asbuilt.html").write_text(page)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=8000"]

    def dump(name):
        command = [CHROMIUM, *options, f"--user-data-dir={tmp_path}/p", "--dump-dom", f"file://{tmp_path}/{name}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)

    built, sorted_ = dump("asbuilt.html"), dump("page.html")
    assert "CONSOLE" not in built.stderr
    assert built.stdout.count('<svg xmlns="http://www.w3.org/2000/svg"') == len(build_figures(board, Manifest))
    names = re.findall(r'scope="row" class="name" data-key="([^"]+)', sorted_.stdout)
    names = ["EVIL" if name == html.escape(EVIL) or "script" in name else name for name in names]
    assert names == ["first", "EVIL", "second", "broken", "textbook"]
    assert 'aria-sort="ascending"' in sorted_.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: tests/install_tools.sh installs it")
def test_a_phone_scrolls_in_one_direction_only(page, tmp_path):
    (tmp_path / "page.html").write_text(page)
    script = "setTimeout(() => { const d = f.contentDocument.documentElement;"
    script += " document.title = `${d.scrollWidth} ${d.clientWidth} ${d.querySelectorAll('svg').length}` }, 4000)"
    frame = '<iframe id="f" src="page.html" style="width:375px;height:900px;border:0"></iframe>'
    (tmp_path / "phone.html").write_text(f"{frame}<script>{script}</script>")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    command = [CHROMIUM, *options, "--virtual-time-budget=8000", f"--user-data-dir={tmp_path}/p"]
    command.append(f"file://{tmp_path}/phone.html")
    seen = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout
    needed, given, drawn = map(int, re.search(r"<title>(\d+) (\d+) (\d+)", seen).groups())
    assert drawn > 0 and needed <= given <= 375
