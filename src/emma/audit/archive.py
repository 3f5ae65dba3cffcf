"""The release archive: code, configuration and results in one zip whose bytes follow from its inputs alone.

It is a Workflow Run RO-Crate (https://w3id.org/ro/wfrun/workflow/0.5); ``SHA256SUMS`` lists every other member.
"""

from __future__ import annotations

import io
import json
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from common.errors import InputError
from common.files import atomic, parse
from common.hashing import sha256
from common.zips import opened_zip
from emma.audit.archive_parts import GUIDE, WEIGHTS, WITH_EMBEDDINGS, guide, weights_record
from emma.audit.verify import Results
from emma.audit.verify.captures import capture_pairs
from emma.audit.verify.data import expected_files
from emma.data.foreign import inspect_parquet
from emma.results.layout import Layout
from emma.results.records import Board

SUMS, CRATE = "SHA256SUMS", "ro-crate-metadata.json"

#: Bounds of an archive from elsewhere: members, bytes of one, and bytes of all, as they are unpacked. One with
#: embeddings, which hardly shrink, may unpack to MOST_GROWTH times its own size.
MOST_MEMBERS, LARGEST_MEMBER, LARGEST_TOTAL, MOST_GROWTH = 50_000, 2**28, 2**31, 4

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold


@dataclass(frozen=True)
class Commit:
    """A clean commit: its hash, the day of it (ISO 8601), and the content of its tree by name."""

    digest: str
    date: str
    files: dict[str, tuple[bytes, bool]]


def read_commit(project: str | Path) -> Commit:
    """Read the commit that is checked out.

    Links of the tree are written out as the files that they lead to, for an archive holds none.

    Raises:
        InputError: no git checkout, or files that differ from the commit or that it does not know.
    """
    dirty = _git(project, "status", "--porcelain").decode().splitlines()
    if dirty:
        names = ", ".join(line[3:] for line in dirty[:5])
        raise InputError(f"{project}: {len(dirty)} files differ from the commit ({names}), expected a clean checkout")
    digest = _git(project, "rev-parse", "HEAD").decode().strip()
    date = _git(project, "show", "-s", "--format=%cI", "HEAD").decode().strip()
    files: dict[str, tuple[bytes, bool]] = {}
    links: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(_git(project, "archive", "--format=tar", "HEAD"))) as tree:
        for member in tree.getmembers():
            if member.issym():
                links[member.name] = (PurePosixPath(member.name).parent / member.linkname).as_posix()
            elif (content := tree.extractfile(member)) is not None:
                files[member.name] = (content.read(), bool(member.mode & stat.S_IXUSR))
    for name, target in links.items():
        under = {other: content for other, content in files.items() if other.startswith(f"{target}/")}
        files |= {name + other.removeprefix(target): content for other, content in under.items()}
    return Commit(digest, date, files)


