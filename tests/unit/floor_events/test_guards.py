"""Every guard refuses with status 2 and one line that names the file or option, and leaves no output."""

import io
import itertools
import json
import pickle
import shutil

import numpy as np
import pytest

from common.errors import InputError
from common.files import write_files

EVALUATE, CONVERT = "evaluate_floor_state_changes", "prepare_egospeak_floor_eval"


@pytest.fixture
def refused(call, tmp_path):
    """Run a program that must refuse; returns its one line."""

    def run(program, arguments, *expected):
        status, out, err = call(program, *arguments)
        assert status == 2
        assert out == ""
        assert err.endswith("\n") and err.count("\n") == 1, err
        assert "Traceback" not in err
        for part in expected:
            assert str(part) in err, err
        assert not (tmp_path / "out").exists()
        return err

    return run


@pytest.fixture
def refused_evaluation(refused, study, tmp_path, tools):
    def run(*expected, **changes):
        options = {f"--{name.replace('_', '-')}": values for name, values in changes.items()}
        return refused(EVALUATE, tools.evaluation_arguments(study, tmp_path / "out" / "x.json", **options), *expected)

    return run


def test_the_study_is_fine_as_it_is(call, study, tmp_path, tools):
    status, out, _ = call(EVALUATE, *tools.evaluation_arguments(study, tmp_path / "out" / "x.json"))
    assert status == 0
    assert "wrote" in out
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["x.json", "x_comparison.csv", "x_events.csv", "x_framewise.csv"]


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    return buffer.getvalue()


def pickled():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def changed(edit):
    def apply(array):
        array = array.copy()
        edit(array)
        return array

    return apply


def put(index, value):
    return changed(lambda array: array.__setitem__(index, value))


# The mask is true at (100, 0) after `valid_there`; the study has 150 rows.
FILES = [
    ("target", None, "no such file"),
    ("target", lambda a: a.T, "shape [3, 150]"),
    ("target", lambda a: a[:, :2], "shape [150, 2]"),
    ("target", lambda a: a[:, 0], "shape [150]"),
    ("target", lambda a: a[:0], "shape [0, 3]"),
    ("target", put((7, 1), 2), "value 2 at row 7, wearer"),
    ("target", lambda a: np.where(np.arange(150)[:, None] == 3, np.nan, a), "value nan at row 3"),
    ("target", lambda a: a.astype(str), "dtype <U"),
    ("target", lambda a: a.astype(complex), "dtype complex128"),
    ("target", b"not an array", "not a readable .npy"),
    ("target", b"", "not a readable .npy"),
    ("target", b"\x93NUMPY\x01\x00\xff", "not a readable .npy"),
    ("target", pickled(), "not a readable .npy"),
    ("target", pickle.dumps(3), "not a readable .npy"),
    ("target", npz(), "an archive"),
    ("a/pred", None, "no such file"),
    ("a/pred", lambda a: a.transpose(1, 0, 2), "shape [10, 150, 3]"),
    ("a/pred", lambda a: a[:-10], "shape [140, 10, 3]"),
    ("a/pred", lambda a: a[:, :, :2], "shape [150, 10, 2]"),
    ("a/pred", lambda a: np.concatenate([a, a[:1]]), "shape [151, 10, 3]"),
    ("a/pred", lambda a: a.reshape(150, 30), "shape [150, 30]"),
    ("a/pred", lambda a: (a > 0.5).astype(np.int64), "dtype int64"),
    ("a/pred", put((100, 0, 1), np.nan), "nan at row 100, step 1, wearer"),
    ("a/pred", put((100, 0, 0), np.nan), "nan at row 100, step 1, background"),
    ("a/pred", put((100, 0, 2), np.inf), "inf at row 100, step 1, others"),
    ("a/pred", put((100, 0, 1), 1.5), "1.5 at row 100"),
    ("a/pred", put((100, 0, 1), -0.5), "-0.5 at row 100"),
    ("a/pred", pickled(), "not a readable .npy"),
    ("b/valid", None, "no such file"),
    ("b/valid", lambda a: a.T, "shape [10, 150]"),
    ("b/valid", lambda a: a[:-1], "shape [149, 10]"),
    ("b/valid", lambda a: a.astype(np.uint8), "dtype uint8"),
]


