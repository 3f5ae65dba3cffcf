"""Channel state information of moving antennas (NPZ and labels.csv): angles of virtual arrays, and line of sight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common import npy
from common.errors import InputError
from emma.captures.adapters import RealCaptureAdapter, Scenes
from emma.captures.cutting import unit_power

#: Carriers that the Intel 5300 reports of a 20 MHz channel (IEEE 802.11-2020, table 9-72: grouping of two).
CARRIERS = np.array([*range(-28, -1, 2), -1, *range(1, 28, 2), 28])
SPACING_HZ = 312_500.0
#: The product of forward and reverse channel turns twice as fast: half the wavelength of 5.54 GHz.
WAVELENGTH_M = 0.02708


class CsiArrayAdapter(RealCaptureAdapter):
    """The layout of ``va16.npz`` (virtual arrays, for an angle) and ``csi64.npz`` (64 packets per link, for sight).

    A scene is the channel as it is sounded: the reported carriers, unit pilots, one symbol of 3.2 us. For an array it
    is sampled at the declared rate, one row per element; for a link the packets' symbols follow one another.
    """

    name = "csi_array"
    converts: ClassVar = {
        "samples": "complex CSI to the impulse response by an inverse FFT; unit mean power per scene",
        "antennas": "rows of the virtual array in the order of pos_m",
        "frame": "phases as recorded turn as exp(+j k pos.u), the scenes' own convention; degrees modulo 360",
        "timing": "of an array, each element's packet timing: the line fitted to its phase over carriers, about DC",
        "power": "RSSI and AGC are not used",
    }
    needs: ClassVar = (
        "va16.npz (angles) or csi64.npz (links), and labels.csv with path, label, session, los, center_freq_hz"
    )
    cannot_give: ClassVar = (
        "samples between the packets of a link",
        "a common phase of packets",
        "absolute power",
        "signal-to-noise ratio (snr_db is 0, snr_regime unknown)",
    )

    def scenes(self) -> Iterator[Scenes]:
        """One chunk."""
        angle = self.labels_are_angles
        file, key, n_lead = ("va16.npz", "x", 16) if angle else ("csi64.npz", "csi", 64)
        arrays = read_npz(self, file)
        rows = rows_of_file(self, file, "session", "label", "los", "center_freq_hz")
        csi = complex_pairs(self, file, key, arrays, (n_lead, len(CARRIERS)))
        require_rows(self, file, arrays, len(rows), key, "set", "loc", "stamp", "tx")
        column = "label" if angle else (self.entry.mapping.column or "los")
        place = [f"{s}/{p}" for s, p in zip(arrays["set"], arrays["loc"], strict=True)]
        for i, (row, where, stamp) in enumerate(zip(rows, place, arrays["stamp"], strict=True)):
            if row["session"] != f"{where}/{stamp}":
                raise InputError(f"{self.root / file}: row {i}: {where}/{stamp}, but labels.csv says {row['session']}")
        if angle:
            stated = np.array([self.number(row, "label") for row in rows])
            apart = np.abs((stated - arrays["aoa_local_deg"] + 180.0) % 360.0 - 180.0)
            if not (apart < 0.01).all():
                raise InputError(f"{self.root / file}: aoa_local_deg: contradicts labels.csv in row {apart.argmax()}")
        bins = self.scene.samples if angle else self.scene.samples // n_lead
        if abs(bins * SPACING_HZ - self._rate()) > 1 or (not angle and bins * n_lead != self.scene.samples):
            raise InputError(
                f"{self.entry.name}: scene: samples and sample_rate_hz: expected one symbol of 3.2 us each"
            )
        grid = np.zeros((*csi.shape[:2], bins), np.complex64)
        grid[..., CARRIERS % bins] = without_timing(csi) if angle else csi
        iq = np.fft.ifft(grid, axis=-1)
        iq = iq if angle else iq.reshape(len(iq), 1, -1)
        names = [row["path"] for row in rows]
        yield Scenes(
            unit_power(iq, names),
            names,
            label=[self.number(row, "label") for row in rows] if angle else [row[column] for row in rows],
            session=place,
            center_frequency_hz=[self.number(row, "center_freq_hz") for row in rows],
            device=arrays["tx"].tolist(),
            detail=[{"group": str(name)} for name in arrays["set"]],
        )

    def geometry(self) -> list[list[float]] | None:
        """Positions ``[16, 2]`` of the array in wavelengths; None for links."""
        places = self.places_m()
        return None if places is None else (np.array(places) / WAVELENGTH_M).round(6).tolist()

    def places_m(self) -> list[list[float]] | None:
        """Positions ``[16, 2]`` of the array in metres; None for links."""
        if not self.labels_are_angles:
            return None
        positions = read_npz(self, "va16.npz")["pos_m"]
        mean = positions.mean(axis=0)
        if not positions.std(axis=0).max() < 2e-3:
            raise InputError(f"{self.root / 'va16.npz'}: pos_m: spread over 2 mm, expected one array for all rows")
        places: list[list[float]] = mean.tolist()
        return places


def without_timing(csi: NDArray[np.complex64]) -> NDArray[np.complexfloating[Any, Any]]:
    """CSI ``[..., 30]`` without the linear phase over carriers that a packet's timing adds; the phase at DC stays.

    The elements of a virtual array are packets of different timing, where those of an array hear one.
    """
    phase = np.unwrap(np.angle(csi), axis=-1)
    offset = CARRIERS - CARRIERS.mean()
    slope = (phase @ offset / (offset @ offset))[..., None]
    turned: NDArray[np.complexfloating[Any, Any]] = csi * np.exp(-1j * slope * CARRIERS)
    return turned


def read_npz(adapter: RealCaptureAdapter, file: str) -> dict[str, NDArray[Any]]:
    """Arrays of an NPZ file of the set, none of them pickled."""
    return npy.read_npz(adapter.read(file), adapter.root / file)


def rows_of_file(adapter: RealCaptureAdapter, file: str, *needed: str) -> list[dict[str, str]]:
    """Rows ``FILE#0``, ``FILE#1``, ... of labels.csv, in that order and without a hole."""
    rows: list[dict[str, str]] = []
    for row in adapter.labels(*needed):
        name, _, number = row["path"].partition("#")
        adapter.inside(name)
        if name == file:
            if number != str(len(rows)):
                raise InputError(f"{adapter.root / 'labels.csv'}: {row['path']}: expected {file}#{len(rows)} next")
            rows.append(row)
    return rows


