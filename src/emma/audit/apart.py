"""A backbone in a process of its own, within limits of memory and time, so that nothing it does reaches a verdict.

``python -m emma.audit.apart FOLDER`` is that process. It finds ``job.pickle``, which the verifier wrote, and leaves
plain numbers and JSON: what comes back is bounded, and never unpickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import NonNegativeInt

import emma
from common.errors import InputError
from common.files import parse, parse_json
from emma.backbones.base import IQ
from emma.backbones.config import ModelConfig
from emma.backbones.inputs import Contract
from emma.data.costs import Cost
from emma.tasks import Strict, TaskID

#: Bytes that a backbone may hold beside files that it maps, and bytes of a file that it may write.
MEMORY, LARGEST_FILE = 2**34, 2**32
#: Seconds that it may take: to load, and per scene.
SECONDS, PER_SCENE = 600.0, 2.0

_JOB, _ANSWER, _SAID, _LONGEST = "job.pickle", "answer.json", "stderr", 2**20


class Counting(NamedTuple):
    """Scenes of a task to count a model's operations on, complex64 ``[n, A, T]``, with their index rows."""

    iq: IQ
    index: pa.Table
    contract: Contract


@dataclass(frozen=True)
class Job:
    """What to do with a backbone.

    Attributes:
        config: its config.
        root: the folder that its paths and modules are relative to.
        weights: weights that a rule made.
        parts: files of pickled (index rows, complex64 ``[n, A, T]``), each with the contract to embed it by.
        scenes: how many scenes they hold.
        counted: by task, what to count its cost on; nothing for no cost.
    """

    config: ModelConfig
    root: Path
    weights: Path | None
    parts: Sequence[tuple[Path, Contract]]
    scenes: int
    counted: Mapping[TaskID, Counting]


@dataclass(frozen=True)
class Answer:
    """What a backbone gave: float32 ``[n, width]`` for each part, or why it gave none; its device, and its cost."""

    embeddings: tuple[NDArray[np.float32] | str, ...]
    device: str
    cost: dict[str, Any] | str | None


def ask(job: Job, seconds: float | None = None, memory: int = MEMORY) -> Answer:
    """Load a backbone in a process of its own and have it embed.

    Args:
        job: what to do.
        seconds: the time that it may take; by default SECONDS and PER_SCENE.
        memory: the bytes that it may hold.

    Raises:
        InputError: the backbone cannot be loaded, its process ended before it answered or ran past a limit, or its
            answer is none.
    """
    name = job.config.name
    seconds = SECONDS + PER_SCENE * job.scenes if seconds is None else seconds
    with tempfile.TemporaryDirectory(prefix="emma-") as place:
        folder = Path(place)
        (folder / _JOB).write_bytes(pickle.dumps((job, memory)))
        source = str(Path(emma.__file__).parents[1])
        environment = {key: value for key, value in os.environ.items() if not key.startswith("EMMA_")}
        # Not the folder it starts in, nor what the reader's environment adds, comes first on the path of modules.
        command = [sys.executable, "-P", "-m", "emma.audit.apart", str(folder)]
        with (folder / _SAID).open("wb") as said:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment | {"PYTHONPATH": source},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise InputError(f"model {name}: its process ran past {seconds:.0f} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return _read(folder, job, status)


def _read(folder: Path, job: Job, status: int) -> Answer:
    """The answer in a folder; InputError where it is not one to the job."""
    name, path = job.config.name, folder / _ANSWER
    if not path.is_file() or path.is_symlink() or path.stat().st_size > _LONGEST:
        raise InputError(f"model {name}: its process ended with status {status} before it answered{_last(folder)}")
    found = parse(_Given, parse_json(path.read_bytes(), f"model {name}: answer"), f"model {name}: answer")
    if found.refused is not None or found.device is None:
        raise InputError(found.refused or f"model {name}: answer: device: missing")
    if len(found.parts) != len(job.parts):
        raise InputError(f"model {name}: answer: {len(found.parts)} parts, expected {len(job.parts)}")
    read = (_values(folder / f"{number}.f32", shape, name) for number, shape in enumerate(found.parts))
    return Answer(tuple(read), found.device, found.cost)


class _Given(Strict):
    """What the process leaves: why it loaded no backbone; or each part's shape, or why there is none."""

    refused: str | None = None
    parts: tuple[tuple[NonNegativeInt, NonNegativeInt] | str, ...] = ()
    device: str | None = None
    cost: dict[str, Any] | str | None = None


def _last(folder: Path) -> str:
    """The last line that the process wrote on stderr, in brackets."""
    with (folder / _SAID).open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 2000, 0))
        lines = file.read().decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f" ({last[:200]})" if last else ""


def _values(path: Path, shape: tuple[int, int] | str, name: str) -> NDArray[np.float32] | str:
    """Numbers of a part, or why there are none; InputError where the file does not hold as many as its shape says."""
    if isinstance(shape, str):
        return shape
    if not path.is_file() or path.is_symlink() or path.stat().st_size != 4 * shape[0] * shape[1]:
        raise InputError(f"model {name}: answer: expected float32 {list(shape)}")
    values = np.fromfile(path, "<f4").reshape(shape)
    return values if np.isfinite(values).all() else "NaN or infinity, expected finite values"


def main() -> None:
    """Be that process: set the limits, load the backbone, embed every part, count the cost."""
    folder = Path(sys.argv[1])
    job, memory = pickle.loads((folder / _JOB).read_bytes())
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from common.threads import one_thread

    with one_thread():
        try:
            answer = _embedded(job, folder)
        except InputError as error:
            answer = {"refused": str(error)}
    (folder / _ANSWER).write_text(json.dumps(answer))


def _embedded(job: Job, folder: Path) -> dict[str, Any]:
    from emma.backbones.embed import embed_batch
    from emma.backbones.load import load_backbone

    backbone, provenance = load_backbone(job.config, job.root, job.weights)
    shapes: list[list[int] | str] = []
    for number, (path, contract) in enumerate(job.parts):
        index, iq = pickle.loads(path.read_bytes())
        try:
            values = embed_batch(backbone, iq, index, contract)
        except InputError as error:
            shapes.append(str(error))
            continue
        values.astype("<f4").tofile(folder / f"{number}.f32")
        shapes.append(list(values.shape))
    return {"parts": shapes, "device": provenance.device, "cost": _cost(job, backbone, provenance)}


def _cost(job: Job, backbone: Any, provenance: Any) -> dict[str, Any] | str | None:
    from emma.backbones.cost import cost_of
    from emma.backbones.load import weights_file

    if not job.counted:
        return None
    file = weights_file(job.config, job.root, job.weights)
    scenes = {task: (own.iq, own.index) for task, own in job.counted.items()}
    contracts = {task: own.contract for task, own in job.counted.items()}
    try:
        cost: Cost = cost_of(job.config, backbone, provenance, scenes, {}, file, contracts)
    except InputError as error:
        return str(error)
    return cost.model_dump(mode="json")


if __name__ == "__main__":
    main()
