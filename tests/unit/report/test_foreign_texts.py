"""Texts of strangers in tables: no formula of a spreadsheet, no markup of a report."""

import pytest

from emma.captures.report import _plain
from emma.results.frames import _no_formula


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\t=1"])
def test_a_text_that_begins_like_a_formula_is_text(text):
    assert _no_formula(text) == f"'{text}"


def test_other_cells_stay():
    assert [_no_formula(cell) for cell in ("a=b", None, 1.5)] == ["a=b", None, 1.5]


def test_markup_is_shown_as_it_is_written():
    assert _plain("<script>\n[x](y) | z") == r"&lt;script&gt; \[x\](y) \| z"
