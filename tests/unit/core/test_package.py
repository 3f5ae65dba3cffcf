"""The public names of the package, each imported when it is first used."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import emma
from emma.version import HARNESS_VERSION

SOURCE = Path(__file__).parents[3] / "src"
NAMES = [
    "TaskID",
    "TaskSpec",
    "OODAxis",
    "OODProtocol",
    "LeaveOneEnvironmentOut",
    "LeaveOneUnitOut",
    "LeaveOneBandOut",
    "LeaveOneSNRRegimeOut",
    "Split",
    "SplitNotAvailable",
    "ProtocolRunner",
    "Evaluator",
    "EvalRun",
    "RunManifest",
    "DataReleaseManifest",
    "Metric",
    "Aggregator",
    "OODAvg",
]


def run(code: str) -> str:
    env = {"PYTHONPATH": str(SOURCE)}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_protocol_are_importable_from_the_package(name):
    assert getattr(emma, name).__name__ == name
    assert name in emma.__all__


def test_every_name_is_where_the_table_says():
    for name in emma.__all__:
        assert getattr(emma, name) is not None
    with pytest.raises(AttributeError, match="no attribute Nothing"):
        emma.Nothing  # noqa: B018
    with pytest.raises(ImportError):
        from emma import Nothing  # noqa: F401


def test_the_only_aggregator_is_the_ood_average():
    assert emma.Aggregator.__subclasses__() == [emma.OODAvg]


def test_importing_the_package_or_a_fold_loads_no_heavy_library():
    loaded = "; import sys; print(*(m for m in sys.modules if '.' not in m))"
    assert not {"numpy", "pyarrow", "torch"} & set(run(f"import emma{loaded}").split())
    assert not {"torch", "torchmetrics", "sionna"} & set(run(f"import emma.evaluation.fitting{loaded}").split())
    assert not {"torch", "torchmetrics"} & set(run(f"from emma import METRICS, OODAvg{loaded}").split())


def test_the_version_is_written_once():
    """The package and pip read it where it is written; texts that show it follow."""
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())
    assert emma.__version__ == HARNESS_VERSION
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "emma.version.HARNESS_VERSION"}
    shown = {
        "CITATION.cff": r"^version: (.+)$",
        "CHANGELOG.md": r"^## (\S+) ",
        "docs/submissions.md": r"^harness_version: (.+)$",
    }
    for page, line in shown.items():
        found = re.search(line, (SOURCE.parent / page).read_text(), re.MULTILINE)
        assert found and found[1] == HARNESS_VERSION, page


def test_the_licence_is_the_one_that_is_named():
    text = (SOURCE.parent / "LICENSE").read_text()
    assert text.split("\n")[1:4] == [
        " " * 33 + "Apache License",
        " " * 27 + "Version 2.0, January 2004",
        " " * 24 + "http://www.apache.org/licenses/",
    ]
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((SOURCE.parent / "CITATION.cff").read_text())
    assert project["license"] == citation["license"] == "Apache-2.0"
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert "https://spdx.org/licenses/Apache-2.0" in (SOURCE / "emma/audit/archive.py").read_text()