@pytest.mark.parametrize("session", ["Session_3", "Session_12"])
@pytest.mark.parametrize(("folder", "change", "expected"), FILES)
def test_files(refused_evaluation, study, session, folder, change, expected):
    mask_path = study / "a" / "valid" / f"{session}.npy"
    mask = np.load(mask_path)
    mask[100, 0] = True
    np.save(mask_path, mask)
    path = study / folder / f"{session}.npy"
    if change is None:
        path.unlink()
    elif isinstance(change, bytes):
        path.write_bytes(change)
    else:
        np.save(path, change(np.load(path)))
    refused_evaluation(path, expected, "expected")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "no such file"),
        ("{", "not readable as JSON"),
        ("[" * 100000, "not readable as JSON"),
        ('{"Session_3": [5], "Session_3": [6]}', "not readable as JSON with each name once"),
        ("[3]", "expected a JSON object"),
        ('{"Session_3": 5}', "'Session_3': expected strictly increasing"),
        ('{"Session_3": [0]}', "strictly increasing"),
        ('{"Session_3": [-4]}', "strictly increasing"),
        ('{"Session_3": [9, 9]}', "strictly increasing"),
        ('{"Session_3": [9, 5]}', "strictly increasing"),
        ('{"Session_3": [5.0]}', "strictly increasing"),
        ('{"Session_3": [true]}', "strictly increasing"),
        ('{"Session_3": ["5"]}', "strictly increasing"),
        ('{"Session_3": [150]}', "cut 150; expected below its 150 rows"),
        ('{"Session_9": [5]}', "'Session_9': unknown session"),
        ('{"../target/Session_3": [5]}', "unknown session"),
    ],
)
def test_recording_boundaries(refused_evaluation, study, text, expected):
    path = study / "cuts.json"
    if text is not None:
        path.write_text(text)
    refused_evaluation(path, expected, recording_boundaries=[path])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"target_root": ["/no/such"]}, "--target-root /no/such: no such folder"),
        ({"sessions": ["Session_7"]}, "Session_7.npy: no such file"),
        ({"sessions": []}, "--sessions: expected at least one"),
        ({"sessions": ["Session_3", "Session_3"]}, "--sessions Session_3: given twice"),
        ({"sessions": ["Session_3", "session_3"]}, "--sessions session_3: given twice"),
        ({"sessions": ["../target/Session_3"]}, "expected a plain session name"),
        ({"sessions": [""]}, "expected a plain session name"),
        ({"sessions": [".."]}, "expected a plain session name"),
        ({"sessions": ["a\nb"]}, "expected a plain session name"),
        ({"sessions": None}, "--sessions"),
        ({"calibration_sessions": []}, "--calibration-sessions: expected at least one"),
        ({"calibration_sessions": ["Session_12", "Session_12"]}, "given twice"),
        ({"calibration_sessions": ["Session_7"]}, "Session_7.npy: no such file"),
        ({"calibration_sessions": None}, "--sessions Session_3: an official test session"),
        ({"calibration_sessions": None, "sessions": ["SESSION_003"]}, "an official test session"),
        ({"calibration_sessions": ["Session_2"]}, "--calibration-sessions Session_2: an official test session"),
        ({"calibration_sessions": ["session_02"]}, "an official test session"),
        (
            {"calibration_sessions": ["Session_2"], "allow_in_sample_test_thresholds": []},
            "--calibration-sessions Session_2: an official test session",
        ),
        ({"sessions": ["Session_12"]}, "--calibration-sessions Session_12: also in --sessions"),
        ({"sessions": ["Session_12"], "calibration_sessions": ["session_12"]}, "also in --sessions"),
        ({"run": ["a"]}, "--run a: expected NAME=PATH"),
        ({"run": ["=x"]}, "--run =x: expected NAME=PATH"),
        ({"run": ["a="]}, "--run a=: expected NAME=PATH"),
        ({"run": ["a\tb=x"]}, "expected a printable name"),
        ({"run": ["a=x", "a=y"]}, "--run a: given twice"),
        ({"run": None}, "--run"),
        ({"calibration_run": ["a=x", "b=y"], "calibration_sessions": None, "sessions": ["S"]}, "--calibration-run"),
        ({"calibration_run": ["a=x"]}, "--calibration-run: unmatched: b"),
        ({"calibration_run": ["a=x", "b=y", "c=z"]}, "--calibration-run: unmatched: c"),
        ({"calibration_run": ["a=x", "a=y"]}, "--calibration-run a: given twice"),
        ({"calibration_run": ["A=x", "b=y"]}, "unmatched: A, a"),
        ({"calibration_run": ["a=/no/such", "b=/no/such"]}, "/no/such/pred/Session_12.npy: no such file"),
        ({"calibration_note": [""]}, "--calibration-note: 0 characters"),
        ({"calibration_note": [" "]}, "--calibration-note: 1 characters"),
        ({"calibration_note": ["a\nb"]}, "--calibration-note: 3 characters; expected 1 to 500, all printable"),
        ({"calibration_note": ["a" * 501]}, "--calibration-note: 501 characters"),
        (
            {"calibration_note": ["x"], "calibration_sessions": None, "allow_in_sample_test_thresholds": []},
            "--calibration-note: expected --calibration-sessions with it",
        ),
        ({"matched_recalls": []}, "--matched-recalls: expected at least one"),
        ({"matched_recalls": [0]}, "--matched-recalls 0: expected a fraction"),
        ({"matched_recalls": [1.01]}, "--matched-recalls 1.01"),
        ({"matched_recalls": ["nan"]}, "--matched-recalls nan"),
        ({"matched_recalls": ["x"]}, "--matched-recalls"),
        ({"matched_recalls": [0.8, "0.80"]}, "--matched-recalls 0.8: given twice"),
        ({"matched_recalls": [0.8, "0.80000001"]}, "--matched-recalls 0.8: given twice"),
        ({"midturn_pause_max_seconds": [-0.2]}, "--midturn-pause-max-seconds -0.2"),
        ({"midturn_pause_max_seconds": ["inf"]}, "--midturn-pause-max-seconds inf"),
        ({"midturn_pause_max_seconds": ["nan"]}, "--midturn-pause-max-seconds nan"),
        ({"decision_timing": ["during"]}, "--decision-timing"),
        ({"bootstrap_resamples": [-1]}, "--bootstrap-resamples -1"),
        ({"seed": [-1]}, "--seed -1"),
        ({"seed": ["1.5"]}, "--seed"),
        ({"audit_sample": [-1]}, "--audit-sample -1"),
        ({"print_event_timelines": [-1]}, "--print-event-timelines -1"),
        ({"no_such_option": [1]}, "no-such-option"),
        ({"matched": [0.8]}, "--matched"),
        ({"output": None}, "--output"),
    ],
)
def test_options(refused_evaluation, changes, expected):
    refused_evaluation(expected, **changes)


