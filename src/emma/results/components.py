"""What an aggregate is the mean of, in few characters, and the sim-to-real gaps that stand beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from emma.evaluation.records import Score
from emma.results.records import Board, Difference, Gap, Row
from emma.tasks import TaskID

#: Most held-out values that a cell shows one by one; of more it shows the lowest and the highest.
MOST = 5
#: A score is marked where its one-sided p against the floor is not below this.
LEVEL = 0.05

#: What a sim-to-real gap is, wherever one stands beside an average.
GAP_NOTE = (
    "Gap: 100 (synthetic - captured) in points of the anchors' scale, between the board's score and the mean of the "
    "same folds' readouts on captured scenes, over the tasks in brackets; above zero is lost on captured scenes. "
    "Gap to matched scenes: the same for sets with a synthetic set of their own. Neither enters an average."
)

#: What the difference from a control is, wherever one stands beside an average.
CONTROL_NOTE = (
    "Over its control: OOD-avg less that of the same network with permuted weights, on the same folds, with the paired "
    "95 % interval: what pretraining bought."
)

#: The title of the table of rows that rest on predictions alone, on scenes whose labels are public.
APART_TITLE = "Submitted, predictions only: not ranked, since the labels of DEV are public"

#: The head of that column.
CONTROL_HEAD = "Over its control"

Number = Callable[[float | None], str]


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the words, up to an underscore, that all of them begin with.

    Example:
        >>> short_names(["E_URBAN", "E_RURAL"])
        ['URBAN', 'RURAL']
        >>> short_names(["U01", "U02"])
        ['U01', 'U02']
    """
    words = [name.split("_") for name in names]
    shared = 0
    while len(names) > 1 and all(len(own) > shared + 1 and own[shared] == words[0][shared] for own in words):
        shared += 1
    return ["_".join(own[shared:]) for own in words]


def components_head(names: Sequence[str]) -> str:
    """What the numbers of ``components_text`` are, for the head of a column."""
    return ", ".join(short_names(names)) if len(names) <= MOST else f"lowest to highest of {len(names)}"


def components_text(values: Iterable[Score], number: Number) -> str:
    """The scores of held-out values, one by one or, of many, the lowest and the highest with what is undefined."""
    scores = [value.score for value in values]
    if len(scores) <= MOST:
        return ", ".join(number(score) for score in scores)
    defined = [score for score in scores if score is not None]
    if not defined:
        return "none defined"
    undefined = len(scores) - len(defined)
    return f"{number(min(defined))} to {number(max(defined))}" + (f", {undefined} undefined" if undefined else "")


def gap_columns(board: Board) -> dict[tuple[str, str], list[Gap | None]]:
    """The columns of sim-to-real gaps that any row has, one gap per row: by title, and unit with the kind of sets."""
    blocks = [row.sim_to_real for row in board.models]
    kind = next((block.kind for block in blocks if block is not None), None)
    columns: dict[str, list[Gap | None]] = {
        "Gap": list(blocks),
        "Gap to matched scenes": [None if block is None else block.matched for block in blocks],
    }
    return {
        (title, f"points ({kind})"): gaps
        for title, gaps in columns.items()
        if any(gap is not None and gap.gap_percentage_points is not None for gap in gaps)
    }


def gap_texts(board: Board, none: str) -> dict[str, list[str]]:
    """The same columns as texts by their head: points and, in brackets, what they are the mean over."""
    return {
        ", ".join(head): [
            none
            if gap is None or gap.gap_percentage_points is None
            else f"{gap.gap_percentage_points:.1f} ({', '.join(gap.over)})"
            for gap in gaps
        ]
        for head, gaps in gap_columns(board).items()
    }


def has_controls(board: Board) -> bool:
    """Whether any row has an OOD average to compare with its control's."""
    return any(row.control is not None and row.control.ood_avg.difference is not None for row in board.models)


def difference_text(difference: Difference | None, number: Number, none: str) -> str:
    """A difference from a control with its interval in brackets."""
    if difference is None or difference.difference is None:
        return none
    low, high = difference.ci95 or (None, None)
    spread = "" if low is None else f" ({number(low)} to {number(high)})"
    return f"{number(difference.difference)}{spread}"


def control_texts(board: Board, number: Number, none: str) -> dict[str, list[str]]:
    """The column of differences from the controls by its head, one text per row; empty where there are none."""
    if not has_controls(board):
        return {}
    return {
        CONTROL_HEAD: [
            difference_text(row.control.ood_avg if row.control else None, number, none) for row in board.models
        ]
    }


def scale_ends(board: Board, task: TaskID) -> tuple[float | None, float | None]:
    """The score of the floor and that of the oracle on a task, the best of each where there are several."""
    ends: list[float | None] = []
    for kind in ("chance", "oracle"):
        blocks = [row.tasks[task] for row in board.models if row.kind == kind and task in row.tasks]
        scores = [block.score for block in blocks if block.score is not None]
        pick = min if blocks and blocks[0].direction == "lower" else max
        ends.append(pick(scores) if scores else None)
    return ends[0], ends[1]


def headroom(board: Board, row: Row, task: TaskID) -> float | None:
    """How far a task score has come from the floor (0) to the oracle (1); None where one of the three is missing.

    The floor's and the oracle's own rows have none.
    """
    floor, oracle = scale_ends(board, task)
    score = row.tasks[task].score if task in row.tasks else None
    if row.kind in ("chance", "oracle") or score is None or floor is None or oracle is None or floor == oracle:
        return None
    return (score - floor) / (oracle - floor)


def above_floor(row: Row, task: TaskID) -> bool | None:
    """Whether a task score beats the floor at ``LEVEL``, one-sided; None where it was not tested."""
    test = row.tasks[task].beats_floor if task in row.tasks else None
    return None if test is None else test.p < LEVEL
