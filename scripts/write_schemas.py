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
from emma.audit.submissions.pull_request import ModelCard
from emma.backbones.config import ModelConfig
from emma.captures.settings import CaptureSet
from emma.data.release import HoldoutCommitment, ReleaseConfig
from rfgen.captures.array import AnyArray
from rfgen.captures.surrogate import Surrogate
from rfgen.captures.twins import Impulse, Keyed, Sounding
from workflow_support.config import ProjectConfig
from workflow_support.matched import SHARED, TAKEN

#: What the generator adds: records of the mappings that a capture set hands on to it, by the name of their tables.
RECIPES: tuple[type[BaseModel], ...] = (AnyArray, Sounding, Impulse, Keyed, Surrogate)
SCHEMAS: dict[str, type[BaseModel]] = {
    "card": ModelCard,
    "captures": CaptureSet,
    "config": ProjectConfig,
    "holdout": HoldoutCommitment,
    "model": ModelConfig,
    "release": ReleaseConfig,
    "submission": SubmissionManifest,
}
_REFERENCE = "#/$defs/{model}"
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
    waiting = [*SCHEMAS.values(), *RECIPES]
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
    if isinstance(value, tuple) and value:
        return f"`{json.dumps(value)}`"
    if value in (None, (), {}) or (isinstance(value, BaseModel) and value == type(value)()):
        return "none"
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def recipe_schema(record: type[BaseModel]) -> dict[str, Any]:
    """The schema of a recipe as its file holds it: without the set's own keys, and none of the scene's required."""
    schema = record.model_json_schema(ref_template=_REFERENCE)
    for name in TAKEN:
        schema["properties"].pop(name, None)
    kept = [name for name in schema["required"] if name not in (*TAKEN, *SHARED)]
    return schema | {"required": kept}


def schema_of(record: type[BaseModel]) -> dict[str, Any]:
    """The schema of a kind of file; a capture set's with the generator's recipes in it."""
    schema = record.model_json_schema(ref_template=_REFERENCE)
    if record is not CaptureSet:
        return schema
    for recipe in RECIPES:
        found = recipe_schema(recipe)
        for name, part in {**found.pop("$defs", {}), recipe.__name__: found}.items():
            if schema["$defs"].setdefault(name, part) != part:
                raise InputError(f"{name}: two records of this name, expected one")
    twin, surrogate = (schema["properties"][name] for name in ("twin", "surrogate"))
    kinds = [{"$ref": _REFERENCE.format(model=kind.__name__)} for kind in RECIPES if "kind" in kind.model_fields]
    twin["anyOf"] = [*kinds, *(option for option in twin["anyOf"] if "enum" in option)]
    written = {"$ref": _REFERENCE.format(model=Surrogate.__name__)}
    surrogate["anyOf"] = [written, *(option for option in surrogate["anyOf"] if option.get("type") == "null")]
    return schema


def table_of(record: type[BaseModel]) -> str:
    """The table of the keys that a file states of a record; InputError for one that has no description."""
    rows = ["| key | meaning | default |", "|---|---|---|"]
    # A record's own keys stand before those that it inherits.
    for key, field in sorted(
        record.model_fields.items(), key=lambda item: item[0] not in vars(record)["__annotations__"]
    ):
        if record in RECIPES and key in TAKEN:
            continue
        if not field.description:
            raise InputError(f"{record.__name__}.{key}: no description; expected Field(description=...)")
        default = "that of `scene`" if record in RECIPES and key in SHARED else default_of(field)
        rows.append(f"| `{key}` | {field.description.replace('|', chr(92) + '|')} | {default} |")
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
        write_json(arguments.out / f"{name}.json", schema_of(record))
    write_text(arguments.page, page)


if __name__ == "__main__":
    run_script(main)
