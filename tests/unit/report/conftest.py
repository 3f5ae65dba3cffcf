"""A small board that holds every awkward case, and the page made of it."""

import base64
import json
import re
import sys
import zlib
from html import escape
from pathlib import Path

import pytest

from emma.captures.records import GroupScore, ModelGaps, ModelSet, SetRecord, SideScore, SimToRealReport
from emma.captures.settings import CaptureSet
from emma.report.drawing import build_figures
from emma.report.page import build_page
from emma.results.records import Board
from emma.tasks import Anchors

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import synthetic_board

EVIL = "<script>alert(1)</script>"
HASH = "ab" * 32
CAVEAT = "A comparative ranking & no population estimate."


class Spec:
    anchors = Anchors(minimum=0.5, maximum=1.0)


class Manifest:
    data_release_hash = HASH

    @staticmethod
    def spec(task):
        return Spec


def row(model, rank, average, separable, *, score=0.9, undefined=None, kind="backbone", real=None, met="unknown"):
    value = {"n": 40, "ci95": None if undefined else [0.8, 0.95], "in_distribution": 0.95}
    value |= {"score": None if undefined else score, "undefined_reason": undefined, "met_in_pretraining": met}
    value |= {"regularisation": None}
    block = {"metric": "AUC", "unit": "1", "direction": "higher", "score": None if undefined else score}
    block |= {"standard_error": None, "undefined": undefined, "protocol": "leave-one-environment-out"}
    block |= {"axis": "environment", "values": {"E_URBAN": value, "E_RURAL": value}, "normalized": None}
    other = {key: block[key] for key in ("unit", "score", "undefined", "protocol", "axis", "values")}
    other |= {"metric": "EER", "direction": "lower", "standard_error": 0.02}
    layered = block | {"protocol": "leave-one-band-out", "axis": "environment+band", "standard_error": 0.03}
    block |= {"clipped": None, "in_ood_avg": True, "secondary_metrics": {"EER": other}}
    layered.pop("normalized")
    block |= {"secondary": {"leave-one-band-out": layered}, "standard_error": 0.01}
    block |= {"beats_floor": None if undefined else {"p": 0.004, "one_sided": True}}
    ranges = {"min": 0.2, "max": 0.7, "averages": {"E-ID-FP": 0.2, "E-LOC-AOA": 0.7}}
    span = {"leave_one_task_out": ranges, "leave_one_value_out": ranges, "ranks": None, "fragile": True}
    provenance = {"name": model, "config_sha256": HASH, "weights_sha256": None, "pretraining": "unknown"}
    return {
        "model": model,
        "kind": kind,
        "standing": "submitted, predictions only" if kind == "submitted" else "reproduced here",
        "rank": rank,
        "unranked": None if rank else undefined or "predictions alone, of scenes whose labels are public",
        "ood_avg": average,
        "rank_range": None if rank is None else [rank, rank + 1],
        "ood_avg_ci95": None if average is None else [average - 0.1, average + 0.1],
        "ood_avg_standard_errors": None if average is None else {"scenes": 0.04, "fit": 0.03, "enrolment": None},
        "undefined": undefined,
        "separable_from_next": separable,
        "tasks": {"E-ID-DRONE": block},
        "sensitivity": span if average is not None else None,
        "sim_to_real": real,
        "caveats": ["Predictions <alone>."] if kind == "submitted" else [],
        "run_manifest": {
            "model_provenance": provenance,
            "data_release_hash": HASH,
            "prediction_bundle_hashes": {"E-ID-DRONE": HASH},
            "task_metrics": {"E-ID-DRONE": {"AUC": None}},
            "seed": 3,
            "harness_version": "0.1.0",
        },
    }


@pytest.fixture(scope="session")
def board():
    rows = [
        row("first", 1, 0.6, False, score=0.7, met=True),
        row("second", 2, 0.5, True, score=0.95, met=False),
        row(EVIL, 3, 0.4, None),
        row("broken", None, None, None, undefined="the fold of E_URBAN lacks a class"),
        row("textbook", None, None, None, kind="reference"),
        row("guest", None, 0.9, None, kind="submitted"),
    ]
    head = {"release": "v9", "data_release_hash": HASH, "eval_split": "dev", "seed": 3, "harness_version": "0.1.0"}
    return Board.model_validate({**head, "caveats": [CAVEAT], "models": rows})


def unpacked(page, key):
    """What the page holds packed under a key."""
    content = re.search(rf'<script type="text/plain" id="{re.escape(key)}">([^<]*)</script>', page)[1]
    return zlib.decompress(base64.b64decode(content)).decode()


