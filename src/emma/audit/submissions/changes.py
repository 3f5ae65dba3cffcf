"""The one submission that a pull request changes, read from the objects of git: none of its code or settings runs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from common.doors import shown
from common.errors import InputError
from emma.audit.submissions.pull_request import FOLDER, LARGEST

#: Most files of a submission, and the mode of a plain one.
_MOST_FILES, _REGULAR = 5000, "100644"


class _Entry(NamedTuple):
    """A path that a commit changes or holds, with its mode and the name of its content."""

    path: str
    mode: str
    blob: str


def extract(repository: Path, base: str, head: str, out: Path) -> Path:
    """Write the one submission that a pull request changes to ``out``, and give its folder.

    Args:
        repository: a clone that has both commits; its checkout is that of ``base``, and stays as it is.
        base: the commit that the pull request would be merged into.
        head: the pull request's own.
        out: an empty folder.

    Raises:
        InputError: no such commits; a change outside one folder of ``submissions/``; something that is no plain file;
            too much; or nothing to check.
    """
    base_id, head_id = (_commit(repository, name) for name in (base, head))
    fork = _git(repository, "merge-base", base_id, head_id).decode().strip()
    changed = _changed(repository, fork, head_id)
    if not changed:
        raise InputError(f"{head}: changes nothing since {base}")
    names = set()
    for path in changed:
        parts = path.split("/")
        if parts[0] != FOLDER or len(parts) < 3:
            raise InputError(f"{path}: changed, expected changes of one folder of {FOLDER}/ alone")
        names.add(parts[1])
    if len(names) > 1:
        raise InputError(f"{FOLDER}/: {', '.join(sorted(names))} changed, expected one submission per pull request")
    (name,) = names
    entries = _entries(repository, head_id, f"{FOLDER}/{name}")
    if not entries:
        raise InputError(f"{FOLDER}/{name}: removed, expected a maintainer to do so")
    for entry in entries:
        if entry.mode != _REGULAR:
            raise InputError(f"{entry.path}: mode {entry.mode}, expected a plain file ({_REGULAR})")
        # Objects that no checkout made can hold such names.
        if not {"", ".", ".."}.isdisjoint(entry.path.split("/")):
            raise InputError(f"{entry.path}: expected a path without . and ..")
        place = out / entry.path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(_git(repository, "cat-file", "blob", entry.blob))
        except OSError as error:
            raise InputError(f"{shown(entry.path)}: cannot be written ({error.strerror})") from None
    return out / FOLDER / name


def _commit(repository: Path, name: str) -> str:
    """The full name of a commit."""
    try:
        found = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except InputError:
        raise InputError(f"{name}: no commit of {repository}") from None
    return found.decode().strip()


def _changed(repository: Path, fork: str, head: str) -> list[str]:
    listed = _git(repository, "diff-tree", "-r", "-z", "--name-only", "--no-renames", fork, head)
    return [_named(path) for path in listed.split(b"\0") if path]


def _entries(repository: Path, head: str, folder: str) -> Sequence[_Entry]:
    """What a commit holds below a folder; InputError where that is too much."""
    entries, size = [], 0
    for line in _git(repository, "ls-tree", "-r", "-l", "-z", head, "--", folder).split(b"\0"):
        if line:
            about, path = line.split(b"\t", 1)
            mode, _, blob, length = about.split()
            entries.append(_Entry(_named(path), mode.decode(), blob.decode()))
            size += int(length) if length.isdigit() else 0
    if len(entries) > _MOST_FILES or size > LARGEST:
        most = f"at most {_MOST_FILES} files and {LARGEST} bytes"
        raise InputError(f"{folder}: {len(entries)} files, {size} bytes, expected {most}")
    return entries


def _named(path: bytes) -> str:
    try:
        return path.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path!a}: expected file names in UTF-8") from None


def _git(repository: Path, *words: str) -> bytes:
    """What git says, of objects alone: no hook, filter or external program that a commit names runs."""
    command = ["git", "--no-replace-objects", "-C", str(repository), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        raise InputError("git: not found, expected it on the path") from None
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"git {' '.join(words)}: {told[-1] if told else 'no such commit'}")
    return done.stdout
