"""Pages of the site that are written from the project: configuration, schemas, options of every program, changes."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
#: Pages of the project outside docs/, and where they stand on the site.
MOVED = {
    "config/README.md": "reference/configuration.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
#: A link of Markdown: what stands before its target, the target, and its anchor.
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(?=\))")
#: Programs that people call; the others are called by rules of the workflow.
CALLED = (
    "check_backbone",
    "check_captures",
    "check_submission",
    "commit_holdout",
    "draw_structure",
    "evaluate_floor_state_changes",
    "freeze",
    "install_text_data",
    "make_synthetic_floor_sessions",
    "open_holdout",
    "prepare_egospeak_floor_eval",
    "show_leaderboard",
    "verify",
    "write_schemas",
)
#: An attribute in a record's docstring: its name, and what stands behind it up to the next one.
ATTRIBUTE = re.compile(r"^ *(\w+): (.*(?:\n(?! *\w+: ).*)*)", re.MULTILINE)
#: Modules of scripts/ that are no programs.
NO_PROGRAMS = {"generator", "run"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file of docs/ holds."""
    # Of this checkout, wherever EMMA is installed from.
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "scripts")]
    for source, target in MOVED.items():
        files.append(File.generated(config, target, content=moved(source, target)))
    files.append(File.generated(config, "reference/options.md", content=options()))
    files.append(File.generated(config, "reference/schemas.md", content=schemas()))
    files.append(File.generated(config, "reference/board.md", content=board()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links out of docs/ to the pages that hold those files on the site."""
    return relinked(markdown, f"docs/{page.file.src_uri}", page.file.src_uri) if "](../" in markdown else markdown


def moved(source: str, target: str) -> str:
    """A page from outside docs/, with its links as its new place needs them."""
    return relinked((ROOT / source).read_text(encoding="utf-8"), source, target)


def relinked(text: str, source: str, target: str) -> str:
    """Links of a page of the project, relative to its file, as links of the site, relative to its page.

    A link to a file that is no page of the site becomes its text.
    """
    base, here = posixpath.dirname(source), posixpath.dirname(target)
    pages = {**MOVED, "README.md": "index.md"}

    def lead(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(base, match[2]))
        page = pages.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if page is None:
            return f"{match[1]}#missing-{path}"
        return f"{match[1]}{posixpath.relpath(page, here or '.')}{match[3] or ''}"

    return re.sub(r"\[([^\]]+)\]\(#missing-[^)]*\)", r"\1", LINK.sub(lead, text))


def options() -> str:
    """What `--help` says of every command of `emma` and of every program."""
    main = importlib.import_module("emma.cli.main")
    with mock.patch.dict(os.environ, {"COLUMNS": "84"}):
        commands = {f"emma {name}": helped(main.main, "emma", *name.split(), "--help") for name in main.COMMANDS}
        names = sorted({path.stem for path in (ROOT / "scripts").glob("*.py")} - NO_PROGRAMS)
        programs = {name: helped(importlib.import_module(name).main, f"{name}.py", "--help") for name in names}
    called = {f"scripts/{name}.py": programs.pop(name) for name in CALLED}
    ruled = {f"scripts/{name}.py": text for name, text in programs.items()}
    return "\n".join(
        [
            "# All options",
            "",
            "What `--help` says, of every command and program of this version. The commands of `emma` with examples:",
            "[the emma command](../commands.md).",
            "",
            *section("Commands of emma", commands),
            *section("Programs to call", called),
            *section("Programs of the workflow's rules", ruled),
        ]
    )


def helped(main: Any, *words: str) -> str:
    """What a program prints for these words of a command line."""
    told = io.StringIO()
    with mock.patch.object(sys, "argv", [*words]), contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        main()
    return told.getvalue()


def section(title: str, helps: dict[str, str]) -> list[str]:
    """A heading, and one heading with a block of text per program."""
    lines = [f"## {title}", ""]
    for name, text in helps.items():
        lines += [f"### `{name}`", "", "```text", text.rstrip(), "```", ""]
    return lines


def schemas() -> str:
    """The keys of every JSON schema of config/schemas/: kind, default and meaning."""
    lines = [
        "# JSON schemas",
        "",
        "The files of `config/schemas/`, with which an editor can validate configuration. They are written from the",
        "records that validate a run, by `python scripts/write_schemas.py`. The same keys with examples:",
        "[configuration](configuration.md).",
        "",
    ]
    for path in sorted((ROOT / "config/schemas").glob("*.json")):
        lines += [f"## {path.name}", "", *records(json.loads(path.read_text(encoding="utf-8")), path.name)]
    return "\n".join(lines)


def board() -> str:
    """The keys of leaderboard.json and of the records in it."""
    schema = importlib.import_module("emma.results.records").Board.model_json_schema()
    lines = [
        "# The board's file",
        "",
        "Every key of `leaderboard.json`. `leaderboard.schema.json` beside it is the same as a JSON Schema, which",
        "`emma verify` compares. What the main numbers mean: [read a board](../reading.md).",
        "",
        *records(schema),
    ]
    return "\n".join(lines)


def records(schema: dict[str, Any], name: str = "") -> Iterator[str]:
    """A heading, what it is, and a table of keys for a schema and each record in it; ``name`` tells headings apart."""
    for title, record in [(schema["title"], schema), *sorted(schema.get("$defs", {}).items())]:
        said, _, attributes = record.get("description", "").partition("Attributes:")
        yield from (f"### {title} in {name}" if name and record is not schema else f"### {title}", "", plain(said), "")
        if "enum" in record:
            yield from ("One of " + ", ".join(f"`{value}`" for value in record["enum"]) + ".", "")
        if "properties" in record:
            yield from table(record, dict(ATTRIBUTE.findall(attributes)))


def table(record: dict[str, Any], attributes: dict[str, str]) -> Iterator[str]:
    """One row per key of a record, with its own description or that of the record's attributes; no empty column."""
    required = set(record.get("required", ()))
    rows = [["key", "type", "default", "meaning"]]
    for key, value in record["properties"].items():
        default = f"`{json.dumps(value.get('default'))}`".replace("`null`", "none")
        nullable = key in required and {"type": "null"} in value.get("anyOf", ())
        meaning = plain(value.get("description", attributes.get(key, "")))
        type_of = f"{kind(value)} or null" if nullable else kind(value)
        rows.append([f"`{key}`", type_of, "required" if key in required else default, meaning])
    filled = [column for column in zip(*rows, strict=True) if any(column[1:]) and set(column[1:]) != {"required"}]
    first, *others = zip(*filled, strict=True)
    for cells in (first, ["---"] * len(first), *others):
        yield f"| {' | '.join(cells)} |"
    yield ""


def kind(value: dict[str, Any]) -> str:
    """The type of a key in a few words."""
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2]
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(kind(part) for part in value["anyOf"] if part.get("type") != "null"))
    if "enum" in value or "const" in value:
        return ", ".join(f"`{entry}`" for entry in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return f"list of {kind(value['items'])}" if value.get("items") else "list"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"mapping to {kind(inner)}" if isinstance(inner, dict) and inner else "mapping"
    return str(value.get("type", "any"))


def plain(text: str) -> str:
    """A description in one line that no table breaks at, without links, which lead from elsewhere."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", lambda found: f"`{found[1].strip('`')}`", " ".join(text.split()))
    return text.replace("``", "`").replace("|", r"\|")
