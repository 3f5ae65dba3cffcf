"""An archive that cannot be made is refused before the first job: what its commit lacks is named."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from common.errors import InputError
from workflow_support.archive import check_archive
from workflow_support.plan import Plan

ROOT = Path(__file__).parents[3]
CONFIG = {"release": "tiny", "seed": 0, "eval_split": "DEV", "models": ["own"], "real_captures": "surrogate"}
CONTENT = b"weights"
MODEL = f"""
name: own
factory: mine:build
weights: own.safetensors
weights_sha256: {hashlib.sha256(CONTENT).hexdigest()}
pretraining: unknown
"""


def git(project, *arguments):
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, env=os.environ | names)


@pytest.fixture
def root(tmp_path):
    """A project with a backbone of its own, nothing of which is committed."""
    for folder in ("config", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "config/models/own.yaml").write_text(MODEL)
    (tmp_path / "own.safetensors").write_bytes(CONTENT)
    (tmp_path / "mine.py").write_text("def build(weights): ...\n")
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    git(tmp_path, "init", "-q")
    return tmp_path


def commit(root, *ignored):
    with (root / ".gitignore").open("a") as file:
        file.writelines(f"/{name}\n" for name in ignored)
    git(root, "add", ".")
    git(root, "commit", "-qm", "x")


def test_a_whole_commit_is_fine(root):
    commit(root)
    check_archive(Plan(CONFIG, root))


def test_a_checkout_that_is_not_clean_is_refused(root):
    commit(root)
    (root / "mine.py").write_text("def build(weights): pass\n")
    with pytest.raises(InputError, match=r"1 files differ from the commit \(mine\.py\)"):
        check_archive(Plan(CONFIG, root))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("config/models/own.yaml", "config/models/own.yaml: not in the commit"),
        ("own.safetensors", "own.safetensors: the weights of own are not in the commit"),
        ("mine.py", "mine.py: the code of own is not in the commit"),
        ("config/captures", "config/captures/"),
    ],
)
def test_files_that_git_ignores_are_named(root, name, said):
    """A checkout is clean with them, and its archive would lack them."""
    commit(root, name)
    with pytest.raises(InputError) as refused:
        check_archive(Plan(CONFIG, root))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_no_checkout_and_another_home_are_refused(root):
    shutil.rmtree(root / ".git")
    with pytest.raises(InputError, match="git status: fatal: not a git repository"):
        check_archive(Plan(CONFIG, root))
    with pytest.raises(InputError, match="an archive is of one checkout"):
        check_archive(Plan(CONFIG, root, ROOT))
