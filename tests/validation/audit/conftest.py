import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


miniature = _load("emma_miniature", Path(__file__).with_name("miniature.py"))


@pytest.fixture(scope="session")
def pristine(tmp_path_factory):
    """A project with config and results, that no test changes."""
    project = tmp_path_factory.mktemp("miniature")
    miniature.build(project)
    return project


@pytest.fixture
def project(pristine, tmp_path):
    """A copy of that project, for a test to change."""
    shutil.copytree(pristine, tmp_path / "project")
    return tmp_path / "project"