@pytest.fixture(scope="session")
def whole():
    """Makes a page whole: its parts where they are filled in."""

    def fill(page):
        for key, html in json.loads(unpacked(page, "packed-parts")).items():
            page = page.replace(f'<div data-part="{escape(key)}"></div>', html)
        assert "data-part=" not in page
        return page

    return fill


@pytest.fixture(scope="session")
def packed():
    """Reads what a page holds packed, by page and key."""
    return unpacked


@pytest.fixture(scope="session")
def page(board):
    return build_page(board, build_figures(board, Manifest))


def side(value, normalized, sessions=None):
    ci95 = None if value is None else (value - 0.05, value + 0.05)
    undefined = "one class" if value is None else None
    return SideScore(score=value, normalized=normalized, n=77, ci95=ci95, sessions=sessions, undefined_reason=undefined)


def gap_block(kind, gap, sets):
    """A board's block: one task with sets, one that has none."""
    none = {"gap_percentage_points": None, "over": [], "undefined": "no public set"}
    tasks = {"E-ID-DRONE": {"gap_percentage_points": gap, "over": sets, "undefined": None, "matched": none}}
    tasks["E-ID-FP"] = none | {"matched": none}
    own = {"gap_percentage_points": gap, "over": ["E-ID-DRONE"], "undefined": None}
    return own | {"kind": kind, "matched": none, "tasks": tasks}


def with_gaps(kind, gap=4.2):
    """A board and the report behind its gaps; two sets, one of them a demonstration."""
    block = gap_block(kind, gap, ["myset"])
    head = {"release": "v9", "data_release_hash": HASH, "eval_split": "dev", "seed": 3, "harness_version": "0.1.0"}
    board = Board.model_validate({**head, "caveats": [CAVEAT], "models": [row("first", 1, 0.6, None, real=block)]})
    declared = {"name": "myset", "kind": kind, "task": "E-ID-DRONE", "source": "here", "licence": "CC-BY-4.0"}
    declared |= {"session": "day", "caveats": ("Recorded in one <flat>.",), "twin": "release"}
    declared |= {"surrogate": {"sessions": 4}} if kind == "surrogate" else {}
    record = {"kind": kind, "task": "E-ID-DRONE", "licence": "CC-BY-4.0", "demonstration": False, "adapter": "sigmf"}
    record |= {"caveats": ("Recorded in one <flat>.",), "metric": "AUC", "unit": "1", "scenes": 77, "sessions": 5}
    record |= {"classes": ("absent", "present"), "anchors": {"minimum": 0.5, "maximum": 1.0}, "record_sha256": HASH}
    record |= {"declared": CaptureSet(**declared)}
    sets = {"myset": SetRecord(**record), "shown": SetRecord(**record | {"demonstration": True})}
    captured = side(0.879, 0.758, 5).model_copy(update={"balanced_accuracy": 0.654})
    scored = {"synth": side(0.9, 0.8), "captured": captured, "gap_percentage_points": gap}
    scored |= {"apart": {"far": GroupScore(metric="AUC", score=0.432, n=9)}}
    none = {"synth": side(0.9, 0.8), "captured": side(None, None, 5)}
    common = {"task": "E-ID-DRONE", "release_score": 0.9}
    own = {"myset": ModelSet(**scored, **common), "shown": ModelSet(**none, **common)}
    head = {key: head[key] for key in ("release", "data_release_hash", "eval_split", "seed", "harness_version")}
    report = SimToRealReport(**head, kind=kind, sets=sets, models={"first": ModelGaps(**block, sets=own)})
    return board, report


@pytest.fixture(scope="session")
def manifest():
    return Manifest


@pytest.fixture(scope="session", name="with_gaps")
def _with_gaps():
    """Maker of a board and the report behind its gaps, by kind."""
    return with_gaps


@pytest.fixture(scope="session")
def wide_made():
    """What a board of 30 models on the twelve tasks of v1.0 is built of."""
    return synthetic_board.make(30, resamples=100)


@pytest.fixture(scope="session")
def wide(wide_made):
    """The board of it."""
    return wide_made.board()


@pytest.fixture(scope="session")
def wide_figures(wide, wide_made):
    """Its figures."""
    return build_figures(wide, wide_made.manifest)


@pytest.fixture(scope="session")
def wide_page(wide, wide_figures):
    """Its page."""
    return build_page(wide, wide_figures)
