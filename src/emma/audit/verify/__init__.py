"""Verify finished results without trusting who made them: every hash, fold, fit and number, computed again.

A check is a class; ``CHECKS`` lists them in the order in which a fault of one explains those of the next. All run, and
every fault is reported, with its path first.
"""

from collections.abc import Callable, Iterable

from emma.audit.verify.base import Check, Outcome
from emma.audit.verify.captures import Captures, GapReport
from emma.audit.verify.data import Channels, Indexes, Inventory, Manifest, Scenes
from emma.audit.verify.fits import EmbeddingTables, Guards, Predictions, Readouts, Splits
from emma.audit.verify.levels import Level, Verdict
from emma.audit.verify.models import Weights
from emma.audit.verify.page import Page
from emma.audit.verify.results import Results
from emma.audit.verify.scores import BoardFiles, Provenance, Runs, Scores, Stress

__all__ = ["CHECKS", "Check", "Level", "Outcome", "Results", "Verdict", "verify"]

CHECKS: tuple[type[Check], ...] = (
    Manifest,
    Inventory,
    Indexes,
    Channels,
    Scenes,
    Weights,
    Splits,
    Guards,
    EmbeddingTables,
    Provenance,
    Predictions,
    Readouts,
    Scores,
    Runs,
    BoardFiles,
    Stress,
    Captures,
    GapReport,
    Page,
)


def verify(
    results: Results, checks: Iterable[Check] | None = None, tell: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """Run every check.

    Args:
        results: what to verify.
        checks: the checks; all of ``CHECKS`` by default.
        tell: called with each outcome as it comes.

    Returns:
        the outcomes in order; the results hold where every one passed.
    """
    outcomes: list[Outcome] = []
    known: set[str] = set()
    for check in [kind() for kind in CHECKS] if checks is None else checks:
        with check.item(results.root):
            check.checked -= 1
            check.run(results)
        outcome = check.outcome(known)
        known |= set(check.faults)
        outcomes.append(outcome)
        tell(outcome)
    return outcomes
