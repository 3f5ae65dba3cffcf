"""EMMA: Electromagnetic Multi-task Model Assessment, which scores frozen radio backbones by transfer.

Names are imported when they are first used, so that ``import emma`` costs nothing and a program loads what it needs.
"""

import importlib

__version__ = "0.1.0"

_HOME = {
    "tasks": ("TaskID", "TaskSpec", "OODAxis", "Split"),
    "data.protocols": (
        "OODProtocol",
        "LeaveOneEnvironmentOut",
        "LeaveOneUnitOut",
        "LeaveOneBandOut",
        "LeaveOneSNRRegimeOut",
        "SplitNotAvailable",
    ),
    "results.evaluator": ("ProtocolRunner", "Evaluator", "EvalRun"),
    "results.manifest": ("RunManifest",),
    "data.release": ("DataReleaseManifest",),
    "metrics": ("Metric", "METRICS"),
    "results.aggregate": ("Aggregator", "OODAvg"),
    "captures.gap": ("SimToRealGap",),
    "captures.adapters": ("RealCaptureAdapter",),
}
_MODULE_OF = {name: f"emma.{module}" for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 (the list is the table above)


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module emma has no attribute {name}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)
