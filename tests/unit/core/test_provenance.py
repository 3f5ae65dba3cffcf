"""Code digests: what a program can reach, no more, and every byte of it."""

import importlib.metadata
from pathlib import Path

import pytest

import emma
from workflow_support import identity as provenance
from workflow_support.identity import closure, code_digest, modules_digest, outside_digest

ROOT = Path(__file__).parents[3]


def test_a_closure_is_what_can_be_reached():
    fold = set(closure(["emma.evaluation.fitting"]))
    assert {
        "emma",
        "emma.evaluation.fitting",
        "emma.data.protocols",
        "emma.readouts",
        "common.hashing",
        "common.files",
    } <= fold
    assert not {"emma.metrics", "emma.evaluation.scoring", "emma.results.leaderboard"} & fold
    assert not any(module.startswith("rfgen") for module in closure(["emma.results.evaluator"]))
    assert closure(["nothing.of.this"]) == []


def test_modules_that_a_package_looks_for_are_reached():
    assert {"rfgen.scenes.drone", "rfgen.scenes.modulation"} <= set(closure(["rfgen.recipe"]))
    assert not {"rfgen.captures.twins", "rfgen.channels"} & set(closure(["rfgen.recipe"]))


def test_a_metric_changes_scoring_and_no_fit(monkeypatch):
    before = {name: code_digest(ROOT / f"scripts/{name}.py") for name in ("fit_fold", "score_task", "make_splits")}
    plain = provenance._module_digest
    monkeypatch.setattr(provenance, "_module_digest", lambda m: "x" if m == "emma.metrics.ranking" else plain(m))
    after = {name: code_digest(ROOT / f"scripts/{name}.py") for name in before}
    assert {name for name in before if before[name] != after[name]} == {"score_task"}


def test_the_program_its_factories_and_its_libraries_count(tmp_path):
    program = tmp_path / "p.py"
    program.write_text("from common import files\n")
    first = code_digest(program)
    assert code_digest(program) == first
    assert code_digest(program, ["emma.backbones.dsp"]) != first
    assert code_digest(program, libraries=["numpy"]) != first
    (tmp_path / "elsewhere.py").write_text(program.read_text())
    assert code_digest(tmp_path / "elsewhere.py") == first
    program.write_text("from common import files  # changed\n")
    assert code_digest(program) != first
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        code_digest(program, libraries=["no-such-library-here"])


@pytest.mark.parametrize(
    "form",
    [
        "import emma.evaluation.fitting",
        "from emma.evaluation import fitting",
        "from emma.evaluation.fitting import fit_fold",
    ],
)
def test_every_form_of_import_is_followed(tmp_path, form):
    (tmp_path / "p.py").write_text(f"def main():\n    {form}\n")
    seen = []
    plain = provenance._module_digest
    try:
        provenance._module_digest = lambda module: seen.append(module) or plain(module)
        code_digest(tmp_path / "p.py")
    finally:
        provenance._module_digest = plain
    assert {"emma.evaluation.fitting", "emma.readouts", "common.hashing"} <= set(seen)


def reached(monkeypatch, program):
    seen = []
    plain = provenance._module_digest
    monkeypatch.setattr(provenance, "_module_digest", lambda module: seen.append(module) or plain(module))
    code_digest(program)
    return set(seen)


@pytest.mark.parametrize(
    "form",
    [
        "from emma import OODAvg",
        "from emma import OODAvg as mean",
        "import emma\nemma.OODAvg",
        "import emma as e\ne.OODAvg",
        "import emma.tasks\nemma.OODAvg",
        "from emma import *",
    ],
)
def test_the_lazy_names_of_emma_are_followed_to_their_modules(tmp_path, monkeypatch, form):
    (tmp_path / "p.py").write_text(f"{form}\n")
    assert {"emma.results.aggregate", "emma.evaluation.statistics"} <= reached(monkeypatch, tmp_path / "p.py")


def test_every_public_name_leads_to_its_module(tmp_path, monkeypatch):
    for name in emma.__all__:
        (tmp_path / "p.py").write_text(f"from emma import {name}\n")
        home = getattr(getattr(emma, name), "__module__", "emma.metrics")
        assert home in reached(monkeypatch, tmp_path / "p.py")


def test_other_names_of_emma_reach_nothing_more(tmp_path, monkeypatch):
    (tmp_path / "p.py").write_text("import emma\nfrom emma import __version__\nemma.__version__, self.OODAvg\n")
    assert reached(monkeypatch, tmp_path / "p.py") == {"emma"}


def test_a_lazy_name_in_a_library_module_is_followed(monkeypatch, tmp_path):
    """A module of the project that imports a public name from ``emma`` reaches the name's module."""
    source = tmp_path / "board.py"
    source.write_text("from emma import OODAvg\n")
    plain, graph = provenance._source, provenance._graph()

    class Graph:
        modules = graph.modules

        @staticmethod
        def find_modules_directly_imported_by(module):
            return {"emma"} if module == "emma.results.records" else graph.find_modules_directly_imported_by(module)

    monkeypatch.setattr(provenance, "_source", lambda m: source if m == "emma.results.records" else plain(m))
    monkeypatch.setattr(provenance, "_graph", Graph)
    assert "emma.results.aggregate" in closure(["emma.results.records"])


@pytest.mark.parametrize("form", ["from emma.results.aggregate import OODAvg", "from emma import OODAvg"])
def test_what_a_users_own_module_takes_from_the_project_counts(tmp_path, monkeypatch, form):
    (tmp_path / "net.py").write_text(f"{form}\n")
    first = outside_digest(tmp_path, "net")
    plain = provenance._module_digest
    monkeypatch.setattr(provenance, "_module_digest", lambda m: "x" if m == "emma.evaluation.statistics" else plain(m))
    assert outside_digest(tmp_path, "net") != first
    (tmp_path / "net.py").write_text("this is no Python")
    assert len(outside_digest(tmp_path, "net")) == 64


def test_modules_digest_changes_with_any_module_below(monkeypatch):
    first = modules_digest(["emma.evaluation.fitting"])
    plain = provenance._module_digest
    for module in ("emma.evaluation.fitting", "common.files", "emma"):
        monkeypatch.setattr(provenance, "_module_digest", lambda m, at=module: "x" if m == at else plain(m))
        assert modules_digest(["emma.evaluation.fitting"]) != first


def test_a_module_of_the_users_own_folder_is_digested_with_what_stands_beside_it(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "net.py").write_text("x = 1\n")
    first = outside_digest(tmp_path, "mine.net")
    assert len(first) == 64
    assert [outside_digest(tmp_path, name) for name in ("numpy.linalg", "common.files", "mine.none")] == ["", "", ""]
    (folder / "notes.txt").write_text("no code")
    assert outside_digest(tmp_path, "mine.net") == first
    (folder / "layers.py").write_text("y = 2\n")
    second = outside_digest(tmp_path, "mine.net")
    assert second != first
    (folder / "net.py").write_text("x = 3\n")
    assert outside_digest(tmp_path, "mine.net") not in {first, second}
    (tmp_path / "top.py").write_text("x = 1\n")
    alone = outside_digest(tmp_path, "top")
    (tmp_path / "other.py").write_text("x = 1\n")
    assert outside_digest(tmp_path, "top") == alone
