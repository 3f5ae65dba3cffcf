"""A backbone in a process of its own: samples come by a pipe, embeddings go back by it, and nothing else is in reach.

What comes back is read as numbers and short texts alone, never as objects.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from common.errors import InputError
from common.files import parse
from emma.backbones.base import IQ, Embeddings
from emma.backbones.config import ModelConfig
from emma.backbones.cost import cost_of
from emma.backbones.embed import NotFiniteError, UnsuitedError, embed_batch
from emma.backbones.inputs import Contract
from emma.backbones.load import load_backbone, provenance_with, weights_file
from emma.backbones.rights import Isolation, Rights
from emma.data.costs import Cost
from emma.data.provenance import Provenance
from emma.data.reference import REFERENCE_START
from emma.tasks import TaskID

#: Columns of an index that a model's input depends on: all that its process is told of a scene.
SHOWN = ("sample_rate_hz", "center_frequency_hz", REFERENCE_START.name)

#: Seconds until an answer, to a chunk of scenes or of a model that loads; a process that takes longer is ended.
PATIENCE = 3600.0

#: Most bytes of a word that says what comes, most columns of an embedding, and most bytes of what is made.
_WORD, _WIDEST, _LARGEST = 2**20, 2**20, 2**36


class Shown(NamedTuple):
    """What a process is shown: scenes, complex64 ``[n, A, T]``, with index rows and the contract they reach it by."""

    iq: IQ
    index: pa.Table
    contract: Contract

    @classmethod
    def of(cls, iq: IQ, index: pa.Table, contract: Contract) -> Shown:
        """Scenes with the columns of their index that an input depends on."""
        return cls(iq, index.select([name for name in SHOWN if name in index.column_names]), contract)


class EndedError(InputError):
    """A process ended, was ended, or said what it cannot say: it answers no more."""


_FAULTS: dict[str, type[InputError]] = {kind.__name__: kind for kind in (InputError, UnsuitedError, NotFiniteError)}

#: Modules that backbones have imported in their processes, which the warm worker asks for.
MET: set[str] = set()


class Apart:
    """A process of its own, with a pipe to it, that holds the rights it is given; ``with`` ends it.

    Args:
        name: what errors call it.
        rights: what it may open.
        serve: what it does, with its end of the pipe, and what isolates it.
        patience: seconds until an answer, PATIENCE unless given.
        kept: numbers of open files that it keeps.
    """

    def __init__(
        self,
        name: str,
        rights: Rights,
        serve: Callable[[Connection, Isolation], None],
        patience: float | None = None,
        kept: Sequence[int] = (),
    ) -> None:
        self.name, self._rights, self._serve, self._kept = name, rights, serve, kept
        self._seconds = PATIENCE if patience is None else patience
        self._stack = contextlib.ExitStack()
        self._process = 0

    def __enter__(self) -> Self:
        """Start it."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="emma-")))
        self.pipe, theirs = Pipe()
        _flush()
        self._process = os.fork()
        if not self._process:
            self._live(theirs, folder)
        theirs.close()
        # The pipe is a pair of sockets: the system says when nothing moved for so long.
        with socket.socket(fileno=os.dup(self.pipe.fileno())) as ours:
            whole, part = divmod(self._seconds, 1)
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                ours.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", int(whole), int(part * 1e6)))
        return self

    def __exit__(self, *raised: object) -> None:
        """End it and all that it started, and remove its folder."""
        self.pipe.close()
        self._reap()
        self._stack.close()

    def _end(self) -> None:
        # Zero would be this process's own group. A process that has only begun leads no group yet.
        for kill in (os.kill, os.killpg) if self._process else ():
            with contextlib.suppress(OSError):
                kill(self._process, signal.SIGKILL)

    def _reap(self) -> int:
        """End it and say how it ended, by its status or, below zero, its signal."""
        self._end()
        process, self._process = self._process, 0
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) if process else 0

    def _live(self, pipe: Connection, folder: Path) -> NoReturn:
        """All that the process does."""
        status = 1
        try:
            # A group to end all of it by, and no terminal to type into.
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGIO):
                signal.signal(number, signal.SIG_DFL)
            _close_all_but(pipe.fileno(), *self._kept)
            try:
                self._serve(pipe, self._rights.take(folder))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                pass
            except BaseException as error:  # noqa: BLE001 (a model may raise anything, or ask to exit)
                tell_fault(pipe, self.name, error)
            status = 0
        finally:
            with contextlib.suppress(Exception):
                _flush()
            os._exit(status)

    def ask(self, question: Any = None) -> dict[str, Any]:
        """Send a question, if there is one, and wait for a word; InputError is what it says, or how it ended."""
        with self._patience():
            if question is not None:
                self.pipe.send(question)
            word = json.loads(self.pipe.recv_bytes(_WORD))
        if not isinstance(word, dict):
            raise EndedError(f"{self.name}: its process said {type(word).__name__}, expected a mapping")
        if (kind := word.get("fault")) is not None:
            line = " ".join(str(word.get("text")).split())[:2000]
            raise _FAULTS.get(str(kind), InputError)("".join(sign if sign.isprintable() else "?" for sign in line))
        return word

    def receive(self, count: int) -> bytes:
        """So many bytes from it."""
        if not count:
            return b""
        with self._patience():
            content = self.pipe.recv_bytes(count)
        if len(content) != count:
            raise EndedError(f"{self.name}: its process sent {len(content)} bytes, expected {count}")
        return content

    @contextlib.contextmanager
    def _patience(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, ValueError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise EndedError(f"{self.name}: {self._ended(late=isinstance(error, BlockingIOError))}") from None

    def _ended(self, *, late: bool) -> str:
        """How the process ended that no longer answers."""
        if late:
            return f"its process gave no answer in {self._seconds:g} s and was ended"
        status = self._reap()
        if status == -signal.SIGKILL:
            return "its process was ended from outside, perhaps for want of memory, or said what nobody understands"
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return f"its process ended {how} and gave no answer"


def _flush() -> None:
    """Write out the standard streams, so that no process says what another has said."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _close_all_but(*kept: int) -> None:
    """Close every file but the standard ones and those named; standard input is nothing."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    there = Path("/proc/self/fd")
    for number in [int(path.name) for path in there.iterdir()] if there.is_dir() else range(3, 1024):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def tell(pipe: Connection, **word: Any) -> None:
    """Send a word to the process outside."""
    pipe.send_bytes(json.dumps(word).encode())


def tell_fault(pipe: Connection, name: str, error: BaseException) -> None:
    """Send an error: an InputError as it is, another as the model's, in one line."""
    text = str(error) if isinstance(error, InputError) else f"{name}: {type(error).__name__}: {error}"
    with contextlib.suppress(OSError):
        tell(pipe, fault=type(error).__name__, text=text[:2000])


def made_apart(
    config: ModelConfig,
    make: Callable[[Path], bytes],
    *,
    weights: Path | None = None,
    root: str | Path = ".",
    patience: float | None = None,
    kept: Sequence[int] = (),
) -> bytes:
    """What code of a model makes, by a process of its own.

    Args:
        config: the model's config.
        make: called there with the project's folder; what it read before is at hand.
        weights: the file of the model's weights.
        root: the project's folder.
        patience: seconds until it is made, PATIENCE unless given.
        kept: numbers of open files that it keeps.

    Raises:
        InputError: what ``make`` raises there, or how the process ended.
    """
    root = Path(root).resolve()

    def serve(pipe: Connection, isolation: Isolation) -> None:
        del isolation
        before = frozenset(sys.modules)
        content = make(root)
        tell(pipe, size=len(content), modules=_new_modules(before))
        if content:
            pipe.send_bytes(content)

    with Apart(f"model {config.name}", Rights.of(config, root, weights), serve, patience, kept) as process:
        word = process.ask()
        _meet(word)
        size = word.get("size")
        if not isinstance(size, int) or not 0 <= size <= _LARGEST:
            raise EndedError(f"{process.name}: its process makes {size!r} bytes, expected at most {_LARGEST}")
        return process.receive(size)


def _new_modules(before: frozenset[str]) -> list[str]:
    """Names of the modules that were imported since."""
    return [name[:200] for name in sorted(sys.modules.keys() - before)][:4000]


def _meet(word: dict[str, Any]) -> None:
    """Keep the names of modules that a process says it has imported."""
    if isinstance(modules := word.get("modules"), list):
        MET.update(name for name in modules if isinstance(name, str))


class ApartBackbone(Apart):
    """A model that is loaded, and embeds, in a process of its own; a callable from scenes to embeddings.

    Args:
        config: the model's config.
        contract: how scenes reach it, where a call says nothing else.
        trained: weights that a rule made.
        root: folder that its paths are relative to.
        hidden: folders and files that it never sees, beside the project's results.
        patience: seconds until an answer, PATIENCE unless given.
    """

    provenance: Provenance

    def __init__(
        self,
        config: ModelConfig,
        contract: Contract,
        *,
        trained: Path | None = None,
        root: str | Path = ".",
        hidden: tuple[Path, ...] = (),
        patience: float | None = None,
    ) -> None:
        root = Path(root).resolve()
        self._trained = trained.absolute() if trained else None
        self._weights = weights_file(config, root, self._trained)
        self._config, self._contract, self._root = config, contract, root
        rights = Rights.of(config, root, self._weights, hidden)
        super().__init__(f"model {config.name}", rights, self._answer_all, patience)

    def __enter__(self) -> Self:
        """Start it, and wait until the model is loaded; InputError says why it is not."""
        super().__enter__()
        try:
            self.provenance = self._introduced(self.ask())
        except BaseException:
            self.__exit__()
            raise
        return self

    def _introduced(self, word: dict[str, Any]) -> Provenance:
        """The provenance by the process's first word."""
        device, isolation = (str(word.get(key)) for key in ("device", "isolation"))
        if not re.fullmatch(r"[a-z]{1,16}", device) or isolation not in {"landlock", "none"}:
            raise EndedError(f"{self.name}: its process is on {device[:80]!r}, expected a device")
        _meet(word)
        return provenance_with(self._config, self._trained, device, isolation)

    def _answer_all(self, pipe: Connection, isolation: Isolation) -> None:
        before = frozenset(sys.modules)
        backbone, provenance = load_backbone(self._config, self._root, self._trained)
        tell(pipe, device=provenance.device, isolation=isolation, modules=_new_modules(before))
        with threadpool_limits(1):
            while True:
                question = pipe.recv()
                try:
                    if isinstance(question, Shown):
                        _send_rows(pipe, embed_batch(backbone, *question))
                    else:
                        scenes = {task: (own.iq, own.index) for task, own in question.items()}
                        contracts = {task: own.contract for task, own in question.items()}
                        cost = cost_of(self._config, backbone, provenance, scenes, {}, self._weights, contracts)
                        tell(pipe, cost=cost.model_dump(mode="json"))
                except InputError as error:
                    tell_fault(pipe, self.name, error)

    def __call__(self, iq: IQ, index: pa.Table, contract: Contract | None = None) -> Embeddings:
        """Embeddings ``[n, D]`` of scenes; of their index rows it is shown rate, carrier and reference symbol alone."""
        width = self.ask(Shown.of(iq, index, contract or self._contract)).get("width")
        if not isinstance(width, int) or not 0 <= width <= _WIDEST:
            raise EndedError(f"{self.name}: its process returns rows of {width!r} numbers, expected at most {_WIDEST}")
        rows = np.frombuffer(self.receive(4 * len(iq) * width), np.float32).reshape(len(iq), width)
        if not np.isfinite(rows).all():
            raise NotFiniteError(f"{self.name}: embed: NaN or infinity, expected finite values")
        return rows

    def cost(self, scenes: Mapping[TaskID, Shown]) -> Cost:
        """What it is and costs, counted there on scenes by task (``cost_of``), without what embeddings say."""
        name = f"{self.name}: cost"
        return parse(Cost, self.ask(dict(scenes)).get("cost"), name)


def _send_rows(pipe: Connection, rows: Embeddings) -> None:
    tell(pipe, width=rows.shape[1])
    if rows.size:
        pipe.send_bytes(rows.tobytes())
