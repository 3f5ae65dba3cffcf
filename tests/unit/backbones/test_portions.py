"""Portions of a batch change no bit of its embeddings; a program without pandas stays without it."""

import subprocess
import sys

import numpy as np
import pytest

from emma.backbones import conv


@pytest.mark.parametrize("scenes", [2, 64, 65, 129, 140])
def test_portions_give_the_bytes_of_the_whole_batch(monkeypatch, scenes):
    rng = np.random.default_rng(scenes)
    iq = rng.standard_normal((scenes, 1, 4096, 2)).astype(np.float32).view(np.complex64)[..., 0]
    backbone, sizes = conv.random_conv(antennas="1"), []
    portions = conv._portions
    monkeypatch.setattr(conv, "_portions", lambda c: sizes.extend(map(len, portions(c))) or portions(c))
    found = backbone.embed(iq, 20e6, 2.4e9)
    assert sum(sizes) == scenes
    assert min(sizes) > 1
    assert scenes <= 65 or len(sizes) > 1
    monkeypatch.setattr(conv, "_portions", lambda channels: (channels,))
    assert found.tobytes() == backbone.embed(iq, 20e6, 2.4e9).tobytes()


def test_arrow_does_not_load_pandas_once_it_is_told():
    program = (
        "import sys, numpy, pyarrow as pa, pyarrow.compute as pc; from emma.data.tables import without_pandas;"
        "without_pandas(); pc.greater(pa.array(numpy.ones(2)), 1); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
