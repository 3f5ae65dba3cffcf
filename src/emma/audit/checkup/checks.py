"""The checks of a backbone, one per class, in the order in which a fault of one explains those of the next."""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from common.errors import InputError
from emma.audit.checkup.base import Blocked, Check, Doubt, Handed, Subject, TaskCheck
from emma.backbones.alone import ALONE, ALONE_ON_GPU, moved_columns
from emma.backbones.base import Embeddings
from emma.backbones.cost import count_macs, count_parameters
from emma.backbones.dense import row_width
from emma.backbones.embed import NotFiniteError
from emma.backbones.features import DISTINCT, Spread
from emma.backbones.sight import unseen
from emma.data.provenance import Pretraining, with_sets
from emma.readouts import make_readout
from emma.results.runs import met_in_pretraining
from emma.tasks import TaskID

_GAIN_DB = 20.0

#: A change with the gain below this, of the largest value, is none.
_UNMOVED = 1e-4

#: A level, or a number of samples per symbol, that is off by more than this factor is far from what was declared.
FAR = 2.0


class Loads(Check):
    """The config's factory or file gives a backbone."""

    name = "loads"

    def look(self, subject: Subject) -> str:
        """Load it, and time that."""
        start = time.perf_counter()
        backbone = subject.load()
        seconds = time.perf_counter() - start
        width = backbone.embedding_dim
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 0:
            raise InputError(f"embedding_dim: expected a whole number from 0 on, found {width!r}")
        subject.backbone = backbone
        told = f"{subject.config.factory or subject.config.onnx} in {seconds:.1f} s"
        if subject.config.device != "cpu" and subject.provenance is not None:
            told += f" on {subject.provenance.device}"
        if (head := getattr(backbone, "head", None)) is not None and subject.config.onnx and head.kind == "softmax":
            told += f"; its output is a softmax: output: {head.hidden.name} takes the layer before the last"
        return told


class Weights(Check):
    """The weights are those that the config pins."""

    name = "weights"

    def look(self, subject: Subject) -> str:
        """Their SHA-256, which loading has compared."""
        _ = subject.backbone
        digest = None if subject.provenance is None else subject.provenance.weights_sha256
        if digest is None:
            return "none: what the model is, its code and options say"
        pinned = "as pinned" if subject.config.weights_sha256 else "made by its pretrain rule"
        return f"SHA-256 {digest[:16]}… {pinned}"


class Shape(TaskCheck):
    """Scenes fit the contract, and the answer is float32 ``[scenes, embedding_dim]``."""

    name = "shape and dtype"

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Embed the scenes once."""
        answer = subject.answer(task)
        if isinstance(answer, NotFiniteError):
            raise Blocked(f"{task} has values that are not finite")
        if isinstance(answer, InputError):
            raise answer
        return f"float32 {list(answer.shape)}"


class Capacity(TaskCheck):
    """Width and head are within what the tasks pin."""

    name = "width and head"

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Compare with the caps of a task."""
        sample, readout = subject.samples[task], make_readout(subject.specs[task])
        width = row_width(sample.contract(subject.config), subject.backbone.embedding_dim, sample.iq.shape)
        readout.check_capacity(width)
        count = readout.parameters(readout.fitted_width(width))
        return f"{count:,} of {readout.spec.max_parameters:,} parameters"


class Finite(TaskCheck):
    """Values are finite: of the scenes, and of silence, a constant and one impulse, which captures can hold."""

    name = "finite"

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Embed the scenes and three odd ones."""
        sample = subject.samples[task]
        if isinstance(subject.answer(task), NotFiniteError):
            raise InputError("NaN or infinity, expected finite values")
        _ = subject.rows(task)
        odd = np.zeros((3, *sample.iq.shape[1:]), np.complex64)
        odd[1], odd[2, :, 0] = 1, 1
        for name, iq in zip(("silence", "a constant", "an impulse"), odd, strict=True):
            try:
                subject.embed(sample.with_iq(iq[None], [0]))
            except NotFiniteError:
                raise InputError(f"NaN or infinity of {name}, expected finite values") from None
        return "scenes, silence, a constant and an impulse"


class Deterministic(TaskCheck):
    """The same scenes give the same bytes, from this backbone and from one that is loaded anew."""

    name = "deterministic"

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Embed twice more."""
        rows, sample = subject.rows(task), subject.samples[task]
        for backbone, which in ((subject.backbone, "second call"), (subject.load(), "model loaded anew")):
            again = subject.embed(sample, backbone=backbone)
            if again.tobytes() != rows.tobytes():
                raise InputError(f"a {which} differs by {_moved(again, rows):.1e} of the largest value, expected 0")
        return "the same bytes twice and loaded anew"


