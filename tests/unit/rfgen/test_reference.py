"""The reference symbol of localisation scenes: where it stands, what is known of it, and what it leaves alone."""

import numpy as np
import pytest

from rfgen.recipe import Recipe
from rfgen.waveforms import ofdm

AOA = "E-LOC-AOA"


@pytest.fixture
def task(tiny):
    return tiny.tasks[AOA]


def placed(task, n=2000, seed=0):
    """What a chunk sends in its window, and where the symbol's body starts; and the same without a reference."""
    rng, window = np.random.default_rng(seed), slice(578, 578 + task.samples)
    values, start = task._drawn(n, window.stop + 64, rng)
    plain = task._sent(values, start, window.stop + 64)[:, window]
    values, body = task._place_reference(task.reference.root, values, start, window, np.random.default_rng(1))
    return task._sent(values, start, window.stop + 64)[:, window], body, plain


def test_the_symbol_lies_wholly_in_the_window_with_its_prefix_and_a_sample_for_the_timing(task):
    _, body, _ = placed(task, 20_000)
    assert (body.min(), body.max()) == (task.cyclic_prefix, task.samples - task.subcarriers - 1)
    # No stretch is left out: prefixes start everywhere in the window that they can.
    assert len(np.unique(body)) == task.samples - task.symbol
    counts, _ = np.histogram(body - task.cyclic_prefix, bins=np.arange(0, task.samples - task.symbol + 1, 16))
    assert counts.max() < 1.6 * counts.min()


def test_what_is_sent_there_is_what_is_known_and_all_else_is_data_as_before(task):
    sent, body, plain = placed(task)
    known = task.known_symbol()
    values = np.array(known["values"]) @ [1, 1j]
    places = body[:, None] + np.arange(known["size"])
    carriers = np.fft.fft(np.take_along_axis(sent, places, 1))[:, known["carriers"]]
    np.testing.assert_allclose(carriers * np.sqrt(52) / 64 / values, 1.0, atol=1e-11)
    inside = (np.arange(task.samples) >= body[:, None] - task.cyclic_prefix) & (
        np.arange(task.samples) < body[:, None] + task.subcarriers
    )
    np.testing.assert_array_equal(sent[~inside], plain[~inside])
    assert inside.sum(axis=1).tolist() == [task.symbol] * len(sent)
    data = np.fft.fft(np.take_along_axis(plain, places, 1))[:, known["carriers"]] * np.sqrt(52) / 64
    np.testing.assert_allclose(np.abs(data), 1.0, atol=1e-9)
    assert abs(np.mean(data)) < 0.02


def test_the_sequence_has_constant_modulus_and_the_least_peak_of_all_roots(task):
    known = task.known_symbol()
    assert known["carriers"] == [*range(-26, 0), *range(1, 27)]
    np.testing.assert_allclose(np.hypot(*np.transpose(known["values"])), 1.0, rtol=1e-11)

    def peak_db(root):
        grid = np.zeros(512, complex)
        grid[known["carriers"]] = ofdm.punctured_zadoff_chu(root, 52)
        power = np.abs(np.fft.ifft(grid)) ** 2
        return 10 * np.log10(power.max() / power.mean())

    peaks = {root: peak_db(root) for root in range(1, 53)}
    assert peaks[task.reference.root] == pytest.approx(min(peaks.values()), abs=1e-9)
    assert peaks[task.reference.root] == pytest.approx(3.2, abs=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": {"sequence": "zadoff-chu", "root": 53}}, "reference.root: expected no divisor in common"),
        ({"active_subcarriers": 51}, "reference.root: expected no divisor in common"),
        ({"samples": 159}, "samples: expected 160 or more"),
        ({"reference": {"sequence": "barker", "root": 1}}, "reference.sequence"),
        ({"reference": {"sequence": "zadoff-chu"}}, "reference.root"),
    ],
)
def test_a_reference_that_is_none_is_refused(mapping, change, message):
    recipe = mapping("tiny")
    recipe["tasks"][AOA] |= change
    with pytest.raises(ValueError, match=message):
        Recipe.from_mapping(recipe)


def test_releases_without_one_say_nothing_of_it(mapping):
    known = [AOA, "E-LOC-LOS", "E-CH-BEAM", "E-CH-CSI"]
    for name, tasks in (("v0.1", []), ("v1.0", known), ("tiny", known)):
        recipe = mapping(name)
        assert [task for task, block in recipe["tasks"].items() if "reference" in block] == tasks
        symbols = {task: block.known_symbol() for task, block in Recipe.from_mapping(recipe).tasks.items()}
        assert [task for task, symbol in symbols.items() if symbol is not None] == tasks