def require_rows(
    adapter: RealCaptureAdapter, file: str, arrays: Mapping[str, NDArray[Any]], rows: int, *names: str
) -> None:
    """InputError unless each named array has as many rows as there are labels."""
    for name in names:
        if name not in arrays:
            raise InputError(f"{adapter.root / file}: {name}: expected this array")
        if len(arrays[name]) != rows:
            raise InputError(f"{adapter.root / file}: {name}: {len(arrays[name])} rows, but labels.csv has {rows}")


def complex_pairs(
    adapter: RealCaptureAdapter, file: str, name: str, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]
) -> NDArray[np.complex64]:
    """An array ``[n, *shape, 2]`` of numbers as complex64 ``[n, *shape]``; InputError for another shape or type."""
    values = arrays.get(name)
    if values is None or values.shape[1:] != (*shape, 2) or values.dtype.kind not in "if":
        actual = "nothing" if values is None else f"{values.dtype} {values.shape}"
        raise InputError(
            f"{adapter.root / file}: {name}: {actual}, expected numbers [n, {', '.join(map(str, shape))}, 2]"
        )
    pairs = values.astype(np.float32)
    if not np.isfinite(pairs).all():
        raise InputError(f"{adapter.root / file}: {name}: NaN or infinity, expected finite numbers")
    numbers: NDArray[np.complex64] = pairs[..., 0] + 1j * pairs[..., 1]
    return numbers
