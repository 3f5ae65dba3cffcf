"""Explain a file of results: the job that made it, what that read, and the jobs behind it.

Snakemake's own records (.snakemake/metadata) say so; nothing is run.
"""

from __future__ import annotations

import argparse
import os
import sys
from base64 import urlsafe_b64encode
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from common.errors import InputError, near
from common.files import parse, read_json
from emma.cli.project import add_root, check_root

#: Inputs that are listed, and characters of the command that are shown; with --all everything is.
_MOST, _LONGEST = 12, 200


class Record(BaseModel):
    """What Snakemake notes of a file that a job wrote."""

    rule: str
    input: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    shellcmd: str | None = None
    starttime: float | None = None
    endtime: float | None = None
    incomplete: bool = False

    @property
    def job(self) -> tuple[str, str]:
        """What tells the job from others: several files may be of one."""
        return self.rule, self.shellcmd or ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sub-command."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a file below results/")
    parser.add_argument("--all", action="store_true", help="list every input, and the whole command")
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is known of the file."""
    root: Path = arguments.root
    check_root(root)
    name = Path(os.path.relpath(arguments.file, root)).as_posix()
    record = read_record(root, name)
    if record is None:
        if not arguments.file.exists():
            beside = [path.name for path in arguments.file.parent.glob("*")]
            if meant := near(arguments.file.name, beside):
                raise InputError(f"{arguments.file}: no such file, did you mean {arguments.file.with_name(meant)}?")
        again = f"emma run --dry-run {name}"
        raise InputError(f"{arguments.file}: no record of a job that made it; which jobs would: {again}")
    sys.stdout.write("\n".join(_told(root, name, record, everything=arguments.all)) + "\n")
    return 0


def _told(root: Path, name: str, record: Record, *, everything: bool) -> list[str]:
    """The lines."""
    most = len(record.input) if everything else _MOST
    state = "" if (root / name).is_file() else " (not there now)"
    lines = [f"{name}{state}", f"  rule     {record.rule}{' (interrupted)' if record.incomplete else ''}"]
    if record.starttime is not None and record.endtime is not None:
        at = datetime.fromtimestamp(record.endtime, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        lines.append(f"  made     {at}, in {record.endtime - record.starttime:.1f} s")
    if record.shellcmd:
        whole = " ".join(record.shellcmd.split())
        lines.append(f"  command  {whole if everything or len(whole) <= _LONGEST else f'{whole[:_LONGEST]} ...'}")
    lines += [f"  log      {log}" for log in record.log]
    lines.append(f"  from     {len(record.input)} files")
    for source in record.input[:most]:
        made = read_record(root, source)
        lines.append(f"    {source}: {made.rule if made else 'made by no job'}")
    if len(record.input) > most:
        lines.append(f"    and {len(record.input) - most} more: --all")
    rules = Counter(rule for rule, _ in behind(root, record))
    jobs = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))
    lines.append(f"  behind   {rules.total()} jobs{': ' if jobs else ''}{jobs}")
    return lines


def behind(root: Path, record: Record) -> set[tuple[str, str]]:
    """The jobs whose files a record's job rests on, directly or not, as rule and command."""
    found: set[tuple[str, str]] = set()
    seen, waiting = set(record.input), [*record.input]
    while waiting:
        source = read_record(root, waiting.pop())
        if source is not None:
            found.add(source.job)
            fresh = set(source.input) - seen
            seen |= fresh
            waiting += fresh
    return found


def read_record(root: Path, name: str) -> Record | None:
    """Snakemake's record of a file, by its name in the workflow; None where no job wrote it."""
    key = urlsafe_b64encode(name.encode()).decode()
    # Names longer than a file's can be are cut, and all parts but the last are folders.
    most = os.pathconf(root, "PC_NAME_MAX") - 1
    *folders, last = [key[start : start + most] for start in range(0, len(key), most)]
    path = root.joinpath(".snakemake/metadata", *(f"@{folder}" for folder in folders), last)
    return parse(Record, read_json(path), path) if path.is_file() else None
