"""What a pull request to the results repository brings: ``submissions/NAME/`` with bundle, model card and standing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from common.doors import files_below, require_regular
from common.errors import InputError
from common.files import parse, read_json, read_yaml
from common.hashing import content_hash, file_sha256
from emma.audit.submissions.bundle import MANIFEST_NAME, Bundle, Expected
from emma.audit.submissions.checks import BundleCheck
from emma.audit.submissions.scoring import Scored
from emma.backbones.config import CONTROL_SUFFIX
from emma.data.published import PUBLISHED, load_published
from emma.data.release import load_manifest
from emma.results.layout import Layout, results_folder
from emma.tasks import Split, Strict, TaskID
from emma.version import HARNESS_VERSION

#: Where the repository keeps submissions, a folder per model.
FOLDER = "submissions"
CARD_NAME, STANDING_NAME = "card.yaml", "standing.json"

#: Most bytes of a whole submission.
LARGEST = 2**26

_Line = Annotated[str, Field(pattern=r"^\S(.*\S)?$", max_length=200)]
_Text = Annotated[str, Field(min_length=1, max_length=2000)]
_Link = Annotated[str, Field(pattern=r"^https://\S+$", max_length=300)]


class ModelCard(Strict):
    """The content of ``card.yaml``: what readers want to know of a model that did not run here."""

    description: Annotated[_Line, Field(description="one line for readers of the board")]
    authors: Annotated[tuple[_Line, ...], Field(min_length=1, max_length=100, description="who answers for it")]
    licence: Annotated[_Line, Field(description="of the weights, an SPDX expression, or `not released`")]
    training_data: Annotated[_Text, Field(description="what it was trained on, and how much of it")]
    link: Annotated[_Link | None, Field(description="where code or weights are")] = None
    paper: Annotated[_Link | None, Field(description="what to cite")] = None
    parameters: Annotated[Annotated[int, Field(ge=0)] | None, Field(description="of the backbone")] = None


class TaskStanding(Strict):
    """The score of a task, null where it is undefined."""

    metric: str
    unit: str
    score: float | None


class Standing(Strict):
    """The content of ``standing.json``: what a check found, which a later one can repeat.

    Attributes:
        standing: what the scores rest on.
        release: name of the data release.
        data_release_hash: its hash.
        harness_version: version that scored.
        eval_split: DEV or HOLDOUT.
        seed: the run's seed.
        bundle_sha256: content hash of the SHA-256 of every file of the bundle, by its place.
        tasks: the scores.
    """

    standing: Literal["submitted, predictions only"] = "submitted, predictions only"
    release: str
    data_release_hash: str
    harness_version: str
    eval_split: Literal["DEV", "HOLDOUT"]
    seed: int
    bundle_sha256: str
    tasks: dict[TaskID, TaskStanding]

    @classmethod
    def of(cls, bundle: Bundle, scored: Scored, expected: Expected) -> Standing:
        """The standing of a bundle that was scored."""
        files = [path for path in files_below(bundle.root) if path.name not in {CARD_NAME, STANDING_NAME}]
        return cls(
            release=expected.manifest.release,
            data_release_hash=expected.manifest.data_release_hash,
            harness_version=HARNESS_VERSION,
            eval_split=bundle.manifest.eval_split,
            seed=expected.seed,
            bundle_sha256=content_hash({path.relative_to(bundle.root).as_posix(): file_sha256(path) for path in files}),
            tasks={
                task: TaskStanding(metric=record.metric, unit=record.unit, score=record.score)
                for task, record in scored.record.tasks.items()
            },
        )

    def faults(self, path: Path) -> Iterator[str]:
        """Where the file ``path`` differs from this."""
        told = parse(Standing, read_json(path), path)
        for field, value in self:
            if (found := getattr(told, field)) != value:
                said = (
                    "other scores than its predictions have" if field == "tasks" else f"expected {value}, found {found}"
                )
                yield f"{path}: {field}: {said}"


class Card(BundleCheck):
    """A card says what the model is."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Read it."""
        path = bundle.root / CARD_NAME
        try:
            parse(ModelCard, read_yaml(path), path)
        except InputError as error:
            yield str(error)


class OwnFolder(BundleCheck):
    """The folder has the model's name, and holds what a submission is made of alone, within bounds."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Walk it; links and what is deeper are another check's."""
        root, model = bundle.root.absolute(), bundle.manifest.model
        if root.name != model:
            yield f"{bundle.root}: expected a folder of the model's name, {model}"
        known = {MANIFEST_NAME, CARD_NAME, STANDING_NAME}
        size = 0
        try:
            for path in files_below(bundle.root):
                place = path.relative_to(bundle.root)
                if place.as_posix() not in known and (place.parts[0], path.suffix) != ("predictions", ".parquet"):
                    yield f"{path}: not of a submission; expected {', '.join(sorted(known))} and predictions"
                size += require_regular(path)
        except InputError as error:
            yield str(error)
        if size > LARGEST:
            yield f"{bundle.root}: {size} bytes, expected at most {LARGEST}"


#: What a maintainer asks for beside what makes a bundle valid.
PULL_REQUEST_CHECKS: tuple[type[BundleCheck], ...] = (Card, OwnFolder)


def results_of(root: Path, data_release_hash: str, split: Split = Split.DEV) -> Path:
    """The folder below a project's ``results`` with the release of a hash.

    Raises:
        InputError: none is there, with what makes it where the release is published.
    """
    results = root / "results"
    within = "holdout" if split is Split.HOLDOUT else "."
    for folder in [place / within for place in (results, *sorted(results.glob("releases/*")))]:
        manifest = Layout(folder).manifest
        if manifest.is_file() and load_manifest(manifest).data_release_hash == data_release_hash:
            return folder
    published = load_published(root / "config/releases" / PUBLISHED)
    name = next((name for name, told in published.items() if told.data_release_hash == data_release_hash), None)
    if name is None:
        raise InputError(f"{results}: no release of hash {data_release_hash}, and none is published under it")
    manifest = Layout(results_folder(name, split.value)).manifest
    raise InputError(
        f"{results}: no results of release {name}, expected what `emma run --release {name} {manifest}` makes"
    )


def taken_names(root: Path, own: str) -> frozenset[str]:
    """Names that models of a project and other submissions have, with those of the models' controls."""
    models = {path.stem for path in root.glob("config/models/**/*.yaml")}
    others = {path.name for path in (root / FOLDER).glob("*") if path.is_dir() and path.name != own}
    return frozenset(models | {name + CONTROL_SUFFIX for name in models} | others)
