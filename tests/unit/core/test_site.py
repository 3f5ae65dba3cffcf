"""The documentation site builds strictly, from disk it needs no net, and its pages hold what they are made from."""

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from emma.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[3]


def build(config, site):
    """Run mkdocs as `make docs` does; with `--quiet` no warning would count."""
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", config, "--site-dir", site]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, all warnings being errors."""
    folder = tmp_path_factory.mktemp("site")
    result = build("mkdocs.yml", folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_a_dead_link_and_a_missing_heading_end_the_build(tmp_path):
    """With the settings of mkdocs.yml, on two pages."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    kept = {key: settings[key] for key in ("strict", "validation", "use_directory_urls")}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# A\n\n[b](b.md#none) [c](c.md)\n")
    (tmp_path / "docs/b.md").write_text("# B\n")
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump({"site_name": "x", "plugins": [], "nav": ["index.md"], **kept}))
    result = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    told = result.stdout + result.stderr
    assert result.returncode == 1
    assert all(said in told for said in ("c.md", "#none", 'not included in the "nav"'))


def test_nothing_is_fetched_from_the_net(site):
    """Scripts, styles, pictures and fonts are files of the site; links that a reader follows may lead elsewhere."""
    asked = r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=[\"']?([^\"'\s>]+)|<link\b[^>]*?\bhref=[\"']?([^\"'\s>]+)"
    for page in site.rglob("*.html"):
        found = [first or second for first, second in re.findall(asked, page.read_text())]
        assert found, page
        assert [target for target in found if "//" in target] == [], page
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]*", style.read_text()) == [], style


def test_every_diagram_is_drawn(site):
    pages = [site / "architecture.html", site / "index.html"]
    assert all("<svg viewBox" in page.read_text() or 'class="measures"' in page.read_text() for page in pages)
    assert 'class="mermaid' not in "".join(page.read_text() for page in site.rglob("*.html"))


def test_reference_pages_hold_what_they_are_made_from(site):
    options = html.unescape((site / "reference/options.html").read_text())
    assert all(f"usage: emma {name}" in options for name in COMMANDS)
    assert "usage: embed.py" in options
    schemas = html.unescape((site / "reference/schemas.html").read_text())
    for path in (ROOT / "config/schemas").glob("*.json"):
        assert all(f"<code>{key}</code>" in schemas for key in json.loads(path.read_text()).get("properties", {}))
    assert "the most multiply-accumulates of a scene" in (site / "reference/board.html").read_text()
    assert "real_captures" in (site / "reference/configuration.html").read_text()
    assert 'id="emma.results.evaluator.Evaluator.evaluate"' in (site / "reference/python.html").read_text()


def test_the_search_index_is_in_the_site(site):
    index = (site / "search/search_index.js").read_text()
    assert "leave-one-environment-out" in index


def test_from_disk_the_search_finds_and_no_page_is_cut(site, browser):
    """In a browser: nothing is fetched but files, nothing is printed, and only tables, code and pictures scroll."""
    heard = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else heard.append(asked.url))
    page.goto((site / "index.html").as_uri())
    page.locator(".md-search__input").press_sequentially("reactive diagnostic")
    found = page.locator(".md-search-result__link", has_text="The reactive post-boundary diagnostic")
    found.first.wait_for(timeout=10_000)
    page.set_viewport_size({"width": 375, "height": 800})
    for name in ("index", "architecture", "results", "reference/options", "reference/python"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 375, name
    page.close()
    assert heard == []
