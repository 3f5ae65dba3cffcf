"""Write what follows from the records that validate configuration files: their JSON Schemas, and the tables of keys."""

from __future__ import annotations

import enum
import json
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

# Runs from a bare checkout, from any folder; an installed copy of the library does not shadow this one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from common.errors import InputError, OneLineParser, run_script
from common.files import read_text, write_json, write_text
from emma.audit.submissions import SubmissionManifest
from emma.backbones.load import ModelConfig
from emma.captures.settings import CaptureSet
from emma.data.release import ReleaseConfig
from workflow_support.config import ProjectConfig

SCHEMAS: dict[str, type[BaseModel]] = {
    "captures": CaptureSet,
    "config": ProjectConfig,
    "model": ModelConfig,
    "release": ReleaseConfig,
    "submission": SubmissionManifest,
}
_BEGIN, _END = "<!-- keys of {name}: written by scripts/write_schemas.py -->", "<!-- end of keys -->"


def records_in(kind: object) -> Iterator[type[BaseModel]]:
    """The records that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in typing.get_args(kind):
        yield from records_in(part)


def all_records() -> dict[str, type[BaseModel]]:
    """Each record of SCHEMAS and those within it, by name."""
    found: dict[str, type[BaseModel]] = {}
    waiting = list(SCHEMAS.values())
    while waiting:
        record = waiting.pop()
        if record.__name__ not in found:
            found[record.__name__] = record
            waiting += [part for field in record.model_fields.values() for part in records_in(field.annotation)]
    return found


def default_of(field: FieldInfo) -> str:
    """What stands for a key that is left out."""
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, tuple) and value and isinstance(value[0], enum.Enum):
        return "all" if value == tuple(type(value[0])) else ", ".join(f"`{item.value}`" for item in value)
    if value in (None, (), {}) or (isinstance(value, BaseModel) and value == type(value)()):
        return "none"
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def table_of(record: type[BaseModel]) -> str:
    """The table of a record's keys in Markdown; InputError for a key that has no description."""
    rows = ["| key | meaning | default |", "|---|---|---|"]
    # A record's own keys stand before those that it inherits.
    for key, field in sorted(
        record.model_fields.items(), key=lambda item: item[0] not in vars(record)["__annotations__"]
    ):
        if not field.description:
            raise InputError(f"{record.__name__}.{key}: no description; expected Field(description=...)")
        rows.append(f"| `{key}` | {field.description.replace('|', chr(92) + '|')} | {default_of(field)} |")
    return "\n".join(rows)


def with_tables(page: str, source: Path) -> str:
    """The page with the table of every record between its markers; InputError where a record has none, or two."""
    for name, record in sorted(all_records().items()):
        begin = _BEGIN.format(name=name)
        pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(_END)}", re.DOTALL)
        places = list(pattern.finditer(page))
        if len(places) != 1:
            raise InputError(f"{source}: expected one pair of markers: {begin} ... {_END}")
        page = f"{page[: places[0].start()]}{begin}\n{table_of(record)}\n{_END}{page[places[0].end() :]}"
    return page


def main() -> None:
    """Write one schema per kind of file, and the tables of keys."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("config/schemas"), help="folder of the schemas")
    parser.add_argument(
        "--page", type=Path, default=Path("config/README.md"), help="page whose tables are written anew"
    )
    arguments = parser.parse_args()
    page = with_tables(read_text(arguments.page), arguments.page)
    for name, record in SCHEMAS.items():
        write_json(arguments.out / f"{name}.json", record.model_json_schema())
    write_text(arguments.page, page)


if __name__ == "__main__":
    run_script(main)
