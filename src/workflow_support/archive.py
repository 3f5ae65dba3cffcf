"""Whether an archive can be made of what a run will give: asked before its first job."""

from __future__ import annotations

from common.errors import InputError
from workflow_support.plan import Plan


def check_archive(plan: Plan) -> None:
    """Refuse, before anything runs, what no archive could be made of.

    Raises:
        InputError: a run outside EMMA's own checkout, a checkout that is none or not clean, or a model, bundle, release
            or capture set whose files the commit lacks.
    """
    # Heavier than all else that a plan imports, and few runs make an archive.
    from emma.audit.archive import read_commit
    from emma.audit.archive_parts import check_committed, uncommitted

    if plan.root.resolve() != plan.home.resolve():
        raise InputError(f"{plan.root}: an archive is of one checkout, expected a run in {plan.home}")
    known = read_commit(plan.home).files
    others = [plan.release_path, *(f"config/captures/{name}.yaml" for name in plan.captures)]
    others += [path for name in plan.submissions for path in plan.bundle_files(name)]
    lacking = [*uncommitted(plan.models, known, plan.home), *(f"{path}: not in the commit" for path in others)]
    check_committed((line for line in lacking if line.partition(": ")[0] not in known), plan.home)
