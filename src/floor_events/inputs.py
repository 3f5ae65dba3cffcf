"""Reading of targets, scores, masks and recording cuts, refusing whatever is not exactly what the protocol expects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.files import read_json
from floor_events.protocol import CLASSES, HORIZON_STEPS

TIME_FIRST = "[T, 10, 3]"
CLASS_FIRST = "[T, 3, 10]"


@dataclass(frozen=True)
class Scores:
    """Target-time aligned scores of one run and session.

    `values` [T, 10, 3] floats, class order background, wearer, others: cell (t, k) is the probability at row t said
    from source row t - (k + 1). `valid` [T, 10] bool. `layout` is the layout on disk; `sha256` the content digests.
    """

    values: NDArray[np.floating]
    valid: NDArray[np.bool_]
    layout: str
    sha256: dict[str, str]


def content_sha256(array: NDArray[np.generic]) -> str:
    """SHA-256 of an array's content: dtype (little-endian), shape and values in C order, whatever the file's layout."""
    ordered = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(f"{ordered.dtype.str} {list(ordered.shape)}\n".encode())
    digest.update(ordered.data)
    return digest.hexdigest()


def load_array(path: Path, expected: str) -> NDArray[Any]:
    """Read one `.npy` array without pickles. Raises InputError on a missing, unreadable or pickled file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected {expected}")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, MemoryError, OverflowError, TypeError, KeyError):
        raise InputError(f"{path}: not a readable .npy array; expected {expected}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: an archive, not one .npy array; expected {expected}")
    return array


def read_target(root: Path, session: str) -> tuple[NDArray[np.uint8], str]:
    """Targets of one session as uint8 [T, 3] of 0 and 1 (T >= 1 rows of 0.2 s), and their content digest.

    Booleans, integers and floats are accepted as long as every value is exactly 0 or 1.
    """
    path = root / f"{session}.npy"
    expected = f"the target array [T, 3] of 0 and 1 of session {session}"
    array = load_array(path, expected)
    if array.ndim != 2 or array.shape[1] != len(CLASSES) or array.shape[0] == 0:
        raise InputError(f"{path}: shape {list(array.shape)}; expected {expected}")
    if array.dtype.kind not in "buif":
        raise InputError(f"{path}: dtype {array.dtype}; expected {expected}")
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(f"{path}: value {array[row, column]} at row {row}, {CLASSES[column]}; expected 0 or 1")
    return array.astype(np.uint8), content_sha256(array)


def read_scores(root: Path, session: str, rows: int) -> Scores:
    """`pred/` and `valid/` of one run and session over `rows` target rows.

    Scores must be floats of shape exactly [T, 10, 3] or [T, 3, 10], finite and within [0, 1] wherever the mask is
    true (elsewhere anything may stand); the mask must be bool [T, 10]. Raises InputError naming the file.
    """
    pred_path, valid_path = root / "pred" / f"{session}.npy", root / "valid" / f"{session}.npy"
    shape = f"[{rows}, {HORIZON_STEPS}, {len(CLASSES)}]"
    expected = f"target-aligned scores {shape} of session {session} (raw EgoSpeak output needs the converter)"
    stored = load_array(pred_path, expected)
    expected_mask = f"the bool mask [{rows}, {HORIZON_STEPS}] of session {session}"
    valid = load_array(valid_path, expected_mask)
    if stored.shape == (rows, HORIZON_STEPS, len(CLASSES)):
        values, layout = stored, TIME_FIRST
    elif stored.shape == (rows, len(CLASSES), HORIZON_STEPS):
        values, layout = stored.transpose(0, 2, 1), CLASS_FIRST
    else:
        raise InputError(f"{pred_path}: shape {list(stored.shape)}; expected {expected}")
    if stored.dtype.kind != "f":
        raise InputError(f"{pred_path}: dtype {stored.dtype}; expected floats, {expected}")
    if valid.shape != (rows, HORIZON_STEPS):
        raise InputError(f"{valid_path}: shape {list(valid.shape)}; expected {expected_mask}")
    if valid.dtype != np.bool_:
        raise InputError(f"{valid_path}: dtype {valid.dtype}; expected {expected_mask}")
    # A comparison with NaN is false, so this one test finds NaN, infinities and values out of range.
    wrong = ~((values >= 0) & (values <= 1)) & valid[:, :, None]
    if wrong.any():
        row, step, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{pred_path}: {values[row, step, column]} at row {row}, step {step + 1}, {CLASSES[column]}, where the mask"
            " is true; expected a finite score within [0, 1]"
        )
    return Scores(values, valid, layout, {"pred": content_sha256(stored), "valid": content_sha256(valid)})


def read_cuts(path: Path | None, target_root: Path) -> dict[str, tuple[int, ...]]:
    """Recording cuts: a JSON object of session name -> strictly increasing rows above 0 that start a new recording.

    Every session named must have a target file under `target_root`, so that a misspelt name is not ignored in
    silence; that a cut lies inside its session is `check_cuts`'s to see. None gives no cuts.
    """
    if path is None:
        return {}
    expected = 'expected a JSON object such as {"Session_1": [3900]}'
    if not path.is_file():
        raise InputError(f"{path}: no such file; {expected}")
    try:
        content = read_json(path)
    except InputError:
        raise InputError(f"{path}: not readable as JSON with each name once; {expected}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: {expected}")
    for session, rows in content.items():
        whole = isinstance(rows, list) and all(type(row) is int for row in rows)
        if not whole or any(b <= a for a, b in zip([0, *rows], rows, strict=False)):
            raise InputError(f"{path}: {session!r}: expected strictly increasing whole row numbers above 0")
        if session != Path(session).name or not (target_root / f"{session}.npy").is_file():
            raise InputError(f"{path}: {session!r}: unknown session; expected one with a target in {target_root}")
    return {session: tuple(rows) for session, rows in content.items()}


def check_cuts(path: Path | None, cuts: Mapping[str, tuple[int, ...]], session: str, rows: int) -> tuple[int, ...]:
    """The cuts of one session, each below its `rows`. Raises InputError on one that lies outside."""
    session_cuts = cuts.get(session, ())
    if session_cuts and session_cuts[-1] >= rows:
        raise InputError(f"{path}: {session!r}: cut {session_cuts[-1]}; expected below its {rows} rows")
    return session_cuts
