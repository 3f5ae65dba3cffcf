"""The page in a real browser: it draws, sorts, opens, fits, prints no error and asks for nothing."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: tests/install_tools.sh installs it")
EVIL = "<script>alert(1)</script>"
DRAWN = ".chart svg.marks"


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
        seen.locator("html[data-drawn]").wait_for()
        return seen

    yield open_page
    for context in contexts:
        context.close()
    assert [line for line in heard if not line.startswith("data:")] == []


def models(seen):
    return (
        seen.locator("table.board")
        .first.locator("tbody th.name")
        .evaluate_all("cells => cells.map(cell => cell.dataset.key)")
    )


def test_every_figure_is_drawn_within_three_seconds(opened):
    seen = opened()
    charts = seen.locator(".chart").count()
    assert charts >= 4
    assert seen.locator(DRAWN).count() == charts
    assert 0 < float(seen.locator("html").get_attribute("data-drawn")) < 3000


def test_a_first_click_on_a_title_puts_the_best_first_and_a_second_one_turns_the_order(opened):
    seen = opened()
    ranked, apart = ["first", "second", EVIL], ["broken", "textbook"]
    assert models(seen) == [*ranked, *apart]
    table = seen.locator("table.board").first
    title = table.locator("thead th[data-column='E-ID-DRONE']")
    title.get_by_role("button").click()
    assert title.get_attribute("aria-sort") == "descending"
    assert models(seen) == ["second", EVIL, "textbook", "first", "broken"]
    title.get_by_role("button").click()
    assert title.get_attribute("aria-sort") == "ascending"
    assert models(seen) == ["first", EVIL, "textbook", "second", "broken"]
    assert "by-rank" not in table.get_attribute("class")
    seen.get_by_role("button", name="Reset").click()
    assert models(seen) == [*ranked, *apart]
    assert "by-rank" in table.get_attribute("class")


def test_the_keyboard_alone_sorts_and_opens_a_manifest(opened):
    seen = opened()
    seen.locator("table.board").first.locator("thead button").nth(1).focus()
    seen.keyboard.press("Tab")
    seen.keyboard.press("Enter")
    assert models(seen)[:3] == ["first", "second", EVIL]
    seen.keyboard.press("Enter")
    assert models(seen)[:3] == [EVIL, "second", "first"]
    section = seen.locator("details.model").first
    manifest = section.locator("details")
    for box in (section, manifest):
        assert box.get_attribute("open") is None
        box.locator("summary").first.focus()
        seen.keyboard.press("Space")
        assert box.get_attribute("open") is not None
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


def test_a_reason_stays_within_its_cell(opened):
    seen = opened(viewport={"width": 700, "height": 800})
    seen.locator("table.board td small").last.evaluate("note => { note.textContent = 'no score here '.repeat(20); }")
    sides = "note => [note, note.closest('td')].map(e => e.getBoundingClientRect()).flatMap(e => [e.left, e.right])"
    left, right, least, most = seen.locator("table.board td small").last.evaluate(sides)
    assert least <= left < right <= most


def test_no_figure_repeats_the_signs_of_the_models(opened):
    seen = opened()
    assert seen.locator(".legend").count() >= 1
    assert seen.locator("[id^='figure-transfer'] svg [aria-roledescription=legend]").count() == 0


def test_a_printed_page_leaves_out_what_cannot_be_opened(opened):
    seen = opened()
    assert seen.locator("details.model").first.is_visible()
    seen.emulate_media(media="print")
    assert not seen.locator("details.model").first.is_visible()
    assert seen.locator(DRAWN).first.is_visible()
