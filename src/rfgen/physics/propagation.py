"""From rays to received samples: links of a ray table, array gains of paths, and multipath of linear delays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rfgen.physics import arrays
from rfgen.physics.types import Bools, Complexes, Floats

RAYS = 20
# Rays of a cluster that belong to its three sub-clusters, TR 38.901 V16.1 Table 7.5-5 (numbers from 0).
SUBCLUSTERS = ((0, 1, 2, 3, 4, 5, 6, 7, 18, 19), (8, 9, 10, 11, 16, 17), (12, 13, 14, 15))
# Delays of the sub-clusters in units of the cluster delay spread, TR 38.901 V16.1 Table 7.5-5.
SUBCLUSTER_DELAYS = (0.0, 1.28, 2.56)
# The receiver's channel filter is flat up to this share of half the sample rate, and zero at half of it.
FLAT = 0.9
# Samples beside a window that its filtered delays reach into: what lies further off counts by less than -75 dB.
GUARD = 64
_SUBCLUSTER_OF = np.zeros((RAYS, 3))
for _s, _rays in enumerate(SUBCLUSTERS):
    _SUBCLUSTER_OF[list(_rays), _s] = 1.0


@dataclass(frozen=True)
class Links:
    """Rays of n links, padded to C clusters with zero power, the strongest cluster first.

    `delay_s` and `power` are `[n, C]`; `azimuth_deg` and `zenith_deg` `[n, C, 20]`, directions the ray comes from;
    `k_linear` `[n]` is 0 where the link is not in sight; `bearing_deg` and `direct_zenith_deg` name the direct path,
    `distance_2d_m` its length on the ground.
    """

    link_id: list[str]
    los: Bools
    bearing_deg: Floats
    direct_zenith_deg: Floats
    distance_2d_m: Floats
    k_linear: Floats
    cluster_spread_s: Floats
    delay_s: Floats
    power: Floats
    azimuth_deg: Floats
    zenith_deg: Floats


def links_from_table(table: pa.Table) -> Links:
    """Links of a ray table's rows, in their order (columns: see `rfgen.channels.ray_table`)."""
    table = table.combine_chunks()

    def padded(name: str, width: int = 1) -> Floats:
        column = table.column(name).combine_chunks()
        offsets = column.offsets.to_numpy().astype(np.int64)
        lengths = np.diff(offsets)
        out = np.zeros((len(lengths), int(lengths.max(initial=width))))
        mask = np.arange(out.shape[1]) < lengths[:, None]
        # flatten() respects a sliced column's offsets.
        out[mask] = column.flatten().to_numpy(zero_copy_only=False)
        return out.reshape(len(lengths), -1, width) if width > 1 else out

    def column(name: str) -> NDArray[Any]:
        values: NDArray[Any] = table.column(name).to_numpy()
        return values

    k_db = column("k_factor_db").astype(float)
    return Links(
        link_id=table.column("link_id").to_pylist(),
        los=column("los"),
        bearing_deg=column("bearing_deg"),
        direct_zenith_deg=column("direct_zenith_deg"),
        distance_2d_m=column("distance_2d_m"),
        k_linear=np.where(np.isnan(k_db), 0.0, 10.0 ** (np.nan_to_num(k_db) / 10)),
        cluster_spread_s=column("cluster_delay_spread_s"),
        delay_s=padded("path_delay_s"),
        power=padded("path_power"),
        azimuth_deg=padded("ray_azimuth_deg", RAYS),
        zenith_deg=padded("ray_zenith_deg", RAYS),
    )


def path_gains(links: Links, positions: Floats, rng: np.random.Generator) -> tuple[Complexes, Floats]:
    """Complex gains `[n, elements, P]` and delays [s] `[n, P]` of each link's paths at an array; unit power on average.

    Every ray gets a random initial phase; rays of equal delay are summed here, so that P = C + 5: the direct path,
    three sub-clusters of each of the two strongest clusters, and the other clusters (TR 38.901 V16.1, 7.5 step 11).
    One polarisation, omnidirectional elements.
    """
    n, clusters = links.power.shape
    phase = np.exp(2j * np.pi * rng.random((n, clusters, RAYS)))
    steering = arrays.response(positions, links.azimuth_deg, links.zenith_deg)
    amplitude = np.sqrt(links.power / RAYS / (1 + links.k_linear)[:, None])
    rays = steering * (phase * amplitude[..., None])[..., None]
    split = np.einsum("ncra,rs->nacs", rays[:, :2], _SUBCLUSTER_OF).reshape(n, len(positions), -1)
    whole = rays[:, 2:].sum(axis=2).transpose(0, 2, 1)
    direct = arrays.response(positions, links.bearing_deg, links.direct_zenith_deg)
    direct = direct * (np.sqrt(links.k_linear / (1 + links.k_linear)) * np.exp(2j * np.pi * rng.random(n)))[:, None]
    spread = links.cluster_spread_s[:, None] * np.array(SUBCLUSTER_DELAYS)
    first = (links.delay_s[:, :2, None] + spread[:, None, :]).reshape(n, -1)
    delays = np.concatenate([np.zeros((n, 1)), first, links.delay_s[:, 2:]], axis=1)
    return np.concatenate([direct[..., None], split, whole], axis=2), delays


