"""Studies on disk and the two programs, run in this process."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "scripts"


def track(text):
    return np.array([int(digit) for digit in text], dtype=np.uint8)


def target_of(others, wearer):
    others, wearer = track(others), track(wearer)
    return np.stack([(1 - others) * (1 - wearer), wearer, others], axis=1).astype(np.uint8)


def full_mask(rows):
    """True wherever the source is in the session."""
    return np.arange(rows)[:, None] > np.arange(10)


def random_study(root, sessions=("Session_12", "Session_3", "Session_1"), runs=("a", "b"), rows=150, seed=0):
    """Target and run folders with random activity; returns the arrays by (kind, run, session)."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for session in sessions:
        target = np.repeat(rng.integers(0, 2, (rows // 3, 3)), 3, axis=0).astype(np.uint8)
        arrays["target", None, session] = target
        for run in runs:
            arrays["pred", run, session] = rng.random((len(target), 10, 3)).astype(np.float32)
            arrays["valid", run, session] = full_mask(len(target)) & (rng.random((len(target), 10)) < 0.99)
    for (kind, run, session), array in arrays.items():
        folder = root / "target" if kind == "target" else root / run / kind
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{session}.npy", array)
    return arrays


def load_program(name):
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture(scope="session")
def programs():
    names = ("evaluate_floor_state_changes", "prepare_egospeak_floor_eval", "make_synthetic_floor_sessions")
    return {name: load_program(name) for name in names}


@pytest.fixture
def call(programs, monkeypatch, capsys):
    """Run a program with arguments; returns (status, stdout, stderr)."""

    def run(name, *arguments):
        program = programs[name]
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        status = 0
        try:
            program.run_script(program.main, program.PROGRAM)
        except SystemExit as ending:
            status = ending.code
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def study(tmp_path):
    """A random study in tmp_path/study and the arguments that evaluate it."""
    root = tmp_path / "study"
    random_study(root)
    return root


def evaluation_arguments(root, output, **changes):
    """Options as a dict of lists, so that a test can change one."""
    options = {
        "--target-root": [root / "target"],
        "--run": [f"a={root / 'a'}", f"b={root / 'b'}"],
        "--calibration-sessions": ["Session_12"],
        "--sessions": ["Session_3", "Session_1"],
        "--bootstrap-resamples": [100],
        "--output": [output],
    }
    options |= changes
    arguments = []
    for name, values in options.items():
        if values is None:
            continue
        if name in {"--run", "--calibration-run"}:
            for value in values:
                arguments += [name, value]
        else:
            arguments += [name, *values]
    return arguments


@pytest.fixture
def tools():
    """The helpers of this file, for tests of this folder."""
    return _Tools


class _Tools:
    ROOT, SCRIPTS = ROOT, SCRIPTS
    track, target_of, full_mask = staticmethod(track), staticmethod(target_of), staticmethod(full_mask)
    random_study, evaluation_arguments = staticmethod(random_study), staticmethod(evaluation_arguments)