@pytest.mark.parametrize("scores", ["copied", "others"])
def test_a_scored_session_under_another_name_is_no_calibration(refused_evaluation, study, scores):
    """Whatever the type of the copy's numbers, and also where its scores are those of another session."""
    target = np.load(study / "target" / "Session_3.npy")
    np.save(study / "target" / "Session_9.npy", target.astype(np.float32))
    for run, kind in itertools.product("ab", ("pred", "valid")):
        source = "Session_3" if scores == "copied" else "Session_12"
        shutil.copy(study / run / kind / f"{source}.npy", study / run / kind / "Session_9.npy")
    expected = "--calibration-sessions Session_9: its targets are those of Session_3 in --sessions"
    refused_evaluation(expected, calibration_sessions=["Session_12", "Session_9"])


def test_output_names(refused_evaluation, study, tmp_path):
    refused_evaluation("expected a file name that ends in .json", output=[tmp_path / "out" / "x.csv"])
    refused_evaluation("expected a file name that ends in .json", output=[tmp_path / "out" / ".json"])
    (tmp_path / "folder.json").mkdir()
    refused_evaluation("folder.json: a folder", output=[tmp_path / "folder.json"])
    (tmp_path / "file").write_text("")
    refused_evaluation("file: a file, expected a folder", output=[tmp_path / "file" / "x.json"])
    cuts = study / "cuts.json"
    cuts.write_text('{"Session_3": [50]}')
    refused_evaluation("is the --recording-boundaries file", recording_boundaries=[cuts], output=[cuts])
    assert json.loads(cuts.read_text()) == {"Session_3": [50]}


def test_an_output_that_cannot_be_placed_leaves_nothing(refused_evaluation, tmp_path):
    place = tmp_path / "place"
    (place / "x_framewise.csv").mkdir(parents=True)
    refused_evaluation("x_framewise.csv: a folder", output=[place / "x.json"])
    assert [path.name for path in place.iterdir()] == ["x_framewise.csv"]


def test_a_file_that_cannot_be_written_takes_the_others_with_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_files({tmp_path / "first.csv": b"1", tmp_path / "file" / "second.csv": b"2"})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_refusal_leaves_earlier_results_as_they_were(refused_evaluation, study, tmp_path):
    earlier = tmp_path / "x.json"
    earlier.write_text("earlier")
    (study / "a" / "valid" / "Session_3.npy").unlink()
    refused_evaluation("no such file", output=[earlier])
    assert earlier.read_text() == "earlier"


