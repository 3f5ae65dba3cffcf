"""Which code made a result: digests of what a program can reach, and the versions of the libraries that it imports.

Python itself does not count: numbers come from libraries, and what the standard library gives here (hashes, JSON,
fractions) is the same in every version.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from common.hashing import content_hash, sha256
from workflow_support.imports import PACKAGES, SOURCE_ROOT, Reach, reach, reach_of, source_of, texts_of

#: Packages that are imported and decide no number: what pydantic and PyYAML read of the configuration stands, as read,
#: in the parameters of the rules; threadpoolctl holds libraries to the one thread that jobs have anyway.
_NEUTRAL = frozenset({"pydantic", "pydantic_core", "threadpoolctl", "typing_extensions", "yaml"})


@functools.cache
def _module_digest(module: str) -> str:
    path = source_of(module)
    return sha256(path.read_bytes()) if path.exists() else ""


@functools.cache
def _data_digests(package: str) -> dict[str, str]:
    """Digests of the files in a package's folder that are no Python (templates, tables), by their path."""
    folder = source_of(package).parent
    return {path.relative_to(SOURCE_ROOT).as_posix(): sha256(path.read_bytes()) for path in _data_files(folder)}


def _data_files(folder: Path) -> Iterator[Path]:
    """Files of a folder and of those below it that are no packages of their own."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        if path.is_dir():
            if not (path / "__init__.py").exists():
                yield from _data_files(path)
        elif path.suffix != ".py":
            yield path


@functools.cache
def _installed() -> tuple[Path, ...]:
    """Folders that describe installed distributions."""
    folders = (Path(entry) for entry in dict.fromkeys(sys.path) if entry)
    return tuple(info for folder in folders if folder.is_dir() for info in sorted(folder.glob("*.dist-info")))


@functools.cache
def _versions(package: str) -> dict[str, str]:
    """Versions of the distributions that hold an importable package; none where it is not installed.

    ``importlib.metadata.packages_distributions`` would read the lists of files of all that is installed, in 0.3 s; most
    packages stand in a distribution whose name begins with theirs.
    """
    listed = re.compile(rf"^{re.escape(package)}(?:/|\.py,|\.[^/,]*\.(?:so|pyd),)", re.MULTILINE)
    near = [info for info in _installed() if info.name.lower().startswith(package.lower())]
    for infos in (near, [info for info in _installed() if info not in near]):
        holding = [info.name.removesuffix(".dist-info").partition("-") for info in infos if _lists(info, listed)]
        if holding:
            # Of two by one name, the one that is found first is imported.
            return {name: version for name, _, version in reversed(holding)}
    return {}


def _lists(info: Path, pattern: re.Pattern[str]) -> bool:
    record = info / "RECORD"
    return record.is_file() and pattern.search(record.read_text(encoding="utf-8")) is not None


def _digest(texts: Mapping[str, bytes], reached: Reach) -> str:
    """Digest of texts by file name, of modules and their packages' data files, and of the versions of libraries."""
    packages = [module for module in reached.modules if source_of(module).name == "__init__.py"]
    data = {name: digest for package in packages for name, digest in _data_digests(package).items()}
    return content_hash(
        {
            "files": {name: sha256(text) for name, text in texts.items()},
            "modules": {module: _module_digest(module) for module in reached.modules},
            "data": data,
            "libraries": library_versions(reached.packages),
        }
    )


def library_versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions, by distribution, of those packages that can decide a number and are installed."""
    counted = (package for package in packages if package not in _NEUTRAL)
    return {name: version for package in counted for name, version in _versions(package).items()}


def code_digest(program: str | Path, factories: Sequence[str] = ()) -> str:
    """Digest of what decides a program's numbers.

    That is its own text and those of the modules beside it that it imports, its import closure within the project with
    the data files of its packages, and the versions of the libraries that any of them imports.

    Args:
        program: path of a Python program.
        factories: further modules that it loads by name.
    """
    texts = texts_of(program)
    own, loaded = reach_of(texts.values()), reach(factories)
    reached = Reach(*(sorted({*one, *other}) for one, other in zip(own, loaded, strict=True)))
    return _digest(texts, reached)


def outside_digest(root: str | Path, module: str) -> str:
    """Digest of a module that stands in the project's folder but in none of its packages.

    All Python files beside it count, what they import of the project's packages, and their libraries' versions.

    Returns:
        the digest; an empty text for the project's packages, which ``code_digest`` follows, and for installed ones.
    """
    stem = Path(root).joinpath(*module.split("."))
    if module.partition(".")[0] in PACKAGES or not (stem.is_dir() or stem.with_suffix(".py").is_file()):
        return ""
    folder = stem if stem.is_dir() else stem.parent
    # A module at the top of the project has the whole project beside it: only itself counts.
    beside = sorted(folder.glob("*.py")) if folder != Path(root) else [stem.with_suffix(".py")]
    texts = {path.name: path.read_bytes() for path in beside}
    return _digest(texts, reach_of(texts.values()))
