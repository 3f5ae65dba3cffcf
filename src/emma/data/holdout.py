"""The secret HOLDOUT split: the file that commits a release to it, and the seed that opens it."""

from __future__ import annotations

import os
from pathlib import Path

from common.errors import InputError
from common.files import parse, read_text, read_yaml, write_text
from common.hashing import sha256
from emma.data.release import DataReleaseManifest, HoldoutCommitment
from emma.tasks import Split

#: Environment variables of the secret: the seed, or the file that holds it.
SEED_VARIABLES = ("EMMA_HOLDOUT_SEED", "EMMA_HOLDOUT_SEED_FILE")

#: Names that file to programs that are not told the seed, so that they can close it.
HIDDEN_VARIABLE = "EMMA_HIDDEN"


def commitment_path(release_path: str | Path) -> Path:
    """``NAME.holdout.yaml`` beside ``NAME.yaml``: committing touches no file that a release is made of."""
    path = Path(release_path)
    return path.with_name(f"{path.stem}.holdout.yaml")


def load_commitment(release_path: str | Path) -> HoldoutCommitment | None:
    """The commitment of the release in ``config/releases/NAME.yaml``; None where it has none."""
    path = commitment_path(release_path)
    return parse(HoldoutCommitment, read_yaml(path), path) if path.is_file() else None


def holdout_seed(release: str, commitment: HoldoutCommitment | None) -> str:
    """The secret seed of a release's HOLDOUT split, from the variable or the file of ``SEED_VARIABLES``.

    Raises:
        InputError: there is no seed, or it is not the one that the release is committed to. The seed is never quoted.
    """
    variable, file_variable = SEED_VARIABLES
    seed, file = os.environ.get(variable), os.environ.get(file_variable)
    if seed is None and file is not None:
        try:
            seed = read_text(file).strip()
        except InputError:
            raise InputError(f"{file_variable}: cannot be read, expected a text file with the seed") from None
    if not seed:
        raise InputError(
            f"config/config.yaml: eval_split: HOLDOUT expects its secret seed in {variable}"
            f" or in the file that {file_variable} names"
        )
    if commitment is None:
        raise InputError(f"release {release}: no file {release}.holdout.yaml, expected a commitment for a HOLDOUT run")
    if sha256(seed.encode()) != commitment.seed_sha256:
        raise InputError(f"release {release}: the HOLDOUT seed is not the one of seed_sha256 in {release}.holdout.yaml")
    return seed


def split_seed(release_path: str | Path, seed: int, split: str) -> int | str:
    """The seed that a split's scenes are made from: the release's, or the secret one for HOLDOUT."""
    path = Path(release_path)
    return holdout_seed(path.stem, load_commitment(path)) if split == Split.HOLDOUT else seed


def check_opened(manifest: DataReleaseManifest, commitment: HoldoutCommitment | None, path: str | Path) -> None:
    """Hold the splits that the manifest at ``path`` has of an opened holdout to the commitment.

    Raises:
        InputError: there is no commitment, it names another seed, or has recorded other splits.
    """
    opened = manifest.holdout
    if opened is None:
        return
    if commitment is None or opened.seed_sha256 != commitment.seed_sha256:
        wanted = "no commitment" if commitment is None else commitment.seed_sha256
        raise InputError(
            f"{path}: holdout.seed_sha256: {opened.seed_sha256}, {manifest.release}.holdout.yaml has {wanted}"
        )
    for task, record in (commitment.splits or {}).items():
        if (opened.splits or {}).get(task) != record:
            raise InputError(f"{path}: holdout.splits.{task}: expected the split in {manifest.release}.holdout.yaml")


def write_commitment(path: Path, commitment: HoldoutCommitment) -> None:
    """Write ``NAME.holdout.yaml``."""
    import yaml

    content = commitment.model_dump(mode="json", exclude_none=True)
    write_text(path, yaml.safe_dump(content, sort_keys=False, width=120))
