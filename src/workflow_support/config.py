"""``config/config.yaml``: what a run of the workflow is, validated before any rule is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from common.errors import InputError, unknown
from common.files import parse
from emma.captures.settings import NO_PATH, CaptureEntry
from emma.data.release import release_names
from emma.tasks import Strict

#: A word, or a list of sets: an error speaks of the one that was meant.
_Captures = Annotated[
    Annotated[Literal["surrogate", "none"], Tag("word")] | Annotated[tuple[CaptureEntry, ...], Tag("sets")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "sets"),
]


#: ``--config key=true`` arrives as a word.
_YesNo = Annotated[bool, BeforeValidator(lambda value: value == "true" if value in ("true", "false") else value)]


class ProjectConfig(Strict):
    """The keys of ``config/config.yaml``; each can be set on the command line with ``--config key=value``."""

    release: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="name of a file in `releases/`")]
    seed: Annotated[
        int,
        Field(ge=0, description="draws references and bootstrap resamples; recorded in every run"),
    ]
    eval_split: Annotated[
        Literal["DEV", "HOLDOUT"],
        Field(
            description="`DEV`; or `HOLDOUT`, which needs the secret seed in `EMMA_HOLDOUT_SEED` (or a file named "
            "by `EMMA_HOLDOUT_SEED_FILE`) and a release that is committed to it"
        ),
    ]
    models: Annotated[
        tuple[str, ...],
        Field(
            min_length=1,
            description="names of files in `models/`; a `reference` of tasks that the release lacks is left out",
        ),
    ]
    submissions: Annotated[
        tuple[str, ...],
        Field(
            description="folders of submitted predictions, inside the project "
            "([docs/submissions.md](../docs/submissions.md))"
        ),
    ] = ()
    real_captures: Annotated[
        _Captures,
        Field(
            description="`surrogate` (synthetic recordings by another receiver), `none`, or a list of capture "
            "sets, with the keys of an entry below; [real_captures.yaml](real_captures.yaml) lists "
            "the known public ones"
        ),
    ] = "surrogate"
    probes: Annotated[
        _YesNo,
        Field(
            description="whether the page shows scores against the number of fit scenes; it then waits for "
            "`reports/probes.json`, whose fits take minutes"
        ),
    ] = False
    floor_events: Annotated[
        dict[str, Any] | None,
        Field(
            description="the EasyCom evaluation ([docs/floor_events.md](../docs/floor_events.md)); off unless it "
            "has `enabled: true`"
        ),
    ] = None

    @field_validator("real_captures")
    @classmethod
    def _each_once(cls, value: str | tuple[CaptureEntry, ...]) -> str | tuple[CaptureEntry, ...]:
        names = [] if isinstance(value, str) else [entry.name for entry in value]
        if not isinstance(value, str) and not names:
            raise ValueError("expected surrogate, none, or at least one set")
        if len(set(names)) != len(names):
            raise ValueError("a set occurs twice, expected each once")
        return value

    @field_validator("submissions")
    @classmethod
    def _inside(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(Path(path).is_absolute() or ".." in Path(path).parts for path in value):
            raise ValueError("expected folders inside the project")
        if any(NO_PATH.search(path) for path in value):
            raise ValueError("expected names of folders without braces, angle brackets and control characters")
        return value


def check_config(value: dict[str, Any], root: Path, source: str = "config/config.yaml") -> ProjectConfig:
    """Validate the workflow's effective configuration.

    Args:
        value: the configuration as the workflow sees it.
        root: the project's folder, where ``config/models`` and ``config/releases`` are.
        source: what to call it in an error.

    Raises:
        InputError: unknown key, wrong type, an unknown release or model, or a model named twice.
    """
    config = parse(ProjectConfig, value, source)
    if len(set(config.models)) != len(config.models):
        raise InputError(f"{source}: models: a model occurs twice, expected each once")
    for key, folder, names in (("release", "releases", [config.release]), ("models", "models", config.models)):
        for name in names:
            if not (root / "config" / folder / f"{name}.yaml").is_file():
                place = root / "config" / folder
                there = release_names(place) if key == "release" else sorted(path.stem for path in place.glob("*.yaml"))
                raise InputError(f"{source}: {key}: {unknown(name, there)}")
    return config
