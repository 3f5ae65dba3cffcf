"""A page of 30 models on twelve tasks at three widths: every control does what it says, nothing is cut or overlaps."""

import shutil
from pathlib import Path

import pytest

from common.files import json_text
from emma.report.latex import texts
from emma.report.terms import TERMS
from emma.results.frames import board_csv

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: tests/install_tools.sh installs it")
LAYOUT = Path(__file__).with_name("layout.js").read_text()
TASK = "E-LOC-AOA"


@pytest.fixture(scope="module", params=[375, 1280, 1920])
def seen(request, browser, wide_page, tmp_path_factory):
    """The page in a window of some width, opened once; what it says or asks for, through all tests, ends the last."""
    file = tmp_path_factory.mktemp("wide") / "page.html"
    file.write_text(wide_page)
    heard = []
    context = browser.new_context(viewport={"width": request.param, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda asked: heard.append(asked.url) if asked.url != file.as_uri() else None)
    page.goto(file.as_uri())
    page.locator("html[data-drawn]").wait_for()
    yield page
    context.close()
    assert [line for line in heard if not line.startswith(("data:", "blob:"))] == []


def shown(seen):
    """The models of the ranking that are shown, in their order."""
    rows = "rows => rows.filter(row => !row.hidden).map(row => row.dataset.model)"
    return seen.locator("#ranking-table tbody tr").evaluate_all(rows)


def frames(seen):
    """Wait until what was asked for is drawn."""
    seen.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_search_leaves_the_rows_that_have_every_word(seen, wide):
    seen.fill("#search", "WAV2VEC control")
    names = [row.model for row in wide.models if "wav2vec" in row.model and row.control_of]
    assert shown(seen) == names != []
    assert seen.locator("#shown").inner_text() == f"{len(names)} of 30 rows"
    seen.fill("#search", "no such model")
    assert shown(seen) == []
    seen.get_by_role("button", name="Reset").click()
    assert shown(seen) == [row.model for row in wide.models]


def test_kinds_leave_their_rows_alone(seen, wide):
    seen.locator("input[name=kind][value=control]").uncheck()
    seen.locator("input[name=kind][value=chance]").uncheck()
    assert shown(seen) == [row.model for row in wide.models if row.kind in ("backbone", "oracle")]
    seen.get_by_role("button", name="Reset").click()
    assert len(shown(seen)) == 30


def test_columns_are_chosen(seen):
    titles = "heads => heads.filter(head => !head.hidden).map(head => head.dataset.column)"
    heads = seen.locator("#ranking-table thead th")
    before = heads.evaluate_all(titles)
    seen.locator(".menu > summary").click()
    seen.locator(f"input[name=column][value={TASK}]").uncheck()
    seen.locator("input[name=column][value=macs]").check()
    assert set(before) - set(heads.evaluate_all(titles)) == {TASK}
    assert set(heads.evaluate_all(titles)) - set(before) == {"macs"}
    hidden = "rows => rows.map(row => [...row.cells].map(cell => cell.hidden).join())"
    assert len(set(seen.locator("#ranking-table tr").evaluate_all(hidden))) == 1
    menu = seen.locator(".choices").bounding_box()
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= seen.viewport_size["width"]
    seen.locator(".menu > summary").click()
    seen.get_by_role("button", name="Reset").click()
    assert heads.evaluate_all(titles) == before


def test_every_column_sorts_its_best_first(seen, wide):
    best = {task.value: block.direction for task, block in wide.models[0].tasks.items()} | {"parameters": "lower"}
    best |= {"ood_avg": "higher", "over_control": "higher", "rank": "lower", "macs": "lower"}
    found = seen.evaluate("""() => {
        const table = document.getElementById("ranking-table");
        const found = {};
        for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
            if (head.dataset.column === "rank") table.tHead.rows[0].cells[2].querySelector("button").click();
            head.querySelector("button").click();
            const keys = [...table.tBodies[0].rows].map(row => row.cells[place].dataset.key);
            found[head.dataset.column] = keys.filter(key => key !== "").map(Number);
        }
        return found;
    }""")
    assert set(best) == set(found) - {"model"}
    for column, direction in best.items():
        assert found[column] == sorted(found[column], reverse=direction == "higher"), column
        assert len(set(found[column])) > 5, column
    seen.get_by_role("button", name="Reset").click()
    assert shown(seen) == [row.model for row in wide.models]


def test_a_tab_shows_its_task_alone_with_scores_figures_and_a_table_that_opens(seen, wide, wide_figures):
    for number, task in ((3, "E-ID-FP"), (11, "E-S2T-QA"), (0, TASK)):
        seen.get_by_role("tab").nth(number).click()
        panels = seen.locator("[role=tabpanel]").evaluate_all(
            "all => all.filter(one => one.checkVisibility()).map(one => one.id)"
        )
        assert panels == [f"task-{task}"]
        panel = seen.locator(f"[id='task-{task}']")
        assert panel.locator(".scores tbody tr").count() == 30
        assert panel.locator(".chart svg.marks").count() == 3
        assert seen.evaluate("location.hash") == f"#task-{task}"
    box = panel.locator(f"[data-table='transfer_{TASK}']")
    box.locator("summary").click()
    values = len(wide.models[0].tasks[TASK].values)
    box.locator("table tbody tr").nth(30 * values - 1).wait_for()
    cells = box.locator("table tbody tr").first.locator("td").all_inner_texts()
    (row, *_) = wide_figures[f"transfer_{TASK}"].rows
    skills = [f"{row[key]:.3f}" for key in ("skill_in_distribution", "skill")]
    assert cells == [wide.models[0].model, "E_URBAN", *skills, "400"]
    box.locator("summary").click()


def test_downloads_are_the_files_that_stand_beside_the_page(seen, wide):
    written = {f"leaderboard.{kind}": text for kind, text in texts(wide).items()}
    written |= {"leaderboard.csv": board_csv(wide), "leaderboard.json": json_text(wide.model_dump(mode="json"))}
    buttons = seen.locator("[data-download]")
    assert buttons.count() == 5
    for button in buttons.all():
        with seen.expect_download() as caught:
            button.click()
        name = caught.value.suggested_filename
        assert Path(caught.value.path()).read_bytes() == written[name].encode()


def test_a_model_that_is_pointed_at_stands_out_in_rows_and_figures(seen, wide):
    name = wide.models[2].model
    faint = "marks => marks.filter(mark => Number(mark.getAttribute('opacity')) < 0.2).length"
    points = seen.locator(f"[id='figure-transfer_{TASK}'] svg .mark-symbol path")
    total = points.count()
    assert points.evaluate_all(faint) == 0
    button = seen.locator(f"#task-{TASK} .legend button[data-model='{name}']")
    button.hover()
    frames(seen)
    values = len(wide.models[0].tasks[TASK].values)
    assert total - points.evaluate_all(faint) == 2 * values
    lit = seen.locator("#ranking-table tr.lit").evaluate_all("rows => rows.map(row => row.dataset.model)")
    assert lit == [name]
    button.click()
    seen.mouse.move(0, 0)
    frames(seen)
    assert button.get_attribute("aria-pressed") == "true"
    assert total - points.evaluate_all(faint) == 2 * values
    button.click()
    seen.mouse.move(0, 0)
    frames(seen)
    assert points.evaluate_all(faint) == 0


def test_terms_are_explained_where_they_stand_and_in_the_glossary(seen):
    tip = seen.locator("#tip")
    for place in seen.locator("main abbr:visible").all()[:6]:
        place.scroll_into_view_if_needed()
        place.hover()
        assert tip.is_visible()
        assert tip.inner_text() in TERMS.values()
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= seen.viewport_size["width"]
    seen.keyboard.press("Escape")
    assert not tip.is_visible()
    seen.mouse.move(0, 0)
    seen.locator("main abbr").first.focus()
    assert tip.is_visible()
    seen.locator("main abbr").first.blur()
    assert not tip.is_visible()
    terms = seen.locator(".glossary dt").all_inner_texts()
    assert terms == list(TERMS)


def test_nothing_is_cut_and_nothing_overlaps(seen):
    seen.locator("details.model").evaluate_all("all => all.slice(0, 2).forEach(one => { one.open = true; })")
    seen.locator("details.model .facts").nth(1).wait_for()
    seen.locator("details.model .body details").first.evaluate("one => { one.open = true; }")
    faults = dict.fromkeys(seen.evaluate(LAYOUT, "body"), "the page")
    for tab in seen.get_by_role("tab").all():
        tab.click()
        frames(seen)
        faults |= dict.fromkeys(seen.evaluate(LAYOUT, "[role=tabpanel]:not(.off)"), tab.inner_text())
    assert faults == {}


def test_the_ranking_fits_a_printed_page(seen):
    """A4 across, less its margins: what is wider would be cut, since paper does not scroll."""
    before = seen.viewport_size
    seen.set_viewport_size({"width": 1047, "height": 700})
    seen.emulate_media(media="print")
    ends = "tables => tables.map(table => table.getBoundingClientRect().right)"
    assert max(seen.locator("table.board").evaluate_all(ends)) <= 1047
    sizes = "cells => cells.map(cell => Number.parseFloat(getComputedStyle(cell).fontSize))"
    small = seen.locator("table.board td small").evaluate_all(sizes)
    assert max(small) < min(seen.locator("table.board td.number").evaluate_all(sizes))
    assert not seen.locator(".controls").is_visible()
    seen.emulate_media(media="screen")
    seen.set_viewport_size(before)
