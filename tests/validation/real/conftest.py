"""Where the public captures lie, if they are on this machine; nothing of them is part of the project."""

import os
from pathlib import Path

import pytest

CAPTURES = Path(os.environ.get("EMMA_REAL_CAPTURES", Path(__file__).resolve().parents[4] / "shared" / "real_captures"))


@pytest.fixture(scope="session")
def captures():
    if not CAPTURES.is_dir():
        pytest.skip("no real captures on this machine: set EMMA_REAL_CAPTURES to their folder")
    return CAPTURES
