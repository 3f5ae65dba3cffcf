"""The speed of ``ssl_conv``'s network against torch's own matrix product, one thread, in multiplications and additions.

Counted: the convolutions alone, 2 operations per multiplication: ``2 * positions * outputs * inputs * 9`` per layer and
scene; normalising, GELU and pooling take time and count for nothing. The peak is that of a float32 product of 1,024 x
1,024 matrices. Weights do not change the speed: the network is ``random_conv``, which is ``ssl_conv`` untrained.
"""

import numpy as np
import pyarrow as pa
import torch
from measuring import Runs, deliver, figure, in_turn, parser

from emma.backbones.conv import _FILTERS, _KERNEL, _PASSED, _STRIDES, _WIDTHS, first_stride, random_conv
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import Contract


def operations(antennas: int, samples: int) -> int:
    """Floating-point operations of the convolutions for one scene."""
    total, positions = 0, samples
    inputs = (2 * antennas, _PASSED, *_WIDTHS[:-1])
    for taken, width, stride in zip(inputs, (_FILTERS, *_WIDTHS), (first_stride(samples), *_STRIDES), strict=True):
        positions = (positions - 1) // stride + 1
        total += 2 * positions * width * taken * _KERNEL
    return total


def main() -> None:
    """Time every shape of scene that the shipped releases have."""
    options = parser(__doc__, 7).parse_args()
    torch.set_num_threads(1)
    size, scenes = (64, 4) if options.tiny else (1_024, 128)
    shapes = [(1, 64)] if options.tiny else [(8, 256), (1, 1_024), (1, 4_096)]
    left, right = torch.randn(size, size), torch.randn(size, size)
    backbone, rng, figures = random_conv(), np.random.default_rng(0), []
    for antennas, samples in shapes:
        iq = rng.standard_normal((scenes, antennas, samples, 2)).astype(np.float32).view(np.complex64)[..., 0]
        index = pa.table({"sample_rate_hz": np.full(scenes, 20e6), "center_frequency_hz": np.full(scenes, 2.4e9)})
        repeats = max(1, round(scenes * operations(antennas, samples) / (2 * size**3)))

        def product(repeats: int = repeats) -> None:
            for _ in range(repeats):
                torch.mm(left, right)

        def embed(iq: np.ndarray = iq, index: pa.Table = index) -> None:
            embed_batch(backbone, iq, index, Contract())

        ours, other = in_turn(embed, product, options.runs)
        rates = [scenes * operations(antennas, samples) / time for time in ours.wall]
        peaks = [repeats * 2 * size**3 / time for time in other.wall]
        value = float(np.median([rate / peak for rate, peak in zip(rates, peaks, strict=True)]))
        checks = {"gflop_per_s": float(np.median(rates)) / 1e9, "peak_gflop_per_s": float(np.median(peaks)) / 1e9}
        checks |= {"scenes_per_s": scenes / float(np.median(ours.wall))}
        figures.append(
            figure(
                "embedding",
                f"embedding by the network of ssl_conv, {scenes} scenes of {antennas} x {samples}",
                "torch matrix product, one thread",
                ours=Runs(ours.wall, ours.cpu),
                other=Runs(other.wall, other.cpu),
                value=value,
                target=0.4,
                sense="at least",
                checks=checks,
            )
        )
    deliver(figures, options)


if __name__ == "__main__":
    main()
