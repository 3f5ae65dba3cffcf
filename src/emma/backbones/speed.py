"""How fast a backbone embeds on one machine, and in how much memory: measured, so in no hash and on no board."""

from __future__ import annotations

import contextlib
import platform
import resource
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pyarrow as pa

from emma.backbones.base import IQ, Backbone
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import Contract
from emma.tasks import Strict, TaskID

#: Scenes that a task is measured on, and the seconds after which it is told from fewer.
SCENES, SECONDS = 256, 2.0

NOTE = (
    "Measured on one machine, one thread and one process per model, after one batch to warm up. Other machines give "
    "other numbers; no hash and no score rests on these."
)

#: Libraries whose versions are told.
_LIBRARIES = ("numpy", "scipy", "torch", "onnxruntime")


class TaskSpeed(Strict):
    """Scenes per second of a task, and the most memory that the process held meanwhile, libraries included."""

    scenes: int
    scenes_per_second: float
    peak_memory_mib: float
    peak_gpu_memory_mib: float | None


class Speed(Strict):
    """One model: what it ran on, the seconds that loading took, and its tasks."""

    device: str
    load_seconds: float
    libraries: dict[str, str]
    tasks: dict[TaskID, TaskSpeed]


class SpeedReport(Strict):
    """``results/reports/speed.json``."""

    note: str
    machine: str
    python: str
    models: dict[str, Speed]


def measure(backbone: Backbone, iq: IQ, index: pa.Table, contract: Contract) -> TaskSpeed:
    """Embed scenes as the workflow does, and time it.

    Args:
        backbone: the model.
        iq: complex64 ``[n, A, T]``.
        index: their index rows.
        contract: how they reach the model.
    """
    size = contract.batch_size
    embed_batch(backbone, iq[:size], index.slice(0, size), contract)
    _forget_peaks()
    done, start = 0, time.perf_counter()
    while done < len(iq) and (not done or time.perf_counter() - start < SECONDS):
        batch = iq[done : done + size]
        embed_batch(backbone, batch, index.slice(done, size), contract)
        done += len(batch)
    seconds = time.perf_counter() - start
    return TaskSpeed(
        scenes=done,
        scenes_per_second=float(f"{done / seconds:.3g}"),
        peak_memory_mib=round(_peak_mib(), 1),
        peak_gpu_memory_mib=_peak_gpu_mib(),
    )


def libraries() -> dict[str, str]:
    """Versions of the numerical libraries that this process has loaded."""
    return {name: metadata.version(name) for name in _LIBRARIES if name in sys.modules}


def machine() -> str:
    """The processor, as the system names it."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def speed_report(models: Mapping[str, Speed]) -> SpeedReport:
    """The report of this machine."""
    return SpeedReport(note=NOTE, machine=machine(), python=platform.python_version(), models=dict(models))


def _forget_peaks() -> None:
    """Begin anew with the peaks of memory; where the system cannot, they are those since the process began."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _peak_mib() -> float:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _peak_gpu_mib() -> float | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return round(float(torch.cuda.max_memory_allocated()) / 2**20, 1)
