"""The speed of shipped networks against torch's own matrix product, one thread, in multiplications and additions.

Counted by torch: convolutions and matrix products alone; normalising, activations and pooling take time and count for
nothing. The peak is that of a float32 product of 1,024 x 1,024 matrices. Weights do not change the speed:
``random_conv`` is ``ssl_conv`` untrained, and the classifier of RadioML has weights drawn at random.
"""

import numpy as np
import pyarrow as pa
import torch
from measuring import Figure, Runs, deliver, figure, in_turn, parser
from torch.utils.flop_counter import FlopCounterMode

from emma.backbones.base import Backbone
from emma.backbones.conv import random_conv
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import Contract
from emma.backbones.published.radioml_vgg10 import Net, build


def vgg10() -> Backbone:
    """The published classifier with the weights that its layers are drawn with."""
    return build({name: value.numpy() for name, value in Net().state_dict().items()})


#: Networks, how they are given scenes, and the shapes of scene [antennas, samples] that are timed.
NETWORKS = {
    "ssl_conv": (random_conv, Contract(), [(8, 256), (1, 1_024), (1, 4_096)]),
    "radioml_vgg10": (vgg10, Contract(layout="channels", normalise="unit_power"), [(1, 1_024)]),
}


def speed(
    name: str, backbone: Backbone, contract: Contract, shape: tuple[int, int], scenes: int, size: int, runs: int
) -> Figure:
    """Time one network on scenes of one shape."""
    rng = np.random.default_rng(0)
    iq = rng.standard_normal((scenes, *shape, 2)).astype(np.float32).view(np.complex64)[..., 0]
    index = pa.table({"sample_rate_hz": np.full(scenes, 20e6), "center_frequency_hz": np.full(scenes, 2.4e9)})
    left, right = torch.randn(size, size), torch.randn(size, size)
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        embed_batch(backbone, iq[:2], index.slice(0, 2), contract)
    operations = counter.get_total_flops() // 2 * scenes
    repeats = max(1, round(operations / (2 * size**3)))

    def product() -> None:
        for _ in range(repeats):
            torch.mm(left, right)

    ours, other = in_turn(lambda: embed_batch(backbone, iq, index, contract), product, runs)
    rates = [operations / time for time in ours.wall]
    peaks = [repeats * 2 * size**3 / time for time in other.wall]
    value = float(np.median([rate / peak for rate, peak in zip(rates, peaks, strict=True)]))
    checks = {"gflop_per_s": float(np.median(rates)) / 1e9, "peak_gflop_per_s": float(np.median(peaks)) / 1e9}
    checks |= {"scenes_per_s": scenes / float(np.median(ours.wall))}
    return figure(
        "embedding",
        f"embedding by {name}, {scenes} scenes of {shape[0]} x {shape[1]}",
        "torch matrix product, one thread",
        ours=Runs(ours.wall, ours.cpu),
        other=Runs(other.wall, other.cpu),
        value=value,
        target=0.6,
        sense="at least",
        checks=checks,
    )


def main() -> None:
    """Time every network on shapes that the shipped releases have."""
    options = parser(__doc__, 7).parse_args()
    torch.set_num_threads(1)
    size, scenes = (64, 4) if options.tiny else (1_024, 128)
    figures = []
    for name, (make, contract, shapes) in NETWORKS.items():
        backbone = make()
        few = [(1, 64)] if options.tiny and name == "ssl_conv" else shapes
        figures += [speed(name, backbone, contract, shape, scenes, size, options.runs) for shape in few]
    deliver(figures, options)


if __name__ == "__main__":
    main()
