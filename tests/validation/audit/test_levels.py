"""What the verdict says: the level that holds, what rests on what, what was not checked, and a status for each."""

import pytest
import yaml

from common.hashing import sha256
from emma.audit.verify import CHECKS, Level, Outcome, Results, Verdict, verify
from emma.audit.verify.captures import Captures
from emma.audit.verify.data import Manifest, Scenes
from emma.audit.verify.fits import EmbeddingTables
from emma.audit.verify.levels import Missed
from emma.audit.verify.models import Weights

CONSISTENT, RESCORED, REPRODUCED = Level


#: The checks that count what is not there.
COUNTING = (Manifest, Scenes, Weights, EmbeddingTables, Captures)


def verdict_of(results, checks=COUNTING):
    return Verdict.of(verify(results, [kind() for kind in checks]), RESCORED)


@pytest.mark.parametrize(
    ("asked", "missed", "reached", "status"),
    [
        (RESCORED, [], RESCORED, 0),
        (REPRODUCED, [], REPRODUCED, 0),
        (RESCORED, [None], RESCORED, 0),
        (RESCORED, [REPRODUCED], RESCORED, 0),
        (REPRODUCED, [REPRODUCED], RESCORED, 3),
        (REPRODUCED, [RESCORED, REPRODUCED], CONSISTENT, 3),
        (RESCORED, [RESCORED], CONSISTENT, 3),
        (RESCORED, [CONSISTENT], CONSISTENT, 3),
    ],
)
def test_status_0_says_that_all_was_checked_that_the_level_rests_on(asked, missed, reached, status):
    outcome = Outcome("x", 1, (), "", missed=tuple(Missed("things", 2, level) for level in missed))
    verdict = Verdict.of([outcome], asked)
    assert (verdict.reached, verdict.status) == (reached, status)
    assert str(verdict).startswith("verified, " if status == 0 else "not verified as ")
    assert f"{reached.name.lower()}: " in str(verdict)
    assert str(verdict).endswith("things (2)") == bool(missed)


@pytest.mark.parametrize(("asked", "partly"), [(RESCORED, False), (REPRODUCED, True)])
def test_what_was_made_again_in_part_is_not_called_unchecked(asked, partly):
    verdict = Verdict.of([Outcome("x", 1, (), "", missed=(Missed("scenes", 2, REPRODUCED),))], asked)
    assert ("were made again but for those that are counted here; not checked: scenes (2)" in str(verdict)) == partly
    assert ("was not checked (--deep)" in str(verdict)) != partly


def test_a_fault_is_status_1_whatever_was_missed():
    outcome = Outcome("x", 1, ("a: b",), "", missed=(Missed("things", 1, CONSISTENT),))
    verdict = Verdict.of([outcome], RESCORED)
    assert (verdict.status, str(verdict)) == (1, "1 fault; not checked: things (1)")


def test_results_at_hand_are_rescored(pristine):
    verdict = verdict_of(Results(pristine / "results", pristine), CHECKS)
    assert (verdict.status, verdict.reached) == (0, RESCORED)
    assert "that the models give these embeddings was not checked" in str(verdict)


@pytest.mark.parametrize(
    ("removed", "counted"),
    [
        ("results/embeddings/many/E-LOC-LOS.parquet", "tables of embeddings not at hand (1)"),
        ("results/captures/mini_los/few/embeddings.parquet", "tables of embeddings of captured scenes not at hand (1)"),
        ("config/models/few.yaml", "model configs not at hand (1)"),
        ("config/releases/mini.yaml", "release configs not at hand (1)"),
    ],
)
def test_what_the_level_rests_on_and_is_not_there_gives_another_status(project, removed, counted):
    (project / removed).unlink()
    verdict = verdict_of(Results(project / "results", project))
    assert (verdict.status, verdict.reached) == (3, CONSISTENT)
    assert counted in str(verdict)


def test_files_of_scenes_that_are_not_there_are_counted(project):
    """Nothing of this level rests on samples."""
    (project / "results/scenes/E-LOC-AOA/DEV.parquet").unlink()
    (project / "results/captures/mini_los/scenes.parquet").unlink()
    verdict = verdict_of(Results(project / "results", project))
    assert verdict.status == 0
    assert "files of scenes not at hand (1), files of captured scenes not at hand (1)" in str(verdict)


def with_weights(project, content=b"x"):
    """Let a model's config pin a file of weights, which holds ``content``."""
    path = project / "config/models/few.yaml"
    pin = {"weights": "weights/few.safetensors", "weights_sha256": sha256(b"x")}
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | pin))
    (project / "weights").mkdir()
    (project / "weights/few.safetensors").write_bytes(content)
    return Results(project / "results", project)


def test_weights_that_are_not_their_pin_are_a_fault_without_deep(project):
    (outcome,) = verify(with_weights(project, b"y"), [Weights()])
    expected = f"{project}/weights/few.safetensors: weights_sha256: is not the one that few's config pins"
    assert expected in outcome.faults


def test_weights_that_were_removed_are_counted(project):
    results = with_weights(project)
    (project / "weights/few.safetensors").unlink()
    (outcome,) = verify(results, [Weights()])
    assert outcome.missed == (Missed("files of weights not at hand", 1, None),)
    assert not [fault for fault in outcome.faults if "safetensors" in fault]