class Alone(TaskCheck):
    """A row depends on its own scene: not on the batch, the order or the neighbours."""

    name = "each scene alone"

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Embed one by one, in reverse, and among other neighbours."""
        rows, sample = subject.rows(task), subject.samples[task]
        order = np.arange(len(rows))[::-1]
        others = sample.iq.copy()
        others[1::2] = 100 * others[1::2].conj()[:, :, ::-1]
        variants = {
            "one by one": (subject.embed(sample, 1), rows),
            "in reverse": (subject.embed(sample.with_iq(sample.iq[order], order))[order], rows),
            "among other scenes": (subject.embed(sample.with_iq(others))[::2], rows[::2]),
        }
        spread = Spread()
        spread.add(rows)
        moved = {
            name: float(moved_columns(*both, spread).max(initial=0.0)) if rows.size else 0.0
            for name, both in variants.items()
        }
        name = max(moved, key=lambda variant: moved[variant])
        on_gpu = subject.provenance is not None and subject.provenance.device != "cpu"
        if not moved[name] <= (most := ALONE_ON_GPU if on_gpu else ALONE):
            told = f"{moved[name]:.1e} of a column's standard deviation, expected at most {most:.0e}"
            raise InputError(f"{name}, a row moves by {told}")
        return f"within {10.0 ** np.ceil(np.log10(moved[name])):.0e}" if moved[name] else "exactly, but for rounding"


class Dependent(TaskCheck):
    """Different scenes have different embeddings."""

    name = "depends on the scene"

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Compare rows."""
        rows = subject.rows(task).astype(np.float64)
        if not rows.shape[1]:
            return "no features, as declared"
        if len(rows) < 2:
            return "one scene alone, nothing to compare"
        spread = np.abs(rows - rows[0]).max(axis=0)
        if not spread.max() > DISTINCT * np.abs(rows).max():
            raise InputError("all scenes have the same embedding")
        varied = int((spread > DISTINCT * np.maximum(np.abs(rows).max(axis=0), 1e-30)).sum())
        return f"{varied} of {rows.shape[1]} features vary"


class Features(TaskCheck):
    """No feature is constant, and none is so much larger than the others that something has overflowed."""

    name, informs = "features", True

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Their spread over the scenes."""
        rows = subject.rows(task)
        spread = Spread()
        spread.add(rows)
        if faults := spread.faults():
            raise Doubt(", ".join(faults))
        return "none dead, none far larger than the others"


class Expected(TaskCheck):
    """The level and the samples per symbol are near those that the config says the model was trained on."""

    name, informs = "expected input", True

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """What the model is handed, against ``expects``."""
        _ = subject.rows(task)
        if (expects := subject.config.expects) is None:
            return "nothing declared (see expects)"
        heard = Handed(subject.backbone)
        subject.embed(subject.samples[task], backbone=heard)
        told: list[str] = []
        far: list[str] = []
        if expects.rms is not None:
            times = heard.rms / expects.rms
            text = f"level {heard.rms:.3g} rms, {_decibels(times)} from the declared {expects.rms:.3g}"
            (told if 1 / FAR <= times <= FAR else far).append(f"{text} (see normalise and gain_db)")
        if expects.samples_per_symbol is not None and (made := subject.samples_per_symbol(task)) is not None:
            scale = heard.sample_rate_hz / float(subject.samples[task].index["sample_rate_hz"][0].as_py())
            low, high = made[0] * scale, made[1] * scale
            text = f"{low:.3g} to {high:.3g} samples per symbol, declared {expects.samples_per_symbol:.3g}"
            near = low / FAR <= expects.samples_per_symbol <= high * FAR
            (told if near else far).append(f"{text} (see sample_rate_hz)")
        if far:
            raise Doubt("; ".join(far))
        return "; ".join(told) or "nothing to compare"


class Costs(TaskCheck):
    """Parameters, and multiply-accumulates per scene."""

    name, informs = "cost", True

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Count one batch."""
        _ = subject.rows(task)
        sample = subject.samples[task]
        macs, reason = count_macs(subject.backbone, sample.iq, sample.index, sample.contract(subject.config))
        told = f"{macs:,} multiply-accumulates per scene" if macs is not None else f"operations unknown ({reason})"
        return f"{count_parameters(subject.backbone, subject.weights):,} parameters, {told}"


