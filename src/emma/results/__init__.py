"""A model's run, the leaderboard, and both as tidy tables: ``emma.results.load("results")``, and as charts (``plots``).

Programs of the workflow import ``emma.results.frames`` itself: the names here are for notebooks, and hide those modules
from the code identity of whatever else imports from this package.
"""

import importlib
from typing import Any

_HOME = {"load": "frames"}

__all__ = ["load", "plots"]  # noqa: F822 (found by __getattr__)


def __getattr__(name: str) -> Any:
    """Import a public name from its module, or the module of charts, on first use."""
    if name == "plots":
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