def test_a_mask_may_hide_anything(call, study, tmp_path, tools):
    path = study / "a" / "pred" / "Session_3.npy"
    scores = np.load(path)
    scores[~np.load(study / "a" / "valid" / "Session_3.npy")] = np.nan
    np.save(path, scores)
    assert call(EVALUATE, *tools.evaluation_arguments(study, tmp_path / "out" / "x.json"))[0] == 0


# Converter


@pytest.fixture
def raw(tmp_path, tools):
    """Good raw input of one session of 60 rows; returns the array's folder."""
    rng = np.random.default_rng(0)
    (tmp_path / "target").mkdir()
    (tmp_path / "raw").mkdir()
    np.save(tmp_path / "target" / "S.npy", tools.target_of("10" * 30, "0" * 60))
    np.save(tmp_path / "raw" / "S.npy", rng.dirichlet([1, 1, 1], (50, 10)).astype(np.float32))
    return tmp_path


def conversion(root, **changes):
    options = {
        "--prediction-root": [root / "raw"],
        "--target-root": [root / "target"],
        "--output-dir": [root / "out"],
        "--sessions": ["S"],
    } | {f"--{name.replace('_', '-')}": values for name, values in changes.items()}
    return [text for name, values in options.items() if values is not None for text in (name, *values)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, "no such file"),
        (b"junk", "not a readable .npy"),
        (pickled(), "not a readable .npy"),
        (npz(), "an archive"),
        (lambda a: a[:, :, 0], "shape [50, 10]"),
        (lambda a: a.transpose(0, 2, 1), "shape [50, 3, 10]"),
        (lambda a: a.transpose(1, 0, 2), "shape [10, 50, 3]"),
        (lambda a: a[1:], "shape [49, 10, 3]"),
        (lambda a: np.concatenate([a, a[:10]]), "shape [60, 10, 3]"),
        (lambda a: np.log(a + 1e-9), "softmax output, not logits"),
        (put((3, 4, 1), np.nan), "nan at source row 3, step 5, wearer"),
        (put((3, 4, 1), np.inf), "inf at source row 3"),
        (put((3, 4, 1), 1.2), "1.2000000476837158 at source row 3"),
        (put((3, 4), [0.2, 0.3, 0.502]), "sum to 1.0020 at source row 3, step 5"),
        (put((3, 4), [0.2, 0.3, 0.498]), "sum to 0.9980"),
        (lambda a: np.eye(3, dtype=np.int64)[a.argmax(axis=2)], "dtype int64"),
    ],
)
def test_raw_files(refused, raw, change, expected):
    path = raw / "raw" / "S.npy"
    if change is None:
        path.unlink()
    elif isinstance(change, bytes):
        path.write_bytes(change)
    else:
        np.save(path, change(np.load(path)))
    refused(CONVERT, conversion(raw), path, expected, "expected")


def test_conversion_options(refused, raw, tools):
    refused(CONVERT, conversion(raw, sessions=[]), "--sessions: expected at least one")
    refused(CONVERT, conversion(raw, sessions=["S", "S"]), "--sessions S: given twice")
    refused(CONVERT, conversion(raw, sessions=["../raw/S"]), "expected a plain session name")
    refused(CONVERT, conversion(raw, sessions=["S", "Other"]), "Other.npy: no such file")
    refused(CONVERT, conversion(raw, prediction_root=[raw / "none"]), "--prediction-root", "no such folder")
    refused(CONVERT, conversion(raw, target_root=[raw / "none"]), "--target-root", "no such folder")
    refused(CONVERT, conversion(raw, output_dir=None), "--output-dir")
    np.save(raw / "target" / "S.npy", tools.target_of("1" * 10, "0" * 10))
    refused(CONVERT, conversion(raw), "S.npy: the target has 10 rows; expected more than 10")


def test_the_converter_never_overwrites_its_input(refused, raw):
    (raw / "raw").rename(raw / "pred")
    before = (raw / "pred" / "S.npy").read_bytes()
    changes = {"prediction_root": [raw / "pred"], "output_dir": [raw]}
    refused(CONVERT, conversion(raw, **changes), "would overwrite --prediction-root")
    assert (raw / "pred" / "S.npy").read_bytes() == before
    assert not (raw / "valid").exists()
