"""The page's words and the glossary of the documentation agree; every task and metric has words."""

import re
from pathlib import Path

from emma.metrics import METRICS
from emma.report.terms import QUESTIONS, TERMS, TITLES, short_metric
from emma.tasks import TaskID

ROOT = Path(__file__).resolve().parents[3]


def glossary():
    """What the glossary says, by each name of a term."""
    lines = (ROOT / "docs/glossary.md").read_text().splitlines()
    rows = [re.match(r"\| (.+?) \| (.+) \|$", line) for line in lines if line.startswith("| ")][1:]
    return {name: row[2] for row in rows for name in row[1].split(", ")}


def test_what_the_page_says_of_a_term_is_how_the_glossary_begins():
    found = glossary()
    assert len(found) > 50
    for term, text in TERMS.items():
        begins = (text[0].lower() + text[1:]).removesuffix(".")
        assert found[term].startswith(begins), term


def test_the_glossary_is_in_order():
    names = [
        re.match(r"\| (.+?) \|", line)[1]
        for line in (ROOT / "docs/glossary.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    assert names[1:] == sorted(names[1:], key=str.casefold)


def test_every_task_has_words_and_no_metric_a_name_that_is_none():
    assert {*TITLES} == {*QUESTIONS} == {*TaskID}
    assert all(len(short_metric(name)) <= 13 for name in METRICS)
    from emma.report.terms import METRICS as SHORT

    assert {*SHORT} <= {*METRICS}


def test_every_term_that_the_page_explains_is_one(wide_page):
    explained = re.findall(r'<abbr title="([^"]+)"', wide_page)
    assert len(explained) >= 10
    assert {text.replace("&#39;", "'") for text in explained} <= {*TERMS.values()}
