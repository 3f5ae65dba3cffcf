"""A model's run, the leaderboard, and both as tidy tables: ``emma.results.load("results")``."""

import importlib

__all__ = ["load"]  # noqa: F822 (found by __getattr__)


def __getattr__(name: str) -> object:
    """Import ``load`` on first use, so that no job depends on it for being in this package."""
    if name not in __all__:
        raise AttributeError(f"module emma.results has no attribute {name}")
    return getattr(importlib.import_module("emma.results.frames"), name)
