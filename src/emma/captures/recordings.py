"""Folders of raw IQ recordings with a labels.csv that states format, rate and label of each file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from numpy.typing import NDArray

from common.doors import files_below
from common.errors import InputError
from emma.captures.adapters import RecordingsAdapter
from emma.captures.cutting import Recording, Span
from emma.captures.formats import FORMATS, Format, is_text, read_wav
from emma.captures.tables import Row


class LabelledIqAdapter(RecordingsAdapter):
    """Raw files, or WAV files of I and Q, and ``labels.csv``; the label is in the column that ``mapping.column`` names.

    Where the table has no column ``format``, a file's suffix is its format; without a column ``session``, every file
    is a session.
    """

    name = "labelled_iq"
    converts: ClassVar = {
        "samples": "unsigned 8-bit pairs about 127.5 (cs8, ci16, cf32, WAV ...) to complex; unit mean power per scene",
        "rate": "polyphase resampling to the declared rate",
        "length": "the declared windows, between the declared start and trailer",
        "antennas": "interleaved channels, in their order",
    }
    cannot_give: ClassVar[tuple[str, ...]] = ("absolute power", "signal-to-noise ratio where the table has no snr_db")
    needs: ClassVar[str] = (
        "labels.csv with path, label, session, sample_rate_hz, center_freq_hz, and the files it names"
    )
    keys = RecordingsAdapter.keys | {"channels", "header_bytes"}
    #: columns of the table beside path and label
    columns: ClassVar[tuple[str, ...]] = ("sample_rate_hz", "center_freq_hz")

    def names(self) -> list[str]:
        """Paths of the table."""
        self._rows = {row["path"]: row for row in self.labels(self.column, *self.columns)}
        return [*self._rows]

    def astray(self) -> Iterator[str]:
        """Rows without a file, and files without a row."""
        for name in self._rows:
            try:
                self.inside(name)
            except InputError as error:
                yield str(error)
        for path in (path for path in files_below(self.root) if not is_text(path)):
            if path.relative_to(self.root).as_posix() not in self._rows:
                yield f"{path}: expected a label in labels.csv, found none"

    @property
    def column(self) -> str:
        """The label's column."""
        return self.entry.mapping.column or "label"

    def recording(self, name: str) -> Recording:
        """The file of a row, whose whole length carries the row's label."""
        row = self._rows[name]
        rate = self.number(row, "sample_rate_hz")
        kind, pairs = self.samples(row, rate)
        if "session" not in row:
            self.note("No column session: every file counts as one", name)
        return Recording(
            name,
            pairs,
            kind,
            rate,
            [Span(0, len(pairs), 0, len(pairs), row[self.column], self.number(row, "center_freq_hz", default=0.0))],
            row.get("session", name),
            row.get("device"),
            self.number(row, "snr_db") if "snr_db" in row else 0.0,
            {"group": row[self.column], "file": name},
        )

    def samples(self, row: Row, rate_hz: float) -> tuple[Format, NDArray[Any]]:
        """Format and stored numbers ``[samples, channels, 2]`` of a row's file."""
        name, source = row["path"], self.root / row["path"]
        suffix = name.rpartition(".")[2].lower()
        kind = row.get("format", "").lower() or suffix
        if kind not in {*FORMATS, "wav"}:
            expected = f"one of {', '.join(FORMATS)}, wav"
            raise InputError(f"{self.root / 'labels.csv'}: {name}: format {kind}, expected {expected}")
        if suffix in {*FORMATS, "wav"} and FORMATS.get(suffix) != FORMATS.get(kind):
            raise InputError(f"{self.root / 'labels.csv'}: {name}: format {kind} contradicts the file's suffix")
        data, shape = self.read(name), self.shape
        channels, header = (shape.channels, shape.header_bytes) if shape else (1, 0)
        if kind != "wav":
            return FORMATS[kind], FORMATS[kind].pairs(memoryview(data)[header:], channels, source)
        found, pairs, stated = read_wav(data, channels, source)
        if stated != rate_hz:
            raise InputError(f"{source}: {stated:.12g} Hz, but sample_rate_hz in labels.csv is {rate_hz:.12g}")
        return found, pairs


class MixedIqAdapter(LabelledIqAdapter):
    """Single captures of several formats and rates; the format is a column of the table, a file is a session."""

    name = "mixed_iq"
    cannot_give: ClassVar = (
        "which samples of a file hold the labelled emitter: every window carries the file's label",
        "a carrier where the table has none (written as 0)",
        "absolute power",
        "signal-to-noise ratio (snr_db is 0, snr_regime unknown)",
    )
    needs: ClassVar = LabelledIqAdapter.needs + ", with a column format"
    columns: ClassVar = (*LabelledIqAdapter.columns, "format")
