"""Draw the secret seed of a release's HOLDOUT split and print the commitment for its YAML file.

The seed is written to one file, readable by its owner alone, and nowhere else.
"""

import os
import secrets
import sys
from pathlib import Path

import yaml
from generator import holdout_splits

from common.errors import InputError, OneLineParser, run_script
from common.hashing import sha256
from emma.data.release import HoldoutCommitment, load_release_config
from emma.data.tables import without_pandas

_SEED_BYTES = 32


def main() -> None:
    """Write the seed file, make the splits, print the ``holdout:`` block."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml")
    parser.add_argument("--seed-file", type=Path, required=True, help="new file for the secret seed; keep it safe")
    arguments = parser.parse_args()
    config = load_release_config(arguments.release_config)
    if config.holdout is not None:
        raise InputError(f"{arguments.release_config}: holdout: committed already, expected none")
    seed = secrets.token_hex(_SEED_BYTES)
    try:
        handle = os.open(arguments.seed_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"{arguments.seed_file}: cannot be made ({error.strerror}), expected a new file") from None
    with os.fdopen(handle, "w") as file:
        file.write(seed + "\n")
    splits = dict(holdout_splits(config, arguments.release_config, seed))
    commitment = HoldoutCommitment(seed_sha256=sha256(seed.encode()), splits=splits)
    yaml.safe_dump({"holdout": commitment.model_dump(mode="json")}, sys.stdout, sort_keys=False)


if __name__ == "__main__":
    run_script(main)
