"""Both constructions of streams keep their bytes: shipped scenes rest on one, published intervals on the other."""

import numpy as np
import pytest

from common.streams import complex_normal, random_generator, stream


@pytest.mark.parametrize(
    ("words", "draws"),
    [
        ((7, "a", 3), [1920632409587609775, 7145154068834909312]),
        (("secret", "é"), [1655693851085932667, 4787485397335158892]),
    ],
)
def test_streams_of_the_generator(words, draws):
    assert stream(*words).integers(0, 2**63, 2).tolist() == draws


@pytest.mark.parametrize(
    ("seed", "draws"),
    [
        (7, [597297154791474814, 3878263236648785125]),
        ((7, "a", 3), [1788544889864653063, 7806243021745706093]),
        ("7", [3583764326741357764, 7353699195240388323]),
    ],
)
def test_streams_of_the_evaluation(seed, draws):
    assert random_generator(seed).integers(0, 2**63, 2).tolist() == draws


@pytest.mark.parametrize("seed", [True, 1.0, None])
def test_other_seeds_are_refused(seed):
    with pytest.raises(ValueError, match="seed: expected"):
        stream(seed)


def test_complex_samples():
    samples = complex_normal(stream(0), (2,))
    expected = [0.06740047444908867 + 0.10346591596210206j, -0.05555659784926522 - 0.2592948247909989j]
    np.testing.assert_array_equal(samples, expected)
    assert complex_normal(stream(0), (200, 300)).var() == pytest.approx(1, abs=0.02)
