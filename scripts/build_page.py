"""Build what people read of a leaderboard: page, figures (SVG, PDF, PNG), tables (Markdown, LaTeX) and references."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from common.files import atomic, parse, read_json, write_text
from emma.data.release import load_manifest
from emma.report.captures import read_report
from emma.report.drawing import build_figures, images
from emma.report.latex import texts
from emma.report.page import build_page
from emma.report.probes import read_probes
from emma.results.records import Board


def main() -> None:
    """Read the board and write all of them; the page comes last."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--board", type=Path, required=True, help="leaderboard.json")
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest, for its anchors")
    parser.add_argument("--sim-to-real", type=Path, help="reports/sim_to_real.json, where captures were scored")
    parser.add_argument("--probes", type=Path, help="reports/probes.json, for scores against the number of fit scenes")
    parser.add_argument("--page", type=Path, required=True, help="leaderboard.html")
    parser.add_argument("--markdown", type=Path, required=True, help="leaderboard.md")
    parser.add_argument("--latex", type=Path, required=True, help="leaderboard.tex")
    parser.add_argument("--appendix", type=Path, required=True, help="leaderboard.appendix.tex")
    parser.add_argument("--bibtex", type=Path, required=True, help="leaderboard.bib")
    parser.add_argument("--figures", type=Path, required=True, help="folder of the figures")
    arguments = parser.parse_args()
    board = parse(Board, read_json(arguments.board), arguments.board)
    report = read_report(arguments.sim_to_real, board) if arguments.sim_to_real else None
    probes = read_probes(arguments.probes, board) if arguments.probes else None
    found = build_figures(board, load_manifest(arguments.manifest), report, probes)
    page = build_page(board, found, report)
    for name, content in images(found, [row.model for row in board.models]).items():
        with atomic(arguments.figures / name) as temporary:
            temporary.write_bytes(content)
    places = (arguments.markdown, arguments.latex, arguments.appendix, arguments.bibtex)
    for place, text in zip(places, texts(board).values(), strict=True):
        write_text(place, text)
    write_text(arguments.page, page)


if __name__ == "__main__":
    run_script(main)
