"""The checks of a submitted bundle, one class per thing that must hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator

from common.errors import InputError
from emma.audit.submissions.bundle import MANIFEST_NAME, Bundle, Expected, scores_of
from emma.data.folds import row_keys
from emma.readouts import make_readout
from emma.tasks import target_of
from emma.version import HARNESS_VERSION

#: Folders between a bundle and its predictions, and most files and folders in it.
_DEPTH, _MOST_FILES = 3, 20_000


class BundleCheck(ABC):
    """One thing that must hold of a bundle; all checks run, and each yields every fault that it finds."""

    @abstractmethod
    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Faults, one line each, the file first."""


class PlainFiles(BundleCheck):
    """The bundle holds its own plain files, no link, and none that no fold asks for."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Walk the folder without following a link, no deeper than predictions lie."""
        known = {bundle.path(*key) for key in expected.folds} | {bundle.root / MANIFEST_NAME}
        waiting, seen = [(bundle.root, 0)], 0
        while waiting:
            folder, depth = waiting.pop()
            for path in sorted(folder.iterdir()):
                seen += 1
                if path.is_symlink():
                    yield f"{path}: a link, expected a file of the bundle's own"
                elif path.is_dir():
                    if depth < _DEPTH:
                        waiting.append((path, depth + 1))
                    else:
                        yield f"{path}: a folder deeper than any prediction lies, expected none"
                elif not path.is_file():
                    yield f"{path}: no regular file, expected plain files alone"
                elif path.suffix == ".parquet" and path not in known:
                    yield f"{path}: belongs to no fold of the board"
            if seen > _MOST_FILES:
                yield f"{bundle.root}: more than {_MOST_FILES} files and folders, expected fewer"
                return


class SameRelease(BundleCheck):
    """Predictions were made on this release, by this harness, seed and evaluation split, under a name of its own."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Compare the manifest's fields."""
        path, declared = bundle.root / MANIFEST_NAME, bundle.manifest
        shared = {
            "data_release_hash": expected.manifest.data_release_hash,
            "harness_version": HARNESS_VERSION,
            "eval_split": expected.eval_split.value,
            "seed": expected.seed,
        }
        for field, value in shared.items():
            if getattr(declared, field) != value:
                yield f"{path}: {field}: expected {value}, found {getattr(declared, field)}"
        # Names that are equal but for case are one file where a file system says so, and one model to a reader.
        if declared.model.lower() in map(str.lower, expected.taken):
            yield f"{path}: model: {declared.model} stands on the board already, expected a name of its own"
        for task in declared.readouts:
            if task not in expected.manifest.tasks:
                yield f"{path}: readouts.{task}: not a task of release {expected.manifest.release}"


class DeclaredCapacity(BundleCheck):
    """Each task's readout is of the pinned kind and within the pinned capacity."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Compare the declared readouts with the TaskSpecs."""
        path = bundle.root / MANIFEST_NAME
        for task, declared in bundle.manifest.readouts.items():
            if task not in expected.manifest.tasks:
                continue
            spec = expected.manifest.tasks[task]
            field = f"{path}: readouts.{task}"
            if declared.kind != spec.readout.kind:
                yield f"{field}.kind: expected {spec.readout.kind}, found {declared.kind}"
            if declared.embedding_dim > spec.readout.max_embedding_dim:
                pinned = spec.readout.max_embedding_dim
                yield f"{field}.embedding_dim: {declared.embedding_dim} is wider than the pinned {pinned}"
            most = min(make_readout(spec).parameters(declared.embedding_dim), spec.readout.max_parameters)
            if declared.parameters > most:
                yield f"{field}.parameters: {declared.parameters}, expected at most {most} for this width"


class Readable(BundleCheck):
    """Every fold of every declared task has a complete Parquet file of the expected columns."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Read each file within bounds."""
        for key in expected.of(bundle):
            problem = bundle.problem(*key)
            if problem is not None:
                yield problem


class CompleteIds(BundleCheck):
    """Every fold predicts each of its queries once, in every turn of enrolment, and nothing else."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Compare the ids with the fold's."""
        for key in expected.of(bundle):
            table = bundle.table(*key)
            if table is None:
                continue
            ids, path = row_keys(table).to_pylist(), bundle.path(*key)
            queries = set(row_keys(expected.folds[key].queries).to_pylist())
            if len(set(ids)) != len(ids):
                twice, _ = Counter(ids).most_common(1)[0]
                yield f"{path}: scene_id: {twice[:80]} occurs twice, expected unique ids"
            if lost := queries - set(ids):
                yield f"{path}: scene_id: {len(lost)} missing, first {min(lost)}"
            if foreign := set(ids) - queries:
                yield f"{path}: scene_id: {len(foreign)} that the fold does not score, first {min(foreign)[:80]}"


class ProperScores(BundleCheck):
    """Every prediction has the task's number of scores, finite numbers or short texts; angles lie in [0, 360)."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Look at every entry."""
        for key in expected.of(bundle):
            table, path, spec = bundle.table(*key), bundle.path(*key), expected.manifest.tasks[key[0]]
            if table is None:
                continue
            try:
                scores = target_of(spec).read(scores_of(table, target_of(spec)), f"{path}: scores")
            except InputError as error:
                yield str(error)
                continue
            if (fault := target_of(spec).score_fault(scores)) is not None:
                yield f"{path}: scores: {fault}"


CHECKS: tuple[type[BundleCheck], ...] = (
    PlainFiles,
    SameRelease,
    DeclaredCapacity,
    Readable,
    CompleteIds,
    ProperScores,
)


def validate(bundle: Bundle, expected: Expected) -> list[str]:
    """Every fault that any check finds, one line each; none for a bundle that can be scored."""
    return [fault for check in CHECKS for fault in check().faults(bundle, expected)]
