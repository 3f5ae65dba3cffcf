"""A named pipe in the place of a result is a fault at once: nobody waits for its writer."""

import os
import signal

import pytest

from emma.audit.verify import Results, verify

#: One file of each kind that a check reads.
PLACES = (
    "leaderboard.csv",
    "release/manifest.json",
    "runs/many.json",
    "scenes/E-LOC-AOA/TRAIN.index.parquet",
    "embeddings/many/E-LOC-AOA.parquet",
    "folds/many/E-LOC-AOA/score_replicates.parquet",
    "folds/many/E-LOC-AOA/leave-one-environment-out/E_URBAN/predictions.parquet",
    "folds/many/E-LOC-AOA/leave-one-environment-out/E_URBAN/readout.safetensors",
)


@pytest.mark.parametrize("place", PLACES)
def test_a_pipe_is_a_fault_and_no_wait(place, project):
    path = project / "results" / place
    path.unlink()
    os.mkfifo(path)

    def late(*_: object) -> None:
        pytest.fail("a check waits for the writer of a pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        outcomes = verify(Results(project / "results", project))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert any(place in fault for outcome in outcomes for fault in outcome.faults)
