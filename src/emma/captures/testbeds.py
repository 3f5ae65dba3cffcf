"""Thin layouts over the SigMF reader for three public testbeds; the layouts are assumed, and their names say so.

No published recording of these testbeds in such folders was at hand: check the layout of your own first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from emma.captures.sigmf import SigmfAdapter


class ColosseumAdapter(SigmfAdapter):
    """``SCENARIO/NODE/*.sigmf-meta``: the emulated scenario is the session; labels are the annotations'."""

    name = "colosseum_assumed"
    folder: ClassVar[str] = "*/*"

    def session(self, meta: Path, metadata: dict[str, Any]) -> str | None:
        """The scenario's folder."""
        del metadata
        return meta.parent.parent.name


class PowderAdapter(SigmfAdapter):
    """``DAY/TRANSMITTER/*.sigmf-meta``: the day is the session; without an own label, the transmitter is the label."""

    name = "powder_assumed"
    folder: ClassVar[str] = "*/*"

    def session(self, meta: Path, metadata: dict[str, Any]) -> str:
        """The day's folder."""
        del metadata
        return meta.parent.parent.name

    def label(self, meta: Path, annotation: dict[str, Any]) -> str | None:
        """The annotation's label, or the transmitter's folder."""
        label: str | None = annotation.get("core:label", meta.parent.name)
        return label


class CosmosAdapter(SigmfAdapter):
    """``EXPERIMENT/*.sigmf-meta``: the experiment is the session; labels are the annotations'."""

    name = "cosmos_assumed"
    folder: ClassVar[str] = "*"

    def session(self, meta: Path, metadata: dict[str, Any]) -> str:
        """The experiment's folder."""
        del metadata
        return meta.parent.name
