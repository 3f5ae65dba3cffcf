"""EMMA: Electromagnetic Multi-task Model Assessment, which scores frozen radio backbones by transfer.

Names are imported when they are first used, so that ``import emma`` costs nothing and a program loads what it needs.
"""

import importlib
from typing import TYPE_CHECKING, Any

from emma import version

if TYPE_CHECKING:
    from emma.captures.adapters import RealCaptureAdapter
    from emma.captures.gap import SimToRealGap
    from emma.data.folds import SplitNotAvailable
    from emma.data.protocols import (
        LeaveOneBandOut,
        LeaveOneEnvironmentOut,
        LeaveOneReceiverOut,
        LeaveOneSNRRegimeOut,
        LeaveOneUnitOut,
        LeaveOneWaveformOut,
        OODProtocol,
    )
    from emma.data.release import DataReleaseManifest
    from emma.metrics import *  # noqa: F403
    from emma.results.aggregate import Aggregator, OODAvg
    from emma.results.evaluator import EvalRun, Evaluator, ProtocolRunner
    from emma.results.manifest import RunManifest
    from emma.tasks import OODAxis, Split, TaskID, TaskSpec


__version__ = version.HARNESS_VERSION

_HOME = {
    "tasks": ("TaskID", "TaskSpec", "OODAxis", "Split"),
    "data.protocols": (
        "OODProtocol",
        "LeaveOneEnvironmentOut",
        "LeaveOneUnitOut",
        "LeaveOneBandOut",
        "LeaveOneSNRRegimeOut",
        "LeaveOneWaveformOut",
        "LeaveOneReceiverOut",
    ),
    "data.folds": ("SplitNotAvailable",),
    "results.evaluator": ("ProtocolRunner", "Evaluator", "EvalRun"),
    "results.manifest": ("RunManifest",),
    "data.release": ("DataReleaseManifest",),
    "results.aggregate": ("Aggregator", "OODAvg"),
    "captures.gap": ("SimToRealGap",),
    "captures.adapters": ("RealCaptureAdapter",),
}
_MODULE_OF = {name: f"emma.{module}" for module, names in _HOME.items() for name in names}
#: Every other public name is one that this package exports, so that a metric is added without an edit here.
_OTHERS = "emma.metrics"


def module_of(name: str) -> str:
    """The module that a public name is imported from."""
    return _MODULE_OF.get(name, _OTHERS)


def __getattr__(name: str) -> Any:
    """Import a public name from its module, or the package of public functions, on first use."""
    if name == "results":
        # Written so that code identity does not take every program's ``import emma`` for an import of it.
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__all__":
        return sorted({*_MODULE_OF, *importlib.import_module(_OTHERS).__all__})
    module = None if name.startswith("_") else importlib.import_module(module_of(name))
    if module is None or name not in getattr(module, "__all__", (name,)):
        raise AttributeError(f"module emma has no attribute {name}")
    return getattr(module, name)


def __dir__() -> list[str]:
    """The public names, and what modules have."""
    return sorted({*globals(), *__getattr__("__all__")})
