"""A factory that is not there is refused before anything runs, and nothing is imported to know it."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import InputError
from emma.backbones.references import check_reference

ROOT = Path(__file__).parents[3]

REFUSED = {
    "nowhere.net:build": "there is no module nowhere, expected an installed one or one in the project's folder",
    "emma.backbones.nothing:build": "there is no module emma.backbones.nothing,",
    "common.files.more:build": "there is no module common.files.more,",
    "emma.backbones.dsp:biuld": r"there is no biuld in .*/emma/backbones/dsp\.py, did you mean build\?",
    "emma..backbones:build": r"there is no module 'emma\.\.backbones'",
    "torch.nothing.net:build": r"there is no module torch\.nothing,",
    "mine.net:train": r"there is no train in .*/mine/net\.py",
    "mine.net:inner": r"there is no inner in .*/mine/net\.py",
    "mine.none:build": r"there is no module mine\.none",
    "mine.broken:build": r"/mine/broken\.py: line 2: ",
}
TAKEN = [
    "emma.backbones.base:prior",
    "emma.backbones.contrastive:train",
    "torch.nn:Linear",
    "torchmetrics.text:whatever",
    "mine.net:build",
    "mine.net:either",
    "mine.net:handed",
    "mine.net:made",
    "mine.net:sqrt",
    "mine.star:anything",
    "mine.lazy:anything",
    "mine.written:anything",
    "mine:net",
    "math:sqrt",
]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "mine").mkdir()
    texts = {
        "__init__": "from . import net\n",
        "net": (
            "import absent\nfrom math import sqrt\ndef build():\n    def inner(): pass\n    other = 1\n"
            "try:\n    from absent import either\nexcept ImportError:\n    either = None\n"
            "handed, (made, _) = 1, (2, 3)\nraise SystemExit('imported')\n"
        ),
        "star": "from absent import *\n",
        "lazy": "def __getattr__(name): pass\n",
        "written": "globals()['any' + 'thing'] = 1\n",
        "broken": "x = 1\ndef build(:\n",
    }
    for name, text in texts.items():
        (tmp_path / f"mine/{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize("reference", REFUSED)
def test_a_reference_to_nothing_is_refused(root, reference):
    with pytest.raises(InputError, match=rf"^models/x\.yaml: factory: {reference}: .*{REFUSED[reference]}"):
        check_reference(reference, "models/x.yaml: factory", root)


@pytest.mark.parametrize("reference", TAKEN)
def test_a_reference_that_may_lead_somewhere_is_left_to_the_job(root, reference):
    check_reference(reference, "factory", root)


def test_packages_of_another_environment_cannot_be_known_but_the_projects_own_can(root):
    for reference in ("nowhere.net:build", "torch.nothing:build"):
        check_reference(reference, "factory", root, elsewhere=True)
    for reference in ("emma.nothing:build", "emma.backbones.dsp:biuld", "mine.none:build", "mine.net:train"):
        with pytest.raises(InputError, match="there is no"):
            check_reference(reference, "factory", root, elsewhere=True)


def test_what_is_installed_inside_the_project_is_not_the_projects_own(root):
    installed = root / ".venv/lib/site-packages"
    installed.mkdir(parents=True)
    (installed / "remote.py").write_text("x = 1\n")
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "from emma.backbones.references import check_reference\n"
        f"check_reference('remote:build', 'factory', {str(root)!r})"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src")})


def test_nothing_is_imported_to_look(root):
    references = ["torch.nn:Linear", "torchmetrics.text:x", "mine.net:build", "emma.backbones.conv:random_conv"]
    program = (
        "import sys\nfrom emma.backbones.references import check_reference\n"
        f"for reference in {references!r}: check_reference(reference, 'factory', {str(root)!r})\n"
        "print(*sorted({'torch', 'torchmetrics', 'mine', 'emma.backbones.conv'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src")}
    )
    assert done.stdout.strip() == ""
