"""What SigMF indices mean: captures as segments of one stream at one carrier, annotations as spans of samples.

Indices are absolute: the dataset's first sample has the index `core:offset` (SigMF 1.2, global object). A capture's
`core:frequency` holds for that capture alone, and its `core:global_index` counts samples where the receiver saw them.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.errors import InputError
from emma.captures.cutting import Span

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Segment:
    """Samples ``start`` to ``stop`` of a dataset, one capture, at ``carrier_hz`` (None where it is not stated).

    ``low`` to ``high`` are the captures about it that go on without a break; ``ends`` says what comes at ``high``.
    """

    start: int
    stop: int
    low: int
    high: int
    carrier_hz: float | None
    ends: str


def segments(metadata: Mapping[str, Any], data: bytes, width: int, where: str) -> tuple[list[Segment], bytes]:
    """Segments of a dataset in their order, and its samples without headers and trailer.

    Args:
        metadata: global, captures and annotations.
        data: the dataset's file.
        width: bytes of one sample of all channels.
        where: the recording, in messages.

    Raises:
        InputError: part of a sample; a capture before ``core:offset`` or beyond the end.
    """
    head = metadata["global"]
    offset = head.get("core:offset", 0)
    captures = metadata.get("captures") or [{"core:sample_start": offset}]
    headers = [capture.get("core:header_bytes", 0) for capture in captures]
    size = len(data) - sum(headers) - head.get("core:trailing_bytes", 0)
    if size <= 0 or size % width:
        beside = " beside headers and trailer" if size != len(data) else ""
        raise InputError(f"{where}: {size} bytes{beside}, expected whole samples of {width} bytes each")
    starts = [capture["core:sample_start"] - offset for capture in captures]
    bounds = [*starts, size // width]
    if starts[0] < 0 or starts[-1] >= bounds[-1]:
        raise InputError(
            f"{where}: captures: core:sample_start {starts[0] + offset} to {starts[-1] + offset}, expected within "
            f"{offset} (core:offset) to {bounds[-1] + offset}, since indices are absolute"
        )
    pieces, at = [data[: starts[0] * width]], starts[0] * width
    for start, stop, header in zip(starts, bounds[1:], headers, strict=True):
        pieces.append(data[at + header : at + header + (stop - start) * width])
        at += header + (stop - start) * width
    return _streams(captures, bounds), b"".join(pieces) if sum(headers) else data[:size]


def _streams(captures: Sequence[Object], bounds: Sequence[int]) -> list[Segment]:
    breaks = ["", *itertools.starmap(_break, itertools.pairwise(captures)), ""]
    edges = [0, *(i for i in range(1, len(captures)) if breaks[i]), len(captures)]
    return [
        Segment(
            bounds[i], bounds[i + 1], bounds[first], bounds[after], captures[i].get("core:frequency"), breaks[after]
        )
        for first, after in itertools.pairwise(edges)
        for i in range(first, after)
    ]


def _break(before: Object, after: Object) -> str:
    """What breaks the stream between two captures, empty where nothing does."""
    carriers = before.get("core:frequency"), after.get("core:frequency")
    if carriers[0] != carriers[1]:
        return f"a retune (core:frequency {carriers[0]} to {carriers[1]})"
    start = after["core:sample_start"] - before["core:sample_start"]
    seen = _global_index(after) - _global_index(before)
    return "" if start == seen else f"a gap (core:global_index goes on by {seen} over {start} samples)"


def _global_index(capture: Object) -> int:
    index: int = capture.get("core:global_index", capture["core:sample_start"])
    return index


def spans(metadata: Mapping[str, Any], parts: Sequence[Segment], labels: Sequence[str], where: str) -> list[Span]:
    """The samples of annotations; one without ``core:sample_count`` ends with its capture.

    Raises:
        InputError: outside the dataset, across a retune or a gap, or two on the same samples, unless their frequency
            edges are apart.
    """
    offset = metadata["global"].get("core:offset", 0)
    found: list[Span] = []
    starts = [part.start for part in parts]
    for annotation, label in zip(metadata["annotations"], labels, strict=True):
        first = annotation["core:sample_start"]
        # Captures that start at one sample are empty but for the last of them.
        part = parts[max(bisect.bisect_right(starts, first - offset) - 1, 0)]
        begin, end = parts[0].start + offset, parts[-1].stop + offset
        if not part.start <= first - offset < part.stop:
            raise InputError(f"{where}: annotations: sample {first}, expected within the captures' {begin} to {end}")
        last = first + annotation.get("core:sample_count", part.stop + offset - first)
        if not first < last <= end:
            raise InputError(
                f"{where}: annotations: samples {first} to {last}, expected within the captures' {begin} to {end}"
            )
        if last - offset > part.high:
            raise InputError(
                f"{where}: annotations: samples {first} to {last}: across {part.ends} at {part.high + offset}, "
                "expected an annotation on either side"
            )
        found.append(Span(first - offset, last - offset, part.low, part.high, label, part.carrier_hz))
    _require_apart(metadata["annotations"], found, offset, where)
    return found


def _require_apart(annotations: Sequence[Object], found: Sequence[Span], offset: int, where: str) -> None:
    """InputError where two annotations, in order, hold the same samples in bands that are not apart."""
    edges = [[item.get(f"core:freq_{side}_edge") for side in ("lower", "upper")] for item in annotations]
    # NaN is apart from nothing.
    low, high = np.array(edges, float).T
    starts = np.array([span.start for span in found])
    for i, one in enumerate(found):
        later = slice(i + 1, np.searchsorted(starts, one.stop))
        apart = (high[i] <= low[later]) | (high[later] <= low[i])
        if not apart.all():
            other = found[i + 1 + int(np.argmin(apart))]
            raise InputError(
                f"{where}: annotations: {one.label!r} and {other.label!r} both hold samples {other.start + offset} to "
                f"{min(one.stop, other.stop) + offset}, expected one label, or core:freq_lower_edge and "
                "core:freq_upper_edge apart"
            )
