"""Checks of what people read of the board: the page, tables and figures, drawn again from the board."""

from __future__ import annotations

import importlib.metadata
import zlib
from pathlib import Path

from common.doors import read_bytes
from common.errors import InputError
from common.files import parse
from emma.audit.verify.base import Check
from emma.audit.verify.levels import Level
from emma.audit.verify.results import Results
from emma.results.probes import ProbesReport
from emma.results.records import Board

#: Libraries that decide the bytes of what is drawn, as the lock names them.
DRAWING = ("altair", "vl-convert-python", "Jinja2", "MarkupSafe", "pandas")

_TEXTS = ("html", "md", "tex", "appendix.tex", "bib")

#: What Snakemake leaves in a folder that is an output.
_TIMESTAMP = ".snakemake_timestamp"


class Page(Check):
    """Page, Markdown, both LaTeX files, BibTeX and every figure are those that the board gives, byte for byte."""

    name = "page"

    def run(self, results: Results) -> None:
        """Draw all of them again; where the libraries are not those of the lock, other bytes are no fault."""
        layout = results.layout
        texts = [layout.board_as(kind) for kind in _TEXTS]
        shown = {path.name for path in layout.figures.iterdir()} if layout.figures.is_dir() else set()
        shown -= {_TIMESTAMP}
        self._probes(results)
        if not shown and not any(path.exists() for path in texts):
            self.note = "not built"
            return
        locked = _locked(results.project)
        with self.item(layout.board):
            self.checked -= 1
            expected, figures = self._again(results)
            for kind, path in zip(_TEXTS, texts, strict=True):
                self._same(path, expected[kind], locked)
            for name in sorted({*figures, *shown}):
                if name not in figures:
                    self.fault(layout.figures / name, "is no figure of this board")
                else:
                    self._same(layout.figures / name, figures[name], locked)

    def _same(self, path: Path, expected: bytes, locked: bool) -> None:
        with self.item(path):
            if not path.is_file():
                self.fault(path, "no such file, although others of the page are here")
            elif read_bytes(path) != expected:
                if locked:
                    self.fault(path, "differs from what the board gives")
                else:
                    self.miss("pages and figures that other versions of libraries drew", Level.CONSISTENT)

    @staticmethod
    def _again(results: Results) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """The texts by kind and the figures by file name."""
        from emma.report.captures import read_report
        from emma.report.drawing import build_figures, images
        from emma.report.latex import texts
        from emma.report.page import build_page
        from emma.report.probes import read_probes

        board = parse(Board, results.document(results.layout.board), results.layout.board)
        report = None if results.sim_to_real() is None else read_report(results.gap_report, board)
        # A page shows the probes or not: its config chose, and its figures tell.
        path = results.layout.report("probes")
        probed = any(results.layout.figures.glob("label_efficiency_*"))
        probes = read_probes(path, board) if probed else None
        drawn = build_figures(board, results.manifest(), report, probes)
        written = {"html": build_page(board, drawn, report), **texts(board)}
        return {kind: text.encode() for kind, text in written.items()}, images(
            drawn, [row.model for row in board.models]
        )

    def _probes(self, results: Results) -> None:
        """The probe report follows from the probes, and its figure from the report; no probe is fit again."""
        path = results.layout.report("probes")
        if not path.is_file():
            return
        import vl_convert

        from emma.report.probes import curves
        from emma.results.probes import probes_report

        self.miss("probes not fit again")
        with self.item(path):
            report = parse(ProbesReport, results.document(path), path)
            probes = [results.layout.probes(model) for model in report.models]
            if all(probe.is_file() for probe in probes):
                self.compare(path, report, probes_report(results.manifest(), probes))
            figure = vl_convert.vegalite_to_svg(curves(report)).encode()
            self._same(results.layout.report("probes", "svg"), figure, _locked(results.project))


def _locked(project: Path | None) -> bool:
    """Whether the libraries that draw are those of the project's lock; taken as such where it has none.

    They are not where Python packs by zlib-ng, which writes other bytes than zlib for the same content.
    """
    if "ng" in zlib.ZLIB_RUNTIME_VERSION:
        return False
    path = None if project is None else project / "envs" / "requirements.txt"
    if path is None or not path.is_file():
        return True
    try:
        lines = path.read_text(encoding="utf-8").lower().split()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read, expected pinned libraries") from None
    pins = dict(line.partition("==")[::2] for line in lines if "==" in line)
    found = {name: importlib.metadata.version(name) for name in DRAWING}
    return all(pins.get(name.lower(), version) == version for name, version in found.items())
