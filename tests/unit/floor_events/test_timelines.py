"""What an auditor sees, in the terminal and on the page, is what the arrays say."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

EVALUATE = "evaluate_floor_state_changes"
ROWS = 600
CUTS = {"Session_3": [40, 90, *range(100, 400, 11)], "Session_1": [75]}


@pytest.fixture
def study(tmp_path, tools):
    """A study with some hundred candidates, censored and invalid ones among them."""
    tools.random_study(tmp_path / "study", rows=ROWS)
    return tmp_path / "study"


@pytest.fixture
def shown(call, study, tmp_path, tools):
    """Run the evaluator with more arguments; returns (stdout, audit page or None)."""
    cuts = study / "cuts.json"
    cuts.write_text(json.dumps(CUTS))

    def run(*more, runs=None):
        arguments = tools.evaluation_arguments(
            study,
            tmp_path / "out" / "x.json",
            **({"--run": runs} if runs else {}),
            **{"--recording-boundaries": [cuts]},
        )
        status, out, err = call(EVALUATE, *arguments, *more)
        assert status == 0, err
        page = tmp_path / "out" / "x_audit.html"
        return out, page.read_text() if page.exists() else None

    return run


def blocks(out):
    """Printed timelines as (title, detail lines, rows)."""
    found = []
    for block in out.split("\n\n"):
        lines = block.splitlines()
        if lines and re.match(r"\w+: (no_)?\w+ \d+, ", lines[0]):
            found.append((lines[0], lines[1:3], lines[4:]))
    return found


@pytest.mark.parametrize("timing", ["pre-boundary", "post-boundary"])
def test_printed_timelines(shown, study, timing):
    out, _ = shown("--print-event-timelines", 3, "--decision-timing", timing)
    assert max(len(line) for line in out.splitlines() if not line.startswith("wrote")) <= 80
    found = blocks(out)
    kinds = {title.split(": ")[1].split(" ")[0] for title, _, _ in found}
    assert kinds == {"response", "no_response", "short_resume", "yield", "continue"}
    assert all(sum(t.startswith(f"{run}: {kind} ") for t, _, _ in found) <= 3 for run in "ab" for kind in kinds)
    for title, details, rows in found:
        run, session = title.split(":")[0], title.split(", ")[1]
        target = np.load(study / "target" / f"{session}.npy")
        scores, valid = (np.load(study / run / kind / f"{session}.npy") for kind in ("pred", "valid"))
        anchor, source, first, last = map(int, re.findall(r"\d+", details[0])[:4])
        assert source == (anchor - 1 if timing == "pre-boundary" else anchor)
        head = "response" if target[anchor, 2] == 0 else "yield"
        pooled = []
        for line in rows:
            cells = line.split()
            t = int(cells[0])
            assert float(cells[1]) == pytest.approx(t / 5)
            assert cells[2:4] == [str(target[t, 2]), str(target[t, 1])]
            star = "*" in cells
            rest = [cell for cell in cells[4:] if cell != "*"]
            assert star == (first <= t <= last)
            if rest[0] != "-":
                wearer = float(scores[t, t - source - 1, 1])
                assert float(rest[0]) == pytest.approx(wearer if head == "response" else 1 - wearer, abs=5e-5)
                assert valid[t, t - source - 1]
                pooled += [float(rest[0])] if star else []
            assert rest[1] in {"yes", "no", "-"}
            marks = " ".join(rest[2:])
            assert ("A" in marks.split()) == (t == anchor)
            assert ("source" in marks) == (t == source)
            if "C/excluded" in marks:
                assert t > last
                assert target[t, 2] != target[t - 1, 2]
            if head in marks.split():
                assert first <= t <= last
                assert target[t, 1] != target[t - 1, 1]
        assert float(re.search(r"pooled score ([\d.]+)", details[1])[1]) == max(pooled)


def test_asked_for_nothing_prints_no_timeline(shown):
    out, page = shown()
    assert blocks(out) == []
    assert "no response event" not in out
    assert page is None


def test_long_names_fit_the_terminal(shown, study):
    runs = [f"{'long' * 30}={study / 'a'}", f"{'name' * 30}={study / 'b'}"]
    out, _ = shown("--print-event-timelines", 1, runs=runs)
    timeline = [line for line in out.splitlines() if not line.startswith("wrote")]
    assert max(map(len, timeline)) <= 80


class Page(HTMLParser):
    """Sections of the audit page with their drawing's elements and their table's rows."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.tags, self.cell, self.boxes = [], [], None, 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "section":
            self.sections.append({"data": attributes, "drawn": [], "rows": [], "checks": 0})
        elif self.sections:
            section = self.sections[-1]
            if tag in {"circle", "rect", "path"}:
                section["drawn"].append((tag, attributes))
            elif tag == "tr":
                section["rows"].append([])
            elif tag == "td":
                self.cell = section["rows"][-1]
                self.cell.append("")
            elif tag == "input":
                section["checks"] += 1

    def handle_endtag(self, tag):
        if tag == "td":
            self.cell = None

    def handle_data(self, text):
        if self.cell is not None:
            self.cell[-1] += text


LEFT, PITCH = 110, 26


def of_class(section, name):
    return [attributes for _, attributes in section["drawn"] if attributes.get("class") == name]


