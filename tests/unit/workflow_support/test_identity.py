"""Code digests: what a program can reach, no more, and every byte of it."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import emma
from emma.captures.settings import ADAPTER_CLASSES
from workflow_support import identity, imports
from workflow_support.identity import code_digest, library_versions, outside_digest
from workflow_support.imports import closure, imported, late, reach, reach_of, texts_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the programs and the source, which tests may change and put back."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return folder


def digests(folder: Path, *programs: str) -> dict[str, str]:
    """Digests of a copy's programs, by an interpreter of its own."""
    script = f"from workflow_support.identity import code_digest\nfor name in {programs!r}:\n"
    script += "    print(name, code_digest(f'scripts/{name}.py'))"
    env = os.environ | {"PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return dict(line.split() for line in done.stdout.splitlines())


def moved(folder: Path, path: str, text: str, *programs: str) -> set[str]:
    """Those of the programs whose digest moves when text is added to a file of the copy."""
    before, file = digests(folder, *programs), folder / path
    kept = file.read_text() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text((kept or "") + text)
    after = digests(folder, *programs)
    file.unlink() if kept is None else file.write_text(kept)
    assert digests(folder, *programs) == before
    return {name for name in programs if after[name] != before[name]}


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


@pytest.mark.parametrize("path", ["src/emma/metrics/ranking.py", "src/emma/metrics/another.py"])
def test_a_metric_edited_or_added_changes_scoring_and_no_fit(copy, path):
    programs = ("make_scenes", "make_splits", "embed", "fit_fold", "score_task")
    assert moved(copy, path, "\n# a line\n", *programs) == {"score_task"}


def test_the_program_and_its_factories_count(tmp_path):
    program = tmp_path / "p.py"
    program.write_text("from common import files\n")
    first = code_digest(program)
    assert code_digest(program) == first
    assert code_digest(program, ["emma.backbones.dsp"]) != first
    program.write_text("from common import files  # changed\n")
    assert code_digest(program) != first


@pytest.mark.parametrize(
    "form",
    [
        "import emma.evaluation.fitting",
        "from emma.evaluation import fitting",
        "from emma.evaluation.fitting import fit_fold",
        "import importlib; importlib.import_module('emma.evaluation.fitting')",
    ],
)
def test_every_form_of_import_is_followed(form):
    found = reach_of([f"def main():\n    {form}\n".encode()]).modules
    assert {"emma.evaluation.fitting", "emma.readouts", "common.hashing"} <= set(found)


@pytest.mark.parametrize("guard", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_what_type_checkers_alone_import_does_not_count(guard):
    text = f"if {guard}:\n    import emma.evaluation.fitting\nelse:\n    import scipy\n"
    assert imported(text.encode()) == ("scipy",)


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
def test_the_lazy_names_of_emma_are_followed_to_their_modules(form):
    assert {"emma.results.aggregate", "emma.evaluation.statistics"} <= set(reach_of([form.encode()]).modules)


def test_every_public_name_leads_to_its_module():
    for name in emma.__all__:
        home = getattr(getattr(emma, name), "__module__", "emma.metrics")
        assert home in reach_of([f"from emma import {name}\n".encode()]).modules


def test_a_name_that_no_table_has_leads_to_the_metrics():
    assert "emma.metrics.ranking" in reach_of([b"from emma import AUC\n"]).modules
    assert "emma.metrics" not in reach_of([b"from emma import tasks\n"]).modules


def test_other_names_of_emma_reach_nothing_more():
    assert reach_of([b"import emma\nfrom emma import __version__\nemma.__version__, self.OODAvg\n"]).modules == [
        "emma",
        "emma.version",
    ]


def test_a_lazy_name_in_a_library_module_is_followed(copy):
    text = "\ndef late():\n    from emma import OODAvg\n"
    assert moved(copy, "src/emma/results/aggregate.py", "\n# a line\n", "make_splits") == set()
    edited = copy / "src/emma/data/release.py"
    kept = edited.read_text()
    edited.write_text(kept + text)
    try:
        assert moved(copy, "src/emma/results/aggregate.py", "\n# a line\n", "make_splits") == {"make_splits"}
    finally:
        edited.write_text(kept)


def test_a_package_that_looks_for_its_modules_reaches_all_of_them(copy):
    (copy / "src/emma/plugins").mkdir()
    (copy / "src/emma/plugins/__init__.py").write_text(
        "import importlib\nimport pkgutil\n\n"
        "for found in pkgutil.iter_modules(__path__):\n    importlib.import_module(f'{__name__}.{found.name}')\n"
    )
    program = copy / "scripts/look.py"
    program.write_text("import emma.plugins\n")
    try:
        assert moved(copy, "src/emma/plugins/one.py", "import emma.metrics\n", "look", "embed") == {"look"}
        (copy / "src/emma/plugins/one.py").write_text("import emma.metrics\n")
        assert moved(copy, "src/emma/metrics/ranking.py", "\n# a line\n", "look") == {"look"}
    finally:
        shutil.rmtree(copy / "src/emma/plugins")
        program.unlink()


def test_data_files_of_a_package_count_for_what_reaches_it(copy):
    programs = ("build_page", "fit_fold")
    assert moved(copy, "src/emma/report/templates/extra.css", "a {}", *programs) == {"build_page"}
    assert moved(copy, "src/emma/report/table.txt", "a", *programs) == {"build_page"}
    assert moved(copy, "src/emma/report/.hidden", "a", *programs) == set()
    assert moved(copy, "src/emma/evaluation/table.txt", "a", *programs) == set(programs)


def test_a_module_beside_the_programs_counts_for_those_that_import_it(copy):
    programs = ("commit_holdout", "open_holdout", "verify", "check_backbone", "fit_fold")
    assert moved(copy, "scripts/generator.py", "\n# a line\n", *programs) == set(programs[1:4])
    # What it imports counts too.
    assert "open_holdout" in moved(copy, "src/rfgen/recipe.py", "\n# a line\n", "open_holdout", "fit_fold")


def libraries(program: str) -> set[str]:
    return set(library_versions(reach_of(texts_of(ROOT / f"scripts/{program}.py").values()).packages))


def test_libraries_are_those_that_the_closure_imports():
    assert libraries("make_scenes") == libraries("make_twin") == {"numpy", "pyarrow"}
    assert {"numpy", "torch", "sionna_no_rt"} <= libraries("make_channels")
    assert {"torch", "onnxruntime"} <= libraries("embed")
    assert not {"torch", "sionna_no_rt"} & libraries("fit_fold")
    # By their distribution, those imported in a function too, and none that decides no number.
    assert {"altair", "jinja2", "vl_convert_python"} <= {name.lower() for name in libraries("build_page")}
    assert {"SigMF", "sigmf"} & libraries("make_surrogate")
    assert not {"pydantic", "PyYAML", "pyyaml", "threadpoolctl"} & libraries("embed")


def test_a_version_makes_stale_what_imports_it_alone(monkeypatch):
    def digest(name: str) -> str:
        return code_digest(ROOT / f"scripts/{name}.py")

    before = {name: digest(name) for name in ("make_scenes", "embed", "make_channels")}
    plain = identity._versions
    monkeypatch.setattr(identity, "_versions", lambda package: {"scipy": "0"} if package == "scipy" else plain(package))
    assert {name for name, found in before.items() if digest(name) != found} == {"embed"}


def test_a_factory_of_an_installed_package_brings_its_version(monkeypatch):
    program = ROOT / "scripts/make_splits.py"
    before = code_digest(program, ["torchmetrics.text"])
    assert before != code_digest(program)
    plain = identity._versions
    monkeypatch.setattr(identity, "_versions", lambda name: {} if name == "torchmetrics" else plain(name))
    assert code_digest(program, ["torchmetrics.text"]) == code_digest(program)


@pytest.mark.parametrize("form", ["from emma.results.aggregate import OODAvg", "from emma import OODAvg"])
def test_what_a_users_own_module_takes_from_the_project_counts(tmp_path, monkeypatch, form):
    (tmp_path / "net.py").write_text(f"{form}\n")
    first = outside_digest(tmp_path, "net")
    plain = identity._module_digest
    monkeypatch.setattr(identity, "_module_digest", lambda m: "x" if m == "emma.evaluation.statistics" else plain(m))
    assert outside_digest(tmp_path, "net") != first
    (tmp_path / "net.py").write_text("this is no Python")
    assert len(outside_digest(tmp_path, "net")) == 64


def test_libraries_of_a_users_own_module_count(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text("import torch\n")
    first = outside_digest(tmp_path, "net")
    monkeypatch.setattr(identity, "_versions", lambda package: {package: "0"})
    assert outside_digest(tmp_path, "net") != first


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


def test_every_library_of_the_project_is_found_where_it_is_installed():
    """Names by the quick way are those of the standard library's slow one."""
    from importlib.metadata import packages_distributions

    known = {name: {_plain(one) for one in found} for name, found in packages_distributions().items()}
    packages = set(reach(imports.PACKAGES).packages) | {"sionna", "vl_convert", "yaml"}
    for package in packages & set(known):
        assert {_plain(name) for name in identity._versions(package)} == known[package]


@functools.cache
def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def test_late_imports_are_those_in_functions(tmp_path):
    path = tmp_path / "p.py"
    path.write_text("import numpy\nif True:\n    import scipy\ndef f():\n    from safetensors.numpy import save\n")
    assert late(path) == ["safetensors.numpy", "safetensors.numpy.save"]
    path.write_text('"""from this\n    import nothing\n"""\n')
    assert late(path) == []


@pytest.mark.parametrize("name", ADAPTER_CLASSES)
def test_every_adapter_is_a_part_of_its_conversion(copy, name):
    module = ADAPTER_CLASSES[name].partition(":")[0]
    before = code_digest(ROOT / "scripts/convert_captures.py", [module])
    assert module in reach_of([b"import " + module.encode()]).modules
    assert before != code_digest(ROOT / "scripts/convert_captures.py")