class PowerSensitive(TaskCheck):
    """How far the embedding follows the scenes' random gain, which carries no information."""

    name, informs = "gain", True

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """Embed the scenes at 20 dB more."""
        rows, sample = subject.rows(task), subject.samples[task]
        louder = subject.embed(sample.with_iq((sample.iq * np.float32(10 ** (_GAIN_DB / 20))).astype(np.complex64)))
        moved = _moved(louder, rows)
        if moved <= _UNMOVED:
            return f"{_GAIN_DB:g} dB more change nothing"
        return f"{_GAIN_DB:g} dB more move it by {moved:.0%} of the largest value (scenes carry a random gain)"


class Antennas(Check):
    """Whether the model sees what lies between antennas, where a task asks for it."""

    name, informs = "antennas", True

    def look(self, subject: Subject) -> str:
        """By the contract alone."""
        text = unseen(subject.config, {task: subject.specs[task] for task in subject.samples})
        return text or ("one at a time" if subject.config.sees_one_antenna else "as declared, together or side by side")


class Speed(TaskCheck):
    """Scenes per second on this machine."""

    name, informs = "speed", True

    def look_at(self, subject: Subject, task: TaskID) -> str:
        """The best of three calls, or of those that two seconds allow."""
        _ = subject.rows(task)
        sample, best, start = subject.samples[task], np.inf, time.perf_counter()
        for _ in range(3):
            begun = time.perf_counter()
            subject.embed(sample)
            best = min(best, time.perf_counter() - begun)
            if time.perf_counter() - start > 2:
                break
        return f"{len(sample.iq) / best:.3g} scenes/s"


class Memory(Check):
    """Most memory that this program has held."""

    name, informs = "peak memory", True

    def look(self, subject: Subject) -> str:
        """Of the process, and of the GPU where the model runs on one."""
        _ = subject.backbone
        text = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB, libraries included"
        on_gpu = subject.provenance is not None and subject.provenance.device == "cuda"
        if on_gpu and (torch := sys.modules.get("torch")) is not None:
            text += f"; {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB by torch on the GPU"
        return text


class Declared(Check):
    """What pretraining saw is declared; the board marks every held-out value that it met."""

    name, informs = "pretraining", True

    def look(self, subject: Subject) -> str:
        """The declaration, and the held-out values among it."""
        declared = with_sets(subject.config.pretraining, subject.recipe)
        if declared == "unknown":
            return "unknown: the board says so beside every held-out value"
        met = [
            f"{task} {value}"
            for task in subject.samples
            for value in subject.specs[task].held_out
            if met_in_pretraining(declared, {subject.specs[task].ood_axis: value})
        ]
        if met:
            return f"met {', '.join(met)}"
        if isinstance(declared, Pretraining) and declared.declares:
            return "declared, no held-out value among it: the board says so"
        return "declared as having seen nothing"


class LabelFree(Check):
    """The model has samples, rate and carrier alone: it opened no table, result, network or process."""

    name = "label-free"

    def look(self, subject: Subject) -> str:
        """What was opened in every call until now."""
        _ = subject.backbone
        if subject.reached:
            raise InputError(f"opened {'; '.join(dict.fromkeys(subject.reached))}")
        told = "given samples, rate and carrier alone; opened no table, result, network or process"
        return told + (", as far as Python hears" if subject.isolation == "none" else ", and could not (Landlock)")


CHECKS: tuple[type[Check], ...] = (
    Loads,
    Weights,
    Shape,
    Capacity,
    Finite,
    Deterministic,
    Alone,
    Dependent,
    Features,
    Expected,
    PowerSensitive,
    Costs,
    Antennas,
    Speed,
    Memory,
    Declared,
    LabelFree,
)


def _moved(actual: Embeddings, rows: Embeddings) -> float:
    """The largest difference, relative to the largest value."""
    if not rows.size:
        return 0.0
    return float(np.abs(actual.astype(np.float64) - rows).max() / max(np.abs(rows).max(), 1e-30))


def _decibels(times: float) -> str:
    return f"{round(20 * np.log10(max(times, 1e-30))):+d} dB"
