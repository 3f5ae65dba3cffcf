"""Prove that a secret seed opens a release's HOLDOUT commitment: the seed's hash, and every split made again.

The seed comes from EMMA_HOLDOUT_SEED, or from the file that EMMA_HOLDOUT_SEED_FILE names; status 1 where a split
differs.
"""

import sys
from pathlib import Path

from generator import holdout_splits

from common.errors import InputError, OneLineParser, run_script
from emma.data.holdout import check_opened, commitment_path, holdout_seed, load_commitment, write_commitment
from emma.data.release import load_manifest
from emma.data.tables import without_pandas


def main() -> None:
    """Print one line per split, and a verdict."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("manifest", type=Path, help="release/manifest.json of an official run")
    parser.add_argument("--record", type=Path, metavar="RELEASE", help="write the splits' hashes beside RELEASE.yaml")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    if arguments.record is not None:
        if arguments.record.stem != manifest.release:
            raise InputError(f"--record: {arguments.record}, expected config/releases/{manifest.release}.yaml")
        check_opened(manifest, load_commitment(arguments.record), arguments.manifest)
    seed = holdout_seed(manifest.release, manifest.holdout)
    committed = (manifest.holdout.splits if manifest.holdout is not None else None) or {}
    sys.stdout.write("ok    seed: its SHA-256 is holdout.seed_sha256\n")
    differing = 0
    for task, record in holdout_splits(manifest, arguments.manifest, seed):
        expected = committed.get(task)
        differing += record != expected
        state = "ok   " if record == expected else "FAULT"
        hashes = f"index_hash {record.index_hash}, labels_hash {record.labels_hash}"
        sys.stdout.write(f"{state} {task} HOLDOUT: {record.scenes} scenes, {hashes}\n")
    if arguments.record is not None and manifest.holdout is not None and not differing:
        write_commitment(commitment_path(arguments.record), manifest.holdout)
    sys.stdout.write(f"{arguments.manifest}: {f'{differing} splits differ' if differing else 'opened'}\n")
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    run_script(main)
