"""What people read of the board is drawn again and compared: no number, script or figure of its own gets through."""

import shutil

import emma_miniature as miniature
import pytest

from emma.audit.verify import Level, Results, Verdict, verify
from emma.audit.verify import page as pages
from emma.audit.verify.page import Page


@pytest.fixture(scope="module")
def shown(pristine, tmp_path_factory):
    """The miniature with its page."""
    project = tmp_path_factory.mktemp("shown") / "project"
    shutil.copytree(pristine, project)
    miniature.publish_page(project / "results")
    return project


@pytest.fixture(scope="module")
def drawn(shown):
    """What the board gives, drawn once for all tests."""
    return Page._again(Results(shown / "results", shown))


@pytest.fixture
def results(shown, drawn, tmp_path, monkeypatch):
    shutil.copytree(shown, tmp_path / "project")
    monkeypatch.setattr(Page, "_again", staticmethod(lambda _: drawn))
    return Results(tmp_path / "project/results", tmp_path / "project")


def edited(name, old, new):
    def change(root):
        path = root / name
        content = path.read_bytes()
        assert old in content, name
        path.write_bytes(content.replace(old, new, 1))

    return change


CHANGES = {
    "handler in a figure": ("figures/ranking.svg", edited("figures/ranking.svg", b"<svg ", b'<svg onload="alert(1)" ')),
    "bytes of a PNG": ("figures/ranking.png", edited("figures/ranking.png", b"IEND", b"IENE")),
    "bytes of a PDF": ("figures/ranking.pdf", edited("figures/ranking.pdf", b"%%EOF", b"%%EOG")),
    "figure of another board": (
        "figures/ranking.svg",
        lambda root: shutil.copy(root / "figures/jackknife.svg", root / "figures/ranking.svg"),
    ),
    "figure that is none": ("figures/more.svg", lambda root: (root / "figures/more.svg").write_text("<svg/>")),
    "figure removed": ("figures/ranking.svg", lambda root: (root / "figures/ranking.svg").unlink()),
    "number on the page": ("leaderboard.html", edited("leaderboard.html", b"0.", b"1.")),
    "number in the Markdown": ("leaderboard.md", edited("leaderboard.md", b"0.", b"1.")),
    "row dropped from the LaTeX": ("leaderboard.tex", edited("leaderboard.tex", b"few", b"")),
    "row dropped from the appendix": (
        "leaderboard.appendix.tex",
        edited("leaderboard.appendix.tex", b"few", b""),
    ),
    "reference of another release": ("leaderboard.bib", edited("leaderboard.bib", b"release ", b"release v")),
    "page removed": ("leaderboard.html", lambda root: (root / "leaderboard.html").unlink()),
}


def test_what_the_board_gives_is_no_fault(shown):
    (outcome,) = verify(Results(shown / "results", shown), [Page()])
    assert (outcome.faults, outcome.missed) == ((), ())
    assert outcome.checked > 20


@pytest.mark.parametrize("kind", CHANGES)
def test_another_page_or_figure_is_named(results, kind):
    path, change = CHANGES[kind]
    change(results.root)
    (fault,) = verify(results, [Page()])[0].faults
    assert fault.startswith(f"{results.root / path}: ")


def test_what_other_libraries_drew_is_counted_and_not_verified(results, monkeypatch):
    (results.project / "envs").mkdir()
    (results.project / "envs/requirements.txt").write_text("altair==0.1\n")
    edited("leaderboard.html", b"0.", b"1.")(results.root)
    (outcome,) = verify(results, [Page()])
    assert outcome.faults == ()
    assert Verdict.of([outcome], Level.RESCORED).status == 3
    assert pages._locked(None)
