"""Run the benchmark: scenes, embeddings, folds and the board of a release.

Snakemake does it; the plain command that runs is shown first. An interrupted run resumes by the same command.
Targets are rules (leaderboard, folds, all) or files below results/.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from common.errors import INTERRUPTED, RESUMES, InputError, natural, near, unknown
from emma.cli.project import add_release, add_root, check_release, check_root, chosen

#: What `make leaderboard` makes: `folds` names each fold, so that one that was deleted comes back.
_TARGETS = ("leaderboard", "folds")

#: Rules that people ask for.
_RULES = (*_TARGETS, "all")

_WORDS = ("surrogate", "none")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sub-command."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"what to make (default: {' '.join(_TARGETS)})")
    add_choice(parser)
    parser.add_argument("--models", metavar="A,B", help="models, by commas (default: those of config/config.yaml)")
    parser.add_argument("--submissions", metavar="A,B", help="folders of submitted predictions, by commas")
    captures = f"{', '.join(_WORDS)}, or a YAML file with real_captures (default: as config/config.yaml says)"
    parser.add_argument("--captures", metavar="SETS", help=captures)
    parser.add_argument(
        "--seed", type=natural, help="of references and resamples (default: that of config/config.yaml)"
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Options of every command that runs Snakemake."""
    add_release(parser)
    parser.add_argument("--cores", type=natural, default=len(os.sched_getaffinity(0)), help="jobs at a time")
    parser.add_argument("--dry-run", action="store_true", help="only say which jobs would run")
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check what the options alone show, then run; Snakemake's status."""
    check_root(arguments.root)
    check_release(arguments.root, arguments.release)
    settings, files = {}, []
    for key in ("models", "submissions"):
        if (names := getattr(arguments, key)) is not None:
            settings[key] = f"[{','.join(filter(None, map(str.strip, names.split(','))))}]"
    if arguments.seed is not None:
        settings["seed"] = str(arguments.seed)
    if arguments.captures in _WORDS:
        settings["real_captures"] = arguments.captures
    elif arguments.captures is not None:
        if not (arguments.root / arguments.captures).is_file():
            raise InputError(f"--captures: no YAML file in the project, and {unknown(arguments.captures, _WORDS)}")
        files.append(arguments.captures)
    targets = arguments.targets or _TARGETS
    for target in targets:
        if target not in _RULES and (meant := near(target, _RULES)):
            raise InputError(f"emma run: {target}: no such target, did you mean {meant}?")
    status = start(command(arguments, targets, settings, files), arguments.root)
    if status == 0 and not arguments.dry_run and {"leaderboard", "all"} & {*targets}:
        release, layout = chosen(arguments)
        split = " --eval-split HOLDOUT" if arguments.eval_split == "HOLDOUT" else ""
        sys.stdout.write(f"page: {layout.board_as('html')}; in the terminal: emma show --release {release}{split}\n")
    return status


def command(
    arguments: argparse.Namespace,
    targets: Sequence[str],
    settings: dict[str, str] | None = None,
    files: Sequence[str] = (),
) -> list[str]:
    """The plain command: ``--config`` takes everything up to ``--``, so targets stand behind it.

    Args:
        arguments: the options of ``add_choice``.
        targets: rules or files.
        settings: keys of ``config/config.yaml``, beside release and split.
        files: configuration files beside ``config/config.yaml``.
    """
    words = ["snakemake", *(["--configfile", *files] if files else []), "--cores", str(arguments.cores)]
    if arguments.dry_run:
        words.append("--dry-run")
    elif importlib.util.find_spec("rich"):
        words += ["--logger", "emma"]
    every = {"release": arguments.release, "eval_split": arguments.eval_split, **(settings or {})}
    named = [f"{key}={value}" for key, value in every.items() if value is not None]
    return [*words, *(["--config", *named] if named else []), "--", *targets]


def start(words: list[str], root: Path) -> int:
    """Show a Snakemake command, run it in the project's folder, and return its status.

    An interrupt from the keyboard reaches Snakemake too, which ends its jobs, cleans up and says so; this waits for it.
    """
    sys.stdout.write(f"$ {shlex.join(words)}\n")
    sys.stdout.flush()
    program = Path(sys.executable).with_name(words[0])
    if not program.is_file():
        raise InputError(
            f"{program}: no such program; expected Snakemake beside this Python, as make setup installs it"
        )
    # In CI no bar moves.
    environment = os.environ | ({"TTY_INTERACTIVE": "0"} if os.environ.get("CI") in {"1", "true"} else {})
    interrupted = False
    # Snakemake takes an interrupt from the Snakefile on: until then it waits, so that no import ends in a traceback.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process = subprocess.Popen([program, *words[1:]], cwd=root, env=environment)
    with process:
        # Who ends this ends the run.
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                try:
                    signal.pthread_sigmask(signal.SIG_SETMASK, held)
                    process.wait(1)
                except KeyboardInterrupt:
                    interrupted = True
    if interrupted and process.returncode != INTERRUPTED:
        sys.stderr.write(f"{RESUMES}\n")
    return INTERRUPTED if interrupted else process.returncode
