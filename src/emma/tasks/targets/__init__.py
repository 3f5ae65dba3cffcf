"""Targets: one class per kind of label. A module in this folder adds its targets; nothing lists them elsewhere."""

import importlib
import pkgutil

from emma.tasks.targets.base import TARGETS, Target

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = ["TARGETS", "Target"]