def _git(project: str | Path, *arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=project, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise InputError("git: no such program, expected it to read the commit") from None
    except subprocess.CalledProcessError as error:
        raise InputError(f"{project}: git {arguments[0]}: {' '.join(error.stderr.decode().split())}") from None


def result_files(results: Results, embeddings: bool = False) -> dict[str, Path]:
    """Files of finished results by their name below the root; InputError names those that are missing.

    Args:
        results: the results.
        embeddings: whether those of every model are among them.
    """
    names = expected_files(results)
    plain = Layout("")
    names |= {plain.board_as(kind).as_posix() for kind in ("html", "md", "tex", "appendix.tex", "bib")}
    for model in [model for model in results.models() if embeddings and not results.is_submitted(model)]:
        paths = [plain.embeddings(model, task) for task in results.tasks_of(model)]
        paths += [plain.capture_embeddings(name, own) for name, own in capture_pairs(results) if own == model]
        names |= {path.as_posix() for path in paths}
    found = [path for pattern in Layout.archived for path in results.root.glob(pattern) if path.is_file()]
    # Snakemake leaves a mark of its own in a folder that a rule makes.
    held = [path for path in found if not path.name.startswith(".")]
    names |= {path.relative_to(results.root).as_posix() for path in held} - Layout.measured
    files = {name: results.layout.at(*name.split("/")) for name in sorted(names)}
    if missing := [name for name, path in files.items() if not path.is_file()]:
        raise InputError(f"{results.root}: {len(missing)} files missing: {', '.join(missing[:10])}")
    if large := [name for name, path in files.items() if path.stat().st_size > LARGEST_MEMBER]:
        raise InputError(f"{results.root}: {large[0]}: over the {LARGEST_MEMBER} bytes that an archive's reader takes")
    return files


def describe(commit: Commit, board: Board, place: str, names: list[str]) -> bytes:
    """The RO-Crate metadata.

    Args:
        commit: the code.
        board: the leaderboard.
        place: where the results are, below the archive's root.
        names: every file of the archive but this one and the sums.
    """
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    crate = ROCrate()
    root = crate.root_dataset
    root["name"] = f"EMMA release {board.release}"
    root["description"] = "Code, configuration, splits, fits, predictions and leaderboard of one EMMA run. " + " ".join(
        board.caveats
    )
    root["datePublished"] = commit.date
    root["version"], root["identifier"] = commit.digest, board.data_release_hash
    root["license"] = {"@id": "https://spdx.org/licenses/Apache-2.0"}
    profiles = ("process/0.5", "workflow/0.5")
    root["conformsTo"] = [
        crate.add(ContextEntity(crate, f"https://w3id.org/ro/wfrun/{profile}", properties={"@type": "CreativeWork"}))
        for profile in profiles
    ]
    workflow = crate.add_workflow(dest_path="Snakefile", main=True, lang="snakemake")
    workflow["name"] = "EMMA: from frozen scenes to the leaderboard"
    files = {name: crate.add_file(dest_path=name) for name in names if name != "Snakefile"}
    config = [files[name] for name in names if name.startswith("config/") and name in files]
    outputs = {path.as_posix() for path in (Layout(place).board, Layout(place).board_as("csv"))}
    action = crate.add_action(
        workflow,
        identifier="#run",
        object=config,
        result=[files[name] for name in names if name in outputs],
        properties={"name": f"Run of release {board.release}, {board.eval_split}, seed {board.seed}"},
    )
    root["mentions"] = [action]
    return json.dumps(_ordered(crate.metadata.generate()), indent=1, ensure_ascii=False).encode() + b"\n"


def _ordered(document: Mapping[str, Any]) -> dict[str, Any]:
    """The crate with its entities in the order of their ids, and without a time of its making."""
    graph = [dict(sorted(entity.items())) for entity in document["@graph"]]
    for entity in graph:
        for key in ("dateCreated", "dateModified", "sdDatePublished"):
            entity.pop(key, None)
    return {**document, "@graph": sorted(graph, key=lambda entity: entity["@id"])}


def build(project: str | Path, results: Results, out: str | Path, embeddings: bool = False) -> None:
    """Write the archive; the same commit and results give the same bytes.

    Args:
        project: a clean checkout.
        results: its results.
        out: the archive.
        embeddings: whether it carries them, so that a reader can score them again.

    Raises:
        InputError: a checkout that is not clean, results outside the project, or files that are missing.
    """
    root = Path(project).resolve()
    if not results.root.resolve().is_relative_to(root):
        raise InputError(f"{results.root}: expected results inside the project {project}")
    place = results.root.resolve().relative_to(root).as_posix()
    outputs = result_files(results, embeddings)
    commit = read_commit(project)
    board = parse(Board, results.document(results.layout.board), results.layout.board)
    members: dict[str, bytes | Path] = {name: content for name, (content, _) in commit.files.items()}
    members |= {f"{place}/{name}": path for name, path in outputs.items()}
    own = Layout(place).archive(board.release, WITH_EMBEDDINGS if embeddings else "").name
    members[GUIDE] = guide(own, commit.digest, board.data_release_hash, embeddings)
    members[WEIGHTS] = weights_record(results)
    members[CRATE] = describe(commit, board, place, sorted(members))
    sums = [f"{sha256(_content(members[name]))}  {name}\n" for name in sorted(members)]
    members[SUMS] = "".join(sums).encode()
    programs = {name for name, (_, runs) in commit.files.items() if runs}
    with atomic(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = (stat.S_IFREG | (0o755 if name in programs else 0o644)) << 16
            archive.writestr(info, _content(members[name]), compresslevel=6)


def _content(member: bytes | Path) -> bytes:
    return member if isinstance(member, bytes) else member.read_bytes()


def unpack(path: str | Path, target: Path) -> None:
    """Unpack an archive from elsewhere below ``target``, within bounds that are checked before anything is read.

    Raises:
        InputError: no zip; more or larger members than bounded; a name that is absolute, leaves the archive or equals
            another but for case; a packing other than deflate; a link; a sum that differs; a member without a sum; a
            Parquet file that holds more than a table can.
    """
    try:
        with opened_zip(path, path, MOST_MEMBERS) as archive:
            infos = _checked(path, archive.infolist(), MOST_GROWTH * Path(path).stat().st_size)
            for info in infos:
                _extract(path, archive, info, target)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, OSError) as error:
        raise InputError(f"{path}: expected a complete zip ({error})") from None
    except Exception as error:
        # zlib and lzma raise errors of their own on broken data.
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: expected a complete zip ({type(error).__name__}: {error})") from None
    for info in infos:
        if info.filename.endswith(".parquet"):
            try:
                inspect_parquet(target / info.filename)
            except InputError as error:
                raise InputError(f"{path}: {str(error).removeprefix(f'{target}/')}") from None


def _checked(path: str | Path, infos: list[zipfile.ZipInfo], grown: int) -> list[zipfile.ZipInfo]:
    total = sum(info.file_size for info in infos)
    if total > (most := max(LARGEST_TOTAL, grown)):
        raise InputError(f"{path}: unpacks to {total} bytes, expected at most {most}")
    for info in infos:
        name = info.filename
        where = f"{path}: {name!r}"
        parts = PurePosixPath(name).parts
        if not name or name.startswith("/") or "\\" in name or "\0" in info.orig_filename or ":" in parts[0]:
            raise InputError(f"{where}: expected a name below the archive's root")
        if ".." in parts or "." in name.split("/") or "" in name.split("/")[:-1]:
            raise InputError(f"{where}: leaves the archive's root, expected a plain name")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise InputError(f"{where}: a link or device, expected plain files")
        if info.file_size > LARGEST_MEMBER:
            raise InputError(f"{where}: {info.file_size} bytes, expected at most {LARGEST_MEMBER}")
        if info.flag_bits & 1:
            raise InputError(f"{where}: encrypted, expected plain files")
    return [info for info in infos if not info.is_dir()]


def _extract(path: str | Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    out = target / info.filename
    out.parent.mkdir(parents=True, exist_ok=True)
    left = info.file_size
    with archive.open(info) as source, out.open("wb") as sink:
        while chunk := source.read(2**20):
            left -= len(chunk)
            if left < 0:
                raise InputError(
                    f"{path}: {info.filename}: unpacks to more than the {info.file_size} bytes it declares"
                )
            sink.write(chunk)
    if info.external_attr >> 16 & stat.S_IXUSR:
        out.chmod(0o755)


def check_sums(root: Path) -> Iterator[str]:
    """Faults of an unpacked archive against its ``SHA256SUMS``, one line each, the file first."""
    sums = root / SUMS
    if not sums.is_file():
        yield f"{sums}: no such file"
        return
    listed: dict[str, str] = {}
    for line in sums.read_text(encoding="utf-8", errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    present = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
    present.pop(SUMS)
    for name in sorted({*listed, *present}):
        if name not in present:
            yield f"{root / name}: listed in {SUMS}, no such file"
        elif name not in listed:
            yield f"{root / name}: not listed in {SUMS}"
        elif sha256(present[name].read_bytes()) != listed[name]:
            yield f"{root / name}: its SHA-256 is not that of {SUMS}"


def find_results(root: Path, path: str | Path) -> Path:
    """Where the results of an unpacked archive are; InputError where there is not exactly one run."""
    runs = Layout.find(root)
    if len(runs) != 1:
        raise InputError(f"{path}: {len(runs)} release manifests below results, expected one")
    return runs[0]
