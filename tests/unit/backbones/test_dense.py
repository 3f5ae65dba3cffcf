"""A model on a task with windows: every window is a scene to it, by all of its own rules."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from common.errors import InputError
from emma.audit.checkup import Sample, Subject
from emma.audit.checkup.checks import Capacity
from emma.backbones.config import ModelConfig
from emma.backbones.cost import cost_of
from emma.backbones.dense import DenseContract, contracts_of, row_width, task_contract, window_options, windowed
from emma.backbones.embed import UnsuitedError, embed_batch
from emma.backbones.inputs import Contract
from emma.data.provenance import Provenance
from emma.data.release import load_release_config
from emma.tasks import TaskID

RATE = 2e7
TINY = load_release_config("config/releases/tiny.yaml").tasks


class Seen:
    """Embeds what it is given: number of samples, rate, and the first and last sample's real part."""

    name, embedding_dim = "seen", 4

    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        ends = iq[:, 0, [0, -1]].real
        told = np.broadcast_to([iq.shape[2], sample_rate_hz / RATE], (len(iq), 2))
        return np.hstack([told, ends]).astype(np.float32)


def table(n: int) -> pa.Table:
    return pa.table({"sample_rate_hz": [RATE] * n, "center_frequency_hz": [2.4e9] * n})


def ramp(n: int = 3, samples: int = 64) -> np.ndarray:
    """Each sample says its scene and place."""
    return (100 * np.arange(n)[:, None, None] + np.arange(samples)[None, None]).astype(np.complex64)


def seen(**rules) -> np.ndarray:
    """Rows ``[3, windows, 4]`` of windows of 32 samples, every 16."""
    contract = windowed(Contract(normalise="none", **rules), 32, 16)
    return embed_batch(Seen(), ramp(), table(3), contract).reshape(3, -1, 4)


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_windows_stand_side_by_side_in_order_of_time(batch: int) -> None:
    rows = seen(batch_size=batch)
    assert rows.shape == (3, 3, 4)
    assert (rows[..., :2] == [32, 1]).all()
    starts = 100 * np.arange(3)[:, None] + 16 * np.arange(3)
    np.testing.assert_array_equal(rows[..., 2], starts)
    np.testing.assert_array_equal(rows[..., 3], starts + 31)


def test_each_window_is_at_its_own_level() -> None:
    class Level(Seen):
        embedding_dim = 1

        def embed(self, iq, sample_rate_hz, center_frequency_hz):
            return np.mean(np.abs(iq) ** 2, axis=(1, 2))[:, None].astype(np.float32)

    rows = embed_batch(Level(), ramp() + 1, table(3), windowed(Contract(), 32, 16))
    np.testing.assert_allclose(rows, 1.0, rtol=1e-5)


def test_a_model_s_own_samples_are_filled_from_the_window() -> None:
    tiled = seen(samples=80, fit="tile")
    assert (tiled[..., 0] == 80).all()
    # 80 samples of a window of 32: twice it, and its first half.
    np.testing.assert_array_equal(tiled[..., 3] - tiled[..., 2], 15)
    assert (seen(samples=80, fit="pad")[..., 3] == 0).all()
    assert (seen(samples=20)[..., 0] == 20).all()
    with pytest.raises(UnsuitedError, match="model seen: samples: expected 80 or more, found 32"):
        seen(samples=80)


def test_resampling_and_a_window_of_the_model_s_own_are_within_the_window() -> None:
    resampled = seen(sample_rate_hz=RATE / 2)
    assert (resampled[..., :2] == [16, 0.5]).all()
    own = seen(window=8, hop=8, window_pooling="max")
    assert own.shape == (3, 3, 4)
    assert (own[..., 0] == 8).all()
    np.testing.assert_array_equal(own[..., 3], 100 * np.arange(3)[:, None] + 16 * np.arange(3) + 31)


def test_what_a_window_does_not_have_is_refused() -> None:
    with pytest.raises(UnsuitedError, match="the scenes carry no reference symbol"):
        seen(view="csi")
    with pytest.raises(UnsuitedError, match="20 samples, expected at least the 32 of the task's windows"):
        embed_batch(Seen(), ramp(3, 20), table(3), windowed(Contract(), 32, 16))


def test_antennas_and_windows_multiply_the_width() -> None:
    contract = windowed(Contract(per_antenna="concat"), 32, 16)
    assert row_width(contract, 5, (7, 2, 64)) == 2 * 3 * 5
    assert row_width(Contract(), 5, (7, 2, 64)) == 5
    rows = embed_batch(Seen(), np.repeat(ramp(), 2, axis=1), table(3), contract)
    assert rows.shape[1] == row_width(contract, 4, (3, 2, 64))


def test_one_function_says_it_for_every_task() -> None:
    config = ModelConfig(name="m", factory="a:b", pretraining="unknown", samples=1024, fit="tile", batch_size=7)
    assert task_contract(config, TINY[TaskID.E_LOC_AOA]) is config
    dense = task_contract(config, TINY[TaskID.E_SC_SEP])
    assert isinstance(dense, DenseContract)
    assert (dense.dense_window, dense.dense_hop, dense.samples, dense.batch_size) == (256, 64, 1024, 7)
    assert dense.of_a_window == Contract(samples=1024, fit="tile", batch_size=7)
    # What programs are told is what the declaration says.
    options = window_options(TINY)
    assert options == ["E-SC-SEP=256/64"]
    assert contracts_of(config, options) == {TaskID.E_SC_SEP: dense}
    assert window_options({TaskID.E_LOC_AOA: TINY[TaskID.E_LOC_AOA]}) == []


@pytest.mark.parametrize("option", ["E-SC-SEP", "E-SC-SEP=256", "E-SC-SEP=0/64", "E-NONE=256/64", "E-SC-SEP=a/b"])
def test_another_text_is_no_window(option: str) -> None:
    with pytest.raises(InputError, match=r"--windows: .*, expected TASK=SAMPLES/HOP"):
        contracts_of(Contract(), [option])


def test_a_look_before_the_run_counts_a_window() -> None:
    config, rng = ModelConfig(name="m", factory="a:b", pretraining="unknown"), np.random.default_rng(0)
    iq = (rng.standard_normal((16, 1, 1024)) + 1j * rng.standard_normal((16, 1, 1024))).astype(np.complex64)
    task = TaskID.E_SC_SEP
    subject = Subject(config, {task: TINY[task]}, {task: Sample(iq, table(16), "x")}, lambda: (Seen(), None))
    subject.backbone = Seen()
    assert subject.rows(task).shape == (16, 13 * 4)
    assert Capacity().look_at(subject, task) == "2,560 of 1,049,088 parameters"


def test_what_it_costs_is_that_of_all_windows() -> None:
    """Calls are counted window by window, and a row is as wide as they are together."""
    config = ModelConfig(name="m", factory="a:b", pretraining="unknown")
    linear = torch.nn.Linear(256, 4)

    class Net(Seen):
        def __init__(self) -> None:
            self.net = linear

        def embed(self, iq, sample_rate_hz, center_frequency_hz):
            return self.net(torch.from_numpy(np.ascontiguousarray(iq[:, 0].real))).detach().numpy()

    task, iq = TaskID.E_SC_SEP, ramp(3, 1024)
    contracts = contracts_of(config, window_options(TINY))
    provenance = Provenance.of("m", config, "unknown")
    cost = cost_of(config, Net(), provenance, {task: (iq, table(3))}, {}, None, contracts)
    assert (cost.tasks[task].width, cost.tasks[task].macs) == (52, 13 * 256 * 4)
