"""Small synthetic sessions with the shapes and layouts of EasyCom and EgoSpeak, for tests and for a first try.

The conversations are invented turn-taking, the scores a noisy look into the future: nothing here measures a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from floor_events.converter import align, npy_bytes
from floor_events.protocol import CLASSES, HORIZON_STEPS, OTHERS, WEARER

TEST_SESSIONS = ("Session_3", "Session_2", "Session_1")
CALIBRATION_SESSION = "Session_12"
BASELINE_QUALITY, CANDIDATE_QUALITY = 0.8, 1.0


def synthetic_target(rows: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Targets uint8 [rows, 3]: others and wearer take turns with pauses, restarts and overlaps of 0.2 s and more."""
    target = np.zeros((rows, len(CLASSES)), dtype=np.uint8)
    row, speaker = int(rng.integers(0, 5)), OTHERS
    while row < rows:
        length = int(rng.integers(3, 25))
        target[row : row + length, speaker] = 1
        if rng.random() < 0.4:  # the other side comes in before this turn ends
            start = row + int(rng.integers(1, length + 1))
            target[start : start + int(rng.integers(2, 12)), OTHERS + WEARER - speaker] = 1
        row += length + int(rng.integers(1, 14))
        if rng.random() < 0.6:
            speaker = OTHERS + WEARER - speaker
    target[:, 0] = ~target[:, 1:].any(axis=1)
    return target


def synthetic_raw(target: NDArray[np.uint8], quality: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Raw MiniROADA-like probabilities float32 [T-10, 10, 3] for targets [T, 3], T > 10.

    `quality` is how far a true class lifts its logit over unit noise at 0.2 s; it fades with the horizon.
    """
    sources = len(target) - HORIZON_STEPS
    future = np.stack([target[k + 1 : k + 1 + sources] for k in range(HORIZON_STEPS)], axis=1).astype(np.float64)
    lift = quality * np.linspace(1.0, 0.5, HORIZON_STEPS)[:, None]
    logits = 2.0 * lift * (future - 0.5) + rng.normal(size=future.shape)
    odds = np.exp(logits - logits.max(axis=2, keepdims=True))
    probabilities: NDArray[np.float32] = (odds / odds.sum(axis=2, keepdims=True)).astype(np.float32)
    return probabilities


def synthetic_files(
    root: Path, rows: int, seed: int, sessions: Sequence[str] = (*TEST_SESSIONS, CALIBRATION_SESSION)
) -> dict[Path, bytes]:
    """The files of a small study by path: targets, raw baseline scores, and two aligned runs.

    Under `root`: easycom_target_frame/, miniroad/raw/eval/, and for baseline (the raw scores, aligned) and candidate
    (a better model, stored [T, 3, 10] with the mask of a 40-row first window) test_result/ with every session and
    calibration_result/ with the calibration session. `rows` is the length of a session in frames of 0.2 s, at least 50.
    """
    files: dict[Path, bytes] = {}
    for number, session in enumerate(sessions):
        rng = np.random.default_rng([seed, number])
        target = synthetic_target(rows, rng)
        raw = synthetic_raw(target, BASELINE_QUALITY, rng)
        files[root / "easycom_target_frame" / f"{session}.npy"] = npy_bytes(target)
        files[root / "miniroad" / "raw" / "eval" / f"{session}.npy"] = npy_bytes(raw)
        values, valid = align(synthetic_raw(target, CANDIDATE_QUALITY, rng))
        source = np.arange(rows)[:, None] - 1 - np.arange(HORIZON_STEPS)
        stored = {"baseline": align(raw), "candidate": (values.transpose(0, 2, 1), valid & (source >= 39))}
        for run, (pred, mask) in stored.items():
            for part in ("test_result", "calibration_result"):
                if part == "test_result" or session == CALIBRATION_SESSION:
                    files[root / run / part / "pred" / f"{session}.npy"] = npy_bytes(pred)
                    files[root / run / part / "valid" / f"{session}.npy"] = npy_bytes(mask)
    return files
