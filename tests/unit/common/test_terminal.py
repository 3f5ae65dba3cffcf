"""A table as wide as the terminal: columns in blocks, each with the columns that name a row; whole elsewhere."""

import io

import pytest

from common.terminal import folded, item, terminal_width

ROWS = [
    ["rank", "range", "model", "A (low, high)", "B", "C (low, high)"],
    ["1", "1 to 2", "dsp", "0.123 (0.1, 0.2)", "-", "0.5"],
    ["2", "1 to 2", "prior", "0.5", "1", "0.123 (0.1, 0.2)"],
]


def test_without_a_width_it_is_one_block():
    (block,) = folded(ROWS, (0, 2), None)
    assert block[1] == "1     1 to 2  dsp    0.123 (0.1, 0.2)  -  0.5"


@pytest.mark.parametrize("width", [24, 32, 40, 50, 60, 200])
def test_no_line_is_wider_and_no_column_is_lost(width):
    blocks = folded(ROWS, (0, 2), width)
    assert len(blocks) == {24: 4, 32: 3, 40: 2, 50: 2, 60: 1, 200: 1}[width]
    for block in blocks:
        assert len(block) == len(ROWS)
        assert max(map(len, block)) <= width
        assert block[0].startswith("rank")
        assert "model" in block[0]
        assert block[2].startswith("2 ")
        assert "prior" in block[2]
    heads = " ".join(block[0] for block in blocks)
    assert all(heads.count(f"{name} (low" if width >= 40 else name) for name in ("A", "C"))
    # A column that is too wide alone is cut, where one sees it.
    assert ("…" in "".join(blocks[-1])) == (width < 32)


def test_items_are_folded_at_words():
    assert item("one two three four", 21) == "- one two three four"
    assert item("one two three four five", 21) == "- one two three four\n  five"
    assert item("one two three four five", None) == "- one two three four five"


def test_a_pipe_has_no_width(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "70")
    assert terminal_width() is None
    stream.isatty = lambda: True
    assert terminal_width() == 70
