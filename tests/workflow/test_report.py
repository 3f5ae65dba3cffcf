"""`snakemake --report`: one archive with the page, the tables, the figures and their captions, for reading offline."""

import zipfile

import pytest


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory):
    """The unpacked report of the finished release."""
    folder = tmp_path_factory.mktemp("report")
    made = finished.run("--report", str(folder / "report.zip"))
    assert made.returncode == 0, made.stdout + made.stderr
    with zipfile.ZipFile(folder / "report.zip") as archive:
        archive.extractall(folder)
    return folder / "report"


def test_a_report_holds_page_tables_figures_and_captions(finished, report):
    files = {path.name: path for path in sorted(report.rglob("*")) if path.is_file()}
    for name in ("leaderboard.html", "leaderboard.csv", "leaderboard.md"):
        assert files[name].read_bytes() == (finished.results / name).read_bytes()
    figures = {path.name for path in (finished.results / "figures").glob("*.svg")}
    assert figures == {name for name in files if name.endswith(".svg")} != set()
    text = files["report.html"].read_text()
    for category in ("1. Leaderboard", "2. Tables", "3. Figures", "4. Reports"):
        assert category in text
    for caption in ("cannot be told apart", "One row per model, task and held-out value", "in the colours of a paper"):
        assert caption in text
    assert "What the OOD averages rest on" in text
    assert "no population estimate" in text


def test_a_report_makes_nothing_stale(finished, report):
    assert finished.jobs() == {}


def test_a_report_and_the_page_in_it_ask_for_nothing_outside(report, browser):
    (page,) = report.rglob("leaderboard.html")
    for path, shown in ((report / "report.html", "1. Leaderboard"), (page, "EMMA leaderboard")):
        seen = browser.new_page()
        asked, errors = [], []
        seen.on("request", lambda request, asked=asked: asked.append(request.url))
        seen.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        seen.goto(path.as_uri())
        seen.get_by_text(shown).first.wait_for(timeout=10_000)
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert errors == []
        seen.close()
