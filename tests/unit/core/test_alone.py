"""A row is its own scene's: what uses its batch, or counts, is refused where it is embedded."""

import numpy as np
import pytest

from common.errors import InputError
from emma.backbones import dsp
from emma.backbones.alone import ROUNDING, moved_columns
from emma.backbones.embed import write_embeddings
from emma.backbones.features import Spread
from emma.backbones.inputs import Contract
from emma.data.provenance import Provenance
from emma.data.scenes import SceneChunk, write_scenes

PROVENANCE = Provenance(name="m", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")


class Moments:
    """Two features of each scene, and one of what a subclass adds."""

    name = "m"
    embedding_dim = 3

    def __init__(self):
        self.calls, self.scenes = 0, 0

    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        self.calls, self.scenes = self.calls + 1, self.scenes + len(iq)
        rows = np.stack([iq.real.mean(axis=(1, 2)), np.abs(iq).max(axis=(1, 2)), iq.imag.std(axis=(1, 2))], axis=1)
        return self.more(rows).astype(np.float32)

    def more(self, rows):
        return rows


class Centred(Moments):
    def more(self, rows):
        return rows - rows.mean(axis=0)


class CentredOfSeveral(Moments):
    """Gives itself away to none that asks for one scene at a time."""

    def more(self, rows):
        return rows - (rows.mean(axis=0) if len(rows) > 1 else 0)


class CountsCalls(Moments):
    def more(self, rows):
        rows[:, 2] += 1e-3 * self.calls
        return rows


class CountsScenes(Moments):
    def more(self, rows):
        rows[:, 2] += 1e-3 * (self.scenes - len(rows) + np.arange(len(rows)))
        return rows


class Running(Moments):
    """A normalisation that is still training."""

    def more(self, rows):
        return (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-3)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory, scene_columns):
    folder, rng = tmp_path_factory.mktemp("scenes"), np.random.default_rng(0)
    iq = (rng.normal(size=(20, 1, 16)) + 1j * rng.normal(size=(20, 1, 16))).astype("c8")
    write_scenes(folder / "s.parquet", folder / "index.parquet", iter([SceneChunk(iq, scene_columns(20), {})]))
    return folder / "s.parquet"


def write(scenes, out, backbone, provenance=PROVENANCE):
    contract = Contract(normalise="none", batch_size=7)
    write_embeddings(out, backbone, [scenes], contract=contract, provenance=provenance)


@pytest.mark.parametrize("kind", [Centred, CentredOfSeveral, CountsCalls, CountsScenes, Running])
def test_a_row_that_moves_with_other_scenes_is_refused_and_nothing_is_written(scenes, tmp_path, kind):
    with pytest.raises(
        InputError, match=r"^model m: .*: column \d of a scene's embedding is another (by|among)[^\n]*$"
    ):
        write(scenes, tmp_path / "e.parquet", kind())
    assert not list(tmp_path.iterdir())


def test_rounding_passes_and_a_gpu_may_move_further(scenes, tmp_path):
    class Rounds(Moments):
        def more(self, rows):
            # A level of 1e3 leaves float32 about 1e-4 of it.
            return rows + 1e3 + self.calls * 2e-4

    write(scenes, tmp_path / "e.parquet", Rounds())

    class OnGpu(Moments):
        def more(self, rows):
            return rows * (1 + 1e-4 * self.calls)

    with pytest.raises(InputError, match="expected at most 1e-04"):
        write(scenes, tmp_path / "g.parquet", OnGpu())
    write(scenes, tmp_path / "g.parquet", OnGpu(), PROVENANCE.model_copy(update={"device": "cuda"}))


def test_a_constant_column_moves_nobody_and_deviations_are_those_of_all_parts():
    rng = np.random.default_rng(0)
    values = rng.normal(5, [1, 1e-3, 0], size=(50, 3)).astype(np.float32)
    spread = Spread()
    for part in np.split(values, [1, 20, 21]):
        spread.add(part)
    np.testing.assert_allclose(spread.deviation, values.astype(np.float64).std(axis=0), rtol=1e-9, atol=1e-12)
    moved = moved_columns(values[:2] + np.float32(1e-3), values[:2], spread)
    assert moved[2] == 0
    np.testing.assert_allclose(moved[:2], (1e-3 - ROUNDING * spread.magnitude[:2]) / spread.deviation[:2], rtol=1e-2)


@pytest.mark.parametrize("seed", range(3))
def test_dsp_of_coarsely_quantised_scenes_is_each_scene_s_own(seed):
    """Samples that are zero, or the opposite of their neighbour, have the same angle in every batch."""
    rng = np.random.default_rng(seed)
    iq = ((rng.integers(-3, 4, (24, 8, 256)) + 1j * rng.integers(-3, 4, (24, 8, 256))) * 0.0123).astype(np.complex64)
    rows = dsp.build().embed(iq, 1.0, 1.0)
    alone = np.concatenate([dsp.build().embed(iq[[row]], 1.0, 1.0) for row in range(len(iq))])
    np.testing.assert_allclose(alone, rows, rtol=1e-5, atol=1e-5)
