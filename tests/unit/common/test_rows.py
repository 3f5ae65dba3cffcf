"""Rows on disk are those of the array that was written, in every order they are asked for."""

import errno
import os

import numpy as np
import pytest

from common import rows as module
from common.errors import InputError
from common.rows import RowFile, Rows, blocks


@pytest.fixture
def pair() -> tuple[np.ndarray, RowFile]:
    """The same rows as an array and on disk, written in parts of odd sizes."""
    array = np.random.default_rng(0).normal(size=(101, 3, 4)).astype(np.float32)
    file = RowFile((3, 4), np.float32)
    for part in np.split(array, [0, 1, 30, 30, 100]):
        file.append(part)
    return array, file


@pytest.mark.parametrize(
    "chosen",
    [slice(None), slice(5, 9), slice(3, 3), [4], [100, 0, 7], [7, 7, 8], range(0, 101, 9), []],
    ids=str,
)
def test_rows_on_disk_are_those_of_the_array(pair, chosen):
    array, file = pair
    key = chosen if isinstance(chosen, slice) else np.array(list(chosen), np.int64)
    assert len(file) == 101
    assert file.shape == array.shape
    assert np.array_equal(file[key], array[key])
    assert file[key].dtype == array.dtype
    assert np.array_equal(np.asarray(file), array)


def test_rows_hold_no_numbers_until_a_slice_is_asked_for(pair):
    array, file = pair
    mask = np.arange(101) % 3 == 1
    chosen = Rows(file)[mask]
    assert isinstance(chosen, Rows)
    assert np.array_equal(chosen[2:9], array[mask][2:9])
    assert np.array_equal(np.asarray(chosen.then(lambda block: block * 2)), array[mask] * 2)


def test_rows_are_cut_into_parts_that_follow_one_another():
    array = np.arange(60.0).reshape(5, 12)
    file = RowFile((12,), np.float64)
    file.append(array)
    for source in (array, file):
        parts = Rows(source)[np.array([3, 0])].split(4)
        assert np.array_equal(np.asarray(parts), array[[3, 0]].reshape(8, 3))


def test_blocks_are_all_rows_in_order(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 12)
    monkeypatch.setattr(module, "_LEAST", 2)
    array = np.arange(33.0).reshape(11, 3)
    found = list(blocks(Rows(array)))
    assert [len(block) for _, block in found] == [4, 4, 3]
    assert np.array_equal(np.concatenate([block for _, block in found]), array)
    assert all(np.array_equal(array[place], block) for place, block in found)
    assert [block is array for _, block in blocks(array)] == [True]


def test_nothing_of_them_stays_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = RowFile((3,), np.float32)
    file.append(np.zeros((4, 3), np.float32))
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_told_in_one_line(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InputError, match=r"No space left on device, expected room"):
        RowFile((3,), np.float32).append(np.zeros((4, 3)))


def test_a_file_that_ends_early_is_told(pair):
    os.ftruncate(pair[1].fileno(), 3000)
    with pytest.raises(InputError, match="end early, expected 101"):
        pair[1][:]