def frequency_response(gains: Complexes, delays_s: Floats, size: int, sample_rate_hz: float) -> Complexes:
    """Sum over paths of gain exp(-j 2 pi f delay) at the FFT frequencies, complex128 `[n, elements, size]`.

    `gains` is `[n, elements, P]`, `delays_s` `[n, P]`. The grid is split in rows and columns, whose phasors multiply.
    """
    rows = next(r for r in range(int(np.sqrt(size)), 0, -1) if size % r == 0)
    columns = size // rows
    step = np.exp(-2j * np.pi * sample_rate_hz / size * delays_s[..., None] * np.arange(columns))
    # Bins from size / 2 on are negative frequencies: start the grid there and roll it back at the end.
    start = np.arange(rows) * columns - size // 2
    base = np.exp(-2j * np.pi * sample_rate_hz / size * delays_s[..., None] * start)
    scaled = gains[:, :, None, :] * base.transpose(0, 2, 1)[:, None]
    grid = (scaled.reshape(len(gains), -1, gains.shape[2]) @ step).reshape(*gains.shape[:2], size)
    return np.roll(grid, -(size // 2), axis=-1)


def lead_samples(longest_delay_s: float, sample_rate_hz: float) -> int:
    """Samples that a stretch needs before its window for delays up to `longest_delay_s` and a sample of timing."""
    return int(np.ceil(longest_delay_s * sample_rate_hz - 1e-9)) + 1 + GUARD


def channel_filter(size: int) -> Floats:
    """The receiver's channel filter at the FFT frequencies, float64 `[size]`: a raised cosine from `FLAT` on.

    A delay of part of a sample needs samples from ever further off, the more power there is next to half the sample
    rate; behind this filter, as behind a converter's, those within `GUARD` are enough.
    """
    edge = np.abs(np.fft.fftfreq(size)) * 2
    rolled: Floats = 0.5 + 0.5 * np.cos(np.pi * np.clip((edge - FLAT) / (1 - FLAT), 0, 1))
    return rolled


def apply_channel(
    signal: Complexes, gains: Complexes, delays_s: Floats, sample_rate_hz: float, window: slice | None = None
) -> Complexes:
    """The signal `[n, samples]` received over multipath, behind the channel filter; delays are linear.

    Args:
        signal: what is sent, complex128 `[n, samples]`.
        gains: of each path at each element, `[n, elements, P]`.
        delays_s: of each path, at least 0, `[n, P]`.
        sample_rate_hz: of the signal.
        window: the samples that are received. Nothing outside `signal` counts in them: it has to start as long before
            the window as the longest delay and `GUARD`, and to end `GUARD` after it. Without it, all of `signal` is
            received, and what comes before and after it is silence.

    Returns:
        complex128 `[n, elements, samples]`, or as many samples as the window has.

    Raises:
        ValueError: a window that starts too early or ends too late, or a negative delay.
    """
    length = signal.shape[-1]
    if delays_s.min(initial=0.0) < 0:
        raise ValueError(f"delays_s: expected none below 0, got {delays_s.min():.3g}")
    reach = int(np.ceil(delays_s.max(initial=0.0) * sample_rate_hz - 1e-9)) + GUARD
    if window is None:
        signal, window = np.pad(signal, ((0, 0), (0, reach + GUARD))), slice(0, length)
    else:
        start, stop, _ = window.indices(length)
        if start < reach or window.stop is None or length < window.stop + GUARD:
            raise ValueError(
                f"window: expected {reach} samples before it and {GUARD} after it, got {start} and {length - stop}"
            )
    size = signal.shape[-1]
    response = frequency_response(gains, delays_s, size, sample_rate_hz) * channel_filter(size)
    received: Complexes = np.fft.ifft(np.fft.fft(signal)[:, None] * response)[..., window]
    return received
