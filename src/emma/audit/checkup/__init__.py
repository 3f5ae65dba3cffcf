"""A look at one backbone before it is run: on a few scenes per task, everything that the benchmark asks of it."""

from collections.abc import Callable

from emma.audit.checkup.base import Check, Finding, Sample, Subject, spread_sample
from emma.audit.checkup.checks import CHECKS

__all__ = ["CHECKS", "Check", "Finding", "Sample", "Subject", "examine", "spread_sample"]


def examine(subject: Subject, report: Callable[[Finding], None] = lambda finding: None) -> list[Finding]:
    """Run every check in order and report each finding as it comes."""
    findings = []
    for kind in CHECKS:
        findings.append(kind().run(subject))
        report(findings[-1])
    return findings