@pytest.mark.parametrize("timing", ["pre-boundary", "post-boundary"])
def test_the_page_shows_what_the_arrays_say(shown, study, timing):
    _, text = shown("--audit-sample", 40, "--seed", 3, "--decision-timing", timing)
    page = Page(text)
    assert len(page.sections) == 40
    for section in page.sections:
        data = section["data"]
        session, head = data["data-session"], data["data-head"]
        anchor, source, last = (int(data[f"data-{name}"]) for name in ("anchor", "source", "window-end"))
        target = np.load(study / "target" / f"{session}.npy")
        arrays = {r: [np.load(study / r / kind / f"{session}.npy") for kind in ("pred", "valid")] for r in "ab"}
        cuts = [0, *CUTS[session]]
        end = min([cut for cut in [*cuts, ROWS] if cut > anchor])
        rows = section["rows"][1:]
        first = int(rows[0][0])
        assert section["checks"] == 5
        assert [int(row[0]) for row in rows] == list(range(first, int(rows[-1][0]) + 1))
        circles, masks = {}, {}
        for tag, attributes in section["drawn"]:
            if tag == "circle":
                circles[attributes["data-run"], int(attributes["data-row"])] = attributes
            elif attributes.get("class") == "mask":
                masks[attributes["data-run"], int(attributes["data-row"])] = attributes
        for cells in rows:
            t = int(cells[0])
            assert (float(cells[1]), cells[2], cells[3]) == (t / 5, str(target[t, 2]), str(target[t, 1]))
            for place, run in enumerate("ab"):
                scores, valid = arrays[run]
                score, mask = cells[4 + 2 * place : 6 + 2 * place]
                if not source < t < min(end, source + 11):
                    assert score == mask == ""
                    assert (run, t) not in masks
                    continue
                assert mask == ("yes" if valid[t, t - source - 1] else "no")
                assert masks[run, t]["data-valid"] == ("1" if mask == "yes" else "0")
                assert (masks[run, t]["fill"] == "none") == (mask == "no")
                assert float(masks[run, t]["x"]) == LEFT + PITCH * (t - first) + PITCH / 2 - 4
                assert ((run, t) in circles) == (mask == "yes") == (score != "")
                if score:
                    wearer = float(scores[t, t - source - 1, 1])
                    expected = wearer if head == "response" else 1 - wearer
                    assert float(score) == expected
                    dot = circles[run, t]
                    assert float(dot["cx"]) == LEFT + PITCH * (t - first) + PITCH / 2
                    assert float(dot["cy"]) == pytest.approx(62 + 70 * (1 - expected), abs=0.006)
                    assert (dot["fill"] == "#fff") == (t > last)
            marks = cells[-1].split()
            assert ("A" in marks) == (t == anchor)
            assert ("source" in marks) == (t == source)
            assert ("C/excluded" in marks) == (str(t) == data["data-competing"])
            assert (head in marks) == (str(t) == data["data-outcome"])
        for name, column in (("others", 2), ("wearer", 1)):
            for box in of_class(section, name):
                row = int(box["data-row"])
                assert (box["fill"] == "#444") == (target[row, column] == 1)
                assert float(box["x"]) == LEFT + PITCH * (row - first)
        (window,) = of_class(section, "window")
        assert float(window["x"]) == LEFT + PITCH * (source + 1 - first)
        assert float(window["width"]) == PITCH * (last - source)
        for name in ("anchor", "competing", "outcome"):
            lines = of_class(section, name)
            row = data[f"data-{name}"]
            if row != "none" and int(row) <= int(rows[-1][0]):
                assert lines[0]["d"].startswith(f"M{LEFT + PITCH * (int(row) - first)} ")
            else:
                assert lines == []
        shown_cuts = [int(line["data-row"]) for line in of_class(section, "recording")]
        assert shown_cuts == [cut for cut in cuts if first <= cut <= int(rows[-1][0])]
        if data["data-outcome"] != "none":
            outcome = int(data["data-outcome"])
            assert source < outcome <= last
            assert data["data-competing"] == "none" or outcome < int(data["data-competing"])


def test_the_page_refers_to_nothing_outside_itself(shown):
    _, text = shown("--audit-sample", 3)
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<script|<link|<img|<iframe|xlink", text)
    assert not any(set(attributes) & {"src", "href"} for _, attributes in Page(text).tags)
    assert text.startswith("<!DOCTYPE html>")


def test_the_sample_follows_the_seed(shown):
    def anchors(text):
        return [
            (s["data"]["data-session"], s["data"]["data-head"], int(s["data"]["data-anchor"]))
            for s in Page(text).sections
        ]

    first = anchors(shown("--audit-sample", 6, "--seed", 1)[1])
    assert first == anchors(shown("--audit-sample", 6, "--seed", 1)[1])
    assert first != anchors(shown("--audit-sample", 6, "--seed", 2)[1])
    everything = anchors(shown("--audit-sample", 10000)[1])
    assert len(everything) == len(set(everything)) > 40
    assert set(first) < set(everything)


def test_omitted_candidates_are_drawn_too(shown):
    _, text = shown("--audit-sample", 10000)
    for kind in ("censored", "invalid", "no_response", "continue", "yield"):
        assert f": {kind}" in text


def test_names_are_text_and_not_markup(shown, study):
    runs = [f"<b>&=\"'={study / 'a'}".replace("=\"'", ""), f"b={study / 'b'}"]
    _, text = shown("--audit-sample", 2, runs=runs)
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text
