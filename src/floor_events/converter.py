"""From raw EgoSpeak MiniROADA output, indexed by source row, to target-time aligned scores with an explicit mask."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from floor_events.inputs import content_sha256, load_array, read_target
from floor_events.protocol import CLASSES, HORIZON_STEPS, check_session_names

SUM_TOLERANCE = 1e-3

Float = TypeVar("Float", bound=np.floating)


def align(raw: NDArray[Float]) -> tuple[NDArray[Float], NDArray[np.bool_]]:
    """Move raw scores [T-10, 10, 3] to target time: scores [T, 10, 3] (same dtype) and bool mask [T, 10].

    Raw row s, step k (0..9) predicts row s + 1 + k. A column keeps T-10 true cells, at rows k+1..T-10+k; every other
    cell is NaN and masked.
    """
    sources = len(raw)
    values = np.full((sources + HORIZON_STEPS, HORIZON_STEPS, len(CLASSES)), np.nan, dtype=raw.dtype)
    valid = np.zeros(values.shape[:2], dtype=np.bool_)
    for k in range(HORIZON_STEPS):
        values[k + 1 : k + 1 + sources, k] = raw[:, k]
        valid[k + 1 : k + 1 + sources, k] = True
    return values, valid


def read_raw(root: Path, session: str, rows: int) -> NDArray[np.floating]:
    """Raw scores of a session of `rows` target rows: floats [rows-10, 10, 3], probabilities that sum to 1 within 1e-3.

    Raises InputError naming the file on anything else; nothing is transposed, padded or guessed.
    """
    path = root / f"{session}.npy"
    expected = f"raw MiniROADA probabilities [T-10, 10, 3] with T = {rows} of session {session}"
    raw = load_array(path, expected)
    if rows <= HORIZON_STEPS:
        raise InputError(f"{path}: the target has {rows} rows; expected more than {HORIZON_STEPS}")
    if raw.shape != (rows - HORIZON_STEPS, HORIZON_STEPS, len(CLASSES)):
        raise InputError(f"{path}: shape {list(raw.shape)}; expected {expected}")
    if raw.dtype.kind != "f":
        raise InputError(f"{path}: dtype {raw.dtype}; expected floats, {expected}")
    wrong = ~((raw >= 0) & (raw <= 1))
    if wrong.any():
        row, step, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{path}: {raw[row, step, column]} at source row {row}, step {step + 1}, {CLASSES[column]}; expected a"
            " finite probability within [0, 1] (softmax output, not logits)"
        )
    total = raw.sum(axis=2, dtype=np.float64)
    if (np.abs(total - 1) > SUM_TOLERANCE).any():
        row, step = np.argwhere(np.abs(total - 1) > SUM_TOLERANCE)[0]
        raise InputError(
            f"{path}: the classes sum to {total[row, step]:.4f} at source row {row}, step {step + 1}; expected 1"
            f" within {SUM_TOLERANCE:g}"
        )
    return raw


def npy_bytes(array: NDArray[np.generic]) -> bytes:
    """The `.npy` file of an array, in C order."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def convert(prediction_root: Path, target_root: Path, output_dir: Path, sessions: Sequence[str]) -> dict[Path, bytes]:
    """Every output file of the conversion by path: pred/, valid/ and conversion.json (shapes, content SHA-256).

    Raises InputError before anything is written. No path stands in conversion.json.
    """
    check_session_names("--sessions", sessions)
    for option, root in (("--prediction-root", prediction_root), ("--target-root", target_root)):
        if not root.is_dir():
            raise InputError(f"{option} {root}: no such folder; expected one of <session>.npy")
        if root.resolve() in {(output_dir / "pred").resolve(), (output_dir / "valid").resolve()}:
            raise InputError(f"--output-dir {output_dir}: would overwrite {option} {root}; expected another folder")
    files: dict[Path, bytes] = {}
    described = {}
    for session in sessions:
        target, target_sha256 = read_target(target_root, session)
        raw = read_raw(prediction_root, session, len(target))
        values, valid = align(raw)
        files[output_dir / "pred" / f"{session}.npy"] = npy_bytes(values)
        files[output_dir / "valid" / f"{session}.npy"] = npy_bytes(valid)
        described[session] = {
            "target": {"shape": list(target.shape), "sha256": target_sha256},
            "raw": {"shape": list(raw.shape), "dtype": raw.dtype.name, "sha256": content_sha256(raw)},
            "pred": {"shape": list(values.shape), "dtype": values.dtype.name, "sha256": content_sha256(values)},
            "valid": {"shape": list(valid.shape), "true_cells": int(valid.sum()), "sha256": content_sha256(valid)},
        }
    report = {
        "layout": "pred[s + 1 + k, k] = raw[s, k]; valid there, NaN and false elsewhere",
        "class_order": list(CLASSES),
        "sessions": described,
    }
    files[output_dir / "conversion.json"] = (json.dumps(report, indent=1) + "\n").encode()
    return files
