"""What a row rests on: who competes where, whose predictions are another's, and what is too good."""

from types import SimpleNamespace

import pytest

from emma.results.caveats import model_caveats, row_caveats
from emma.results.records import RunRecord


class Manifest:
    """No task has a grid of regularisation."""

    @staticmethod
    def spec(task):
        return SimpleNamespace(readout=SimpleNamespace(regularisation=(1.0,)))


HASHES = ("ab" * 32, "cd" * 32)


@pytest.fixture
def run(board):
    """A run record with other predictions than any, unless told, of one held-out value."""
    row = board.models[0].model_dump(mode="json")
    row["tasks"]["E-ID-DRONE"].pop("beats_floor")

    def make(model, kind="backbone", *, split="dev", score=None, predictions=None):
        own = {"model": model, "kind": kind, "release": "v9", "eval_split": split, "control_of": None}
        own |= {"tasks": {"E-ID-DRONE": dict(row["tasks"]["E-ID-DRONE"])}, "run_manifest": dict(row["run_manifest"])}
        digest = predictions or (model.encode().hex() + "0" * 64)[:64]
        own["run_manifest"]["prediction_bundle_hashes"] = {"E-ID-DRONE": digest}
        if score is not None:
            values = own["tasks"]["E-ID-DRONE"]["values"]
            own["tasks"]["E-ID-DRONE"]["values"] = {key: value | {"score": score} for key, value in values.items()}
        return RunRecord.model_validate(own)

    return make


def test_predictions_alone_compete_where_labels_are_secret(run):
    for split, ranked in (("dev", False), ("holdout", True)):
        own, guest, floor = run("m", split=split), run("g", "submitted", split=split), run("f", "chance", split=split)
        assert (own.ranked, guest.ranked, floor.ranked) == (True, ranked, False)
        assert (own.apart, guest.apart) == (False, not ranked)
        assert (own.standing, guest.standing) == ("reproduced here", "submitted, predictions only")
        assert ("labels of DEV are public" in row_caveats([own, guest])["g"][0]) != ranked


def test_a_row_whose_process_could_read_results_is_named_on_the_board(run):
    own = run("m").model_dump(mode="json")
    own["run_manifest"]["model_provenance"]["isolation"] = "none"
    runs = [RunRecord.model_validate(own), run("other")]
    (told,) = (text for text in model_caveats(Manifest, runs) if "Landlock" in text)
    assert told.startswith("Nothing kept m from the files of results in the process that embedded")


def test_equal_predictions_are_pointed_out_at_both_rows_and_perfect_scores_at_theirs(run):
    runs = [run("m"), run("g", "submitted", predictions=HASHES[0], score=1.0), run("o", "oracle", score=1.0)]
    runs += [run("h", "submitted", predictions=HASHES[0]), run("r", "reference", predictions=HASHES[1])]
    runs += [run("p", "chance", predictions=HASHES[1])]
    told = row_caveats(runs)
    assert told["m"] == told["o"] == told["r"] == told["p"] == ()
    assert told["g"][1:] == (
        "The same predictions throughout as h.",
        "Every fold of E-ID-DRONE is at the best that its metric can give.",
    )
    assert told["h"][1:] == ("The same predictions throughout as g.",)
