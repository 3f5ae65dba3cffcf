"""docs/architecture.md shows the packages and rules as they are; the packages stay few and import in no circle."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/architecture.md"


@pytest.fixture(scope="module")
def program():
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location("draw_structure", ROOT / "scripts/draw_structure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture(scope="module")
def packages(program):
    return program.package_graph()


def test_packages_are_few_and_import_in_no_circle(program, packages):
    # Beside the logger, which Snakemake finds by the name of a package of its own.
    assert len(packages.keys() - {"snakemake_logger_plugin_emma"}) <= 20
    assert sum(map(len, packages.values())) <= 90
    assert set(program.in_order(packages)) == set(packages)
    # The graph is not empty by mistake.
    assert {"common", "emma.metrics", "emma.evaluation", "rfgen.scenes", "floor_events"} <= set(packages)
    assert "emma.data" in packages["emma.evaluation"]


def test_the_page_is_up_to_date(program):
    text = PAGE.read_text()
    assert program.drawn_into(text, PAGE) == text, "run scripts/draw_structure.py"


def test_a_circle_is_named(program):
    with pytest.raises(ValueError, match=r"in a circle: (a <- b <- a|b <- a <- b)$"):
        program.in_order({"a": {"b"}, "b": {"a"}, "c": set()})


def test_what_a_chain_implies_is_left_out(program):
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"d", "a"}}
    assert program.reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"a"}}


def test_a_page_without_markers_is_refused(program, tmp_path):
    with pytest.raises(ValueError, match="expected one pair of markers"):
        program.drawn_into("# Architecture\n", tmp_path / "a.md")


def test_every_rule_is_drawn():
    drawing = re.search(r"## Rules.*?```mermaid\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    drawn = {name for line in drawing.splitlines() if "-->" in line for name in re.findall(r"\w+", line)}
    patterns = {re.sub(r"[A-Z]{2,}", ".+", name) for name in drawn}
    command = [sys.executable, "-m", "snakemake", "--list-rules", "--configfile", "config/config.yaml"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert len(listed) > 20
    assert [rule for rule in listed if not any(re.fullmatch(pattern, rule) for pattern in patterns)] == []
    # Nothing is drawn that is no rule; those of the floor events and of submissions are there only where configured.
    optional = ("floor_", "submission_")
    drawn_only = {p for p in patterns if not any(re.fullmatch(p, rule) for rule in listed)}
    assert {pattern for pattern in drawn_only if not pattern.startswith(optional)} == set()
