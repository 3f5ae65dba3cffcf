"""Board and page of many models on the twelve tasks of v1.0: seconds to build, bytes, and how the times grow.

Scores are drawn (``synthetic_board.py``); everything after them is the project's code.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from measuring import Figure, Runs, deliver, figure, parser
from synthetic_board import Made, make

from emma.report.drawing import build_figures
from emma.report.page import build_page
from emma.results.records import Board

#: Most seconds of board and page together, most megabytes of a page, and what twice the models may cost.
SECONDS, MEGABYTES, GROWTH = 30.0, 5.0, 2.2


def timed(runs: Runs, work: Callable[[], object]) -> object:
    """What ``work`` gives, its times recorded."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    runs.add(time.perf_counter() - wall, time.process_time() - cpu)
    return found


def build(made: Made, runs: int) -> tuple[Runs, Runs, Board, str]:
    """Times of board and page over some runs, and both."""
    boards, pages = Runs(), Runs()
    for _ in range(runs):
        board = timed(boards, made.board)
        page = timed(pages, lambda board=board: build_page(board, build_figures(board, made.manifest)))
    return boards, pages, board, page


def rows(models: int, runs: int, resamples: int | None) -> list[Figure]:
    """The figures of so many models, beside half as many."""
    build(make(4, 100), 1)  # libraries are loaded
    half = build(make(models // 2, resamples), runs)
    boards, pages, board, page = build(make(models, resamples), runs)
    sums = [
        Runs([a + b for a, b in zip(*(own.wall for own in pair), strict=True)]) for pair in ((boards, pages), half[:2])
    ]
    for own, pair in zip(sums, ((boards, pages), half[:2]), strict=True):
        own.cpu = [a + b for a, b in zip(*(each.cpu for each in pair), strict=True)]
    size = len(page.encode()) / 1e6
    checks = {"models": len(board.models), "tasks": len(board.models[0].tasks), "megabytes_of_half": len(half[3]) / 1e6}
    parts = {"board_s": statistics.median(boards.wall), "page_s": statistics.median(pages.wall)}
    return [
        figure(
            "many_models",
            f"board and page of {models} models on 12 tasks",
            f"{SECONDS:g} s",
            ours=sums[0],
            target=SECONDS,
            sense="at most",
            checks=checks | parts,
        ),
        figure(
            "many_models",
            f"the same of {models} models",
            f"{models // 2} models",
            ours=sums[0],
            other=sums[1],
            target=GROWTH,
            sense="at most",
        ),
        figure(
            "many_models",
            f"the page of {models} models",
            f"{MEGABYTES:g} MB",
            ours=Runs([size], [0.0]),
            value=size,
            unit="MB",
            target=MEGABYTES,
            sense="at most",
        ),
    ]


def main() -> None:
    """Build both sizes, say the figures."""
    made = parser(__doc__, 3)
    made.add_argument("--models", type=int, default=200, help="rows of the larger board (default 200)")
    made.add_argument("--page", type=Path, help="keep the page here")
    options = made.parse_args()
    models, resamples = (8, 100) if options.tiny else (options.models, None)
    if options.page:
        board = make(models, 100)
        found = board.board()
        options.page.write_text(build_page(found, build_figures(found, board.manifest)))
    deliver(rows(models, options.runs, resamples), options)


if __name__ == "__main__":
    main()
