"""The page in a real browser: it draws, sorts, opens, fits, prints no error and asks for nothing."""

import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright here: make setup installs it")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: tests/install_tools.sh installs it")
EVIL = "<script>alert(1)</script>"
DRAWN = ".chart svg.marks"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def path(page, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page)
    return file


@pytest.fixture
def opened(browser, path):
    """Opens the page; what it says, asks for or fails at, through the whole test, ends the test."""
    contexts, heard = [], []

    def open_page(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        seen = context.new_page()
        seen.set_default_timeout(10_000)
        seen.on("console", lambda message: heard.append(f"console: {message.text}"))
        seen.on("pageerror", lambda error: heard.append(f"error: {error}"))
        seen.on("request", lambda request: heard.append(request.url) if request.url != path.as_uri() else None)
        seen.goto(path.as_uri())
        seen.locator("#figure-jackknife svg").wait_for()
        return seen

    yield open_page
    for context in contexts:
        context.close()
    assert [line for line in heard if not line.startswith("data:")] == []


def models(seen):
    return (
        seen.locator("table.board")
        .first.locator("tbody tr:first-child th.name")
        .evaluate_all("cells => cells.map(cell => cell.dataset.key)")
    )


def test_every_figure_is_drawn_within_three_seconds(opened):
    seen = opened()
    charts = seen.locator(".chart").count()
    assert charts >= 5
    assert seen.locator(DRAWN).count() == charts
    spent = seen.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < spent < 3000


def test_a_click_on_a_title_sorts_and_a_second_one_turns_the_order(opened):
    seen = opened()
    assert models(seen) == ["first", "second", EVIL]
    title = seen.locator("table.board").first.locator("thead th", has_text="E-ID-DRONE")
    title.get_by_role("button").click()
    assert title.get_attribute("aria-sort") == "ascending"
    assert models(seen) == ["first", EVIL, "second"]
    title.get_by_role("button").click()
    assert title.get_attribute("aria-sort") == "descending"
    assert models(seen) == ["second", EVIL, "first"]
    assert "by-rank" not in seen.locator("table.board").first.get_attribute("class")


def test_the_keyboard_alone_sorts_and_opens_a_manifest(opened):
    seen = opened()
    for _ in range(6):
        seen.keyboard.press("Tab")
        if seen.evaluate("document.activeElement.textContent").startswith("OOD-avg"):
            break
    seen.keyboard.press("Enter")
    assert models(seen) == [EVIL, "second", "first"]
    manifest = seen.locator("table.board details").first
    assert manifest.get_attribute("open") is None
    manifest.locator("summary").focus()
    seen.keyboard.press("Space")
    assert manifest.get_attribute("open") is not None
    assert manifest.get_by_text("ab" * 32).first.is_visible()
    assert manifest.get_by_text("harness_version").is_visible()


def test_hover_on_a_cell_of_the_heat_map_says_n(opened):
    seen = opened()
    seen.locator("[id='figure-held_out_E-ID-DRONE'] svg .mark-rect path").first.hover(force=True)
    tip = seen.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "40" in tip.inner_text()
    assert "met in pretraining" in tip.inner_text()


def test_dark_follows_the_system_in_page_and_figures(opened):
    shades = {}
    for scheme in ("light", "dark"):
        seen = opened(color_scheme=scheme)
        ground = seen.evaluate("getComputedStyle(document.body).backgroundColor")
        ink = seen.locator("#figure-ranking svg text").first.evaluate("text => getComputedStyle(text).fill")
        shades[scheme] = (ground, ink)
    assert shades["light"][0] == "rgb(255, 255, 255)"
    assert shades["dark"][0] == "rgb(20, 24, 27)"
    assert shades["light"][1] != shades["dark"][1]


@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_overflows_sideways(opened, width):
    seen = opened(viewport={"width": width, "height": 800})
    seen.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    needed, given = seen.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert needed <= given <= width
    caption = seen.locator("table.board caption span").first.bounding_box()
    assert caption["x"] + caption["width"] <= width


def test_both_ranking_tables_stand_in_line_whatever_they_hold(opened):
    seen = opened(viewport={"width": 700, "height": 800})
    tables = seen.locator("table.board")
    tables.nth(1).locator("tbody td").nth(1).evaluate("cell => { cell.textContent = '1'.repeat(60); }")
    ends = "cells => cells.map(cell => Math.round(cell.getBoundingClientRect().right))"
    first, second = (tables.nth(place).locator("thead th").evaluate_all(ends) for place in (0, 1))
    assert first == second
    assert len(first) == 4


def test_a_reason_stays_within_its_cell(opened):
    seen = opened(viewport={"width": 700, "height": 800})
    seen.locator("table.board td small").last.evaluate("note => { note.textContent = 'no score here '.repeat(20); }")
    sides = "note => [note, note.closest('td')].map(e => e.getBoundingClientRect()).flatMap(e => [e.left, e.right])"
    left, right, least, most = seen.locator("table.board td small").last.evaluate(sides)
    assert least <= left < right <= most


def test_the_scatters_share_one_legend(opened):
    seen = opened()
    assert seen.locator("[data-spec=spec-legend] svg").count() == 1
    assert seen.locator("[id^='figure-transfer'] svg [aria-roledescription=legend]").count() == 0


def test_a_printed_page_leaves_out_what_cannot_be_opened(opened):
    seen = opened()
    assert seen.locator("table.board details").first.is_visible()
    seen.emulate_media(media="print")
    assert not seen.locator("table.board details").first.is_visible()
    assert seen.locator(DRAWN).first.is_visible()
