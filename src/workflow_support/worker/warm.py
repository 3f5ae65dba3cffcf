"""What a worker imports before it forks, by the imports of the programs themselves.

At first, what a program's own file imports, and what a module that it imports in a function, since it is heavy, imports
in functions in turn. Other imports in functions that the program can reach are many, and most jobs meet few of them: a
job tells at its end which it met, and the next one finds them imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import runpy
import select
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

from workflow_support.imports import PACKAGES, late, reach_of, source_of, texts_of

_late = functools.cache(late)


def late_imports(program: Path) -> frozenset[str]:
    """Dotted names that a program and the project's modules that it reaches import in functions.

    Some are names in a module. Empty for a program that cannot be read.
    """
    try:
        texts = texts_of(program)
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    files = [program.with_name(name) for name in texts]
    return frozenset(name for module in (*files, *reach_of(texts.values()).modules) for name in _late(module))


def first_imports(program: Path) -> frozenset[str]:
    """Those of its late imports that nearly every job meets: its own, and those of the modules that these name."""
    try:
        own = _late(program)
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    return frozenset(own).union(*(_late(name) for name in own if _is_module(name)))


def _is_module(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES and source_of(name).is_file()


class _Kept(weakref.finalize):  # type: ignore[type-arg]
    """A finaliser that the end of a process leaves alone."""

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self.atexit = False


@contextlib.contextmanager
def _kept_finalisers() -> Iterator[None]:
    """What libraries undo at an end (torch its operators, in 30 ms) is not for a job to undo."""
    plain = weakref.finalize
    weakref.finalize = _Kept  # type: ignore[misc]
    try:
        yield
    finally:
        weakref.finalize = plain  # type: ignore[misc]


class Warmth:
    """The programs and modules that a worker has imported, and the pipe through which jobs tell what they met beside.

    Args:
        programs: the folder of the programs.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        paths = sorted(programs.glob("*.py"))
        self._late = {path.stem: late_imports(path) for path in paths}
        self._warm: set[str] = set()
        self._met = {path.stem: set(first_imports(path)) for path in paths}
        self._told, self._tell = os.pipe()
        os.set_blocking(self._tell, False)

    def warm_up(self, program: str) -> None:
        """Import what a program imports; what fails here is told by the job that meets it again."""
        self._listen()
        with _kept_finalisers():
            if program not in self._warm:
                self._warm.add(program)
                with contextlib.suppress(Exception, SystemExit):
                    runpy.run_path(str(self._programs / f"{program}.py"), run_name="warm")
            for module in sorted(self._met.pop(program, ())):
                with contextlib.suppress(Exception, SystemExit):
                    importlib.import_module(module)

    def tell(self, program: str, before: frozenset[str]) -> None:
        """Tell the worker, from a job, which late imports it met, the project's own modules among them.

        Args:
            program: the job's program.
            before: names of the modules that were there when it started.
        """
        # What a backbone met in a process of the job's own, by its word: a name of nothing below is let pass.
        beside: set[str] = getattr(sys.modules.get("emma.backbones.apart"), "MET", set())
        new = (sys.modules.keys() | beside) - before
        met = sorted(name for name in new if name in self._late[program] or name.partition(".")[0] in PACKAGES)
        # What a pipe takes as a whole: words of two jobs do not mix.
        while met and len(message := json.dumps([program, met]).encode() + b"\n") > select.PIPE_BUF:
            met = met[: len(met) // 2]
        if met:
            with contextlib.suppress(OSError):
                os.write(self._tell, message)

    def _listen(self) -> None:
        """Take in what jobs have told."""
        while select.select([self._told], [], [], 0)[0]:
            for line in os.read(self._told, 2**16).splitlines():
                program, met = json.loads(line)
                self._met.setdefault(program, set()).update(met)
