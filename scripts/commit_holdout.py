"""Draw the secret seed of a release's HOLDOUT split and commit the release to it, in NAME.holdout.yaml beside its file.

The seed is written to one file, readable by its owner alone, and nowhere else.
"""

import os
import secrets
from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.hashing import sha256
from emma.data.holdout import commitment_path, write_commitment
from emma.data.release import HoldoutCommitment, load_release_config

_SEED_BYTES = 32


def main() -> None:
    """Write the seed file and the commitment."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml")
    parser.add_argument("--seed-file", type=Path, required=True, help="new file for the secret seed; keep it safe")
    arguments = parser.parse_args()
    load_release_config(arguments.release_config)
    path = commitment_path(arguments.release_config)
    if path.exists():
        raise InputError(f"{path}: committed already, expected no such file")
    seed = secrets.token_hex(_SEED_BYTES)
    try:
        handle = os.open(arguments.seed_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"{arguments.seed_file}: cannot be made ({error.strerror}), expected a new file") from None
    with os.fdopen(handle, "w") as file:
        file.write(seed + "\n")
    write_commitment(path, HoldoutCommitment(seed_sha256=sha256(seed.encode())))


if __name__ == "__main__":
    run_script(main)
