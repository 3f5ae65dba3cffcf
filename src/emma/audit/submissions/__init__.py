"""Submissions: someone else's predictions, validated as a stranger's and scored as ours.

Targets always come from the frozen index and rows are joined by scene id, so a bundle can neither bring its own
targets nor gain by an order of rows.
"""

from emma.audit.submissions.bundle import MANIFEST_NAME, Bundle, Expected, SubmissionManifest
from emma.audit.submissions.checks import CHECKS, BundleCheck, validate
from emma.audit.submissions.scoring import Scored, require_own, score, write_scored

__all__ = [
    "CHECKS",
    "MANIFEST_NAME",
    "Bundle",
    "BundleCheck",
    "Expected",
    "Scored",
    "SubmissionManifest",
    "require_own",
    "score",
    "validate",
    "write_scored",
]
