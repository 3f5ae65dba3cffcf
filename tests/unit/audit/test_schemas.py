"""The committed JSON Schemas are those of the records, and the shipped files pass them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from emma.data.extends import read_extended
from emma.data.release import release_names

ROOT = Path(__file__).resolve().parents[3]
FILES = [
    ("config", ROOT / "config/config.yaml"),
    *(("captures", path) for path in sorted((ROOT / "config/captures").glob("*.yaml"))),
    *(("model", path) for path in sorted((ROOT / "config/models").glob("*.yaml"))),
    *(("release", ROOT / f"config/releases/{name}.yaml") for name in release_names(ROOT / "config/releases")),
    *(("holdout", path) for path in sorted((ROOT / "config/releases").glob("*.holdout.yaml"))),
]


def test_committed_schemas_and_tables_match_the_records(tmp_path):
    page = tmp_path / "README.md"
    shutil.copy(ROOT / "config/README.md", page)
    out = tmp_path / "schemas"
    command = [sys.executable, str(ROOT / "scripts/write_schemas.py"), "--out", str(out), "--page", str(page)]
    subprocess.run(command, check=True)
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    assert written == {path.name: path.read_bytes() for path in (ROOT / "config/schemas").iterdir()}
    assert page.read_bytes() == (ROOT / "config/README.md").read_bytes(), "run scripts/write_schemas.py"


def test_a_record_without_a_table_is_refused(tmp_path):
    page = tmp_path / "README.md"
    page.write_text((ROOT / "config/README.md").read_text().replace("keys of Anchors:", "keys of nothing:"))
    command = [
        sys.executable,
        str(ROOT / "scripts/write_schemas.py"),
        "--out",
        str(tmp_path / "out"),
        "--page",
        str(page),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, (tmp_path / "out").exists()) == (2, False)
    assert ended.stderr.startswith(f"{page}: expected one pair of markers: <!-- keys of Anchors")


@pytest.mark.parametrize(("kind", "path"), FILES, ids=[path.name for _, path in FILES])
def test_shipped_files_pass_and_unknown_keys_do_not(kind, path):
    schema = json.loads((ROOT / f"config/schemas/{kind}.json").read_text())
    # A release's schema is that of the whole, with what it extends.
    content = read_extended(path) if kind == "release" else yaml.safe_load(path.read_text())
    value = json.loads(json.dumps(content))
    jsonschema.validate(value, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value | {"surprise": 1}, schema)


@pytest.mark.parametrize(
    ("name", "key"),
    [("wsr_aoa", "twin"), ("uwb_los", "twin"), ("rtl433_amc", "twin"), ("surrogate_aoa", "surrogate")],
)
def test_recipes_of_a_capture_set_are_in_its_schema(name, key):
    schema = json.loads((ROOT / "config/schemas/captures.json").read_text())
    value = json.loads(json.dumps(yaml.safe_load((ROOT / f"config/captures/{name}.yaml").read_text())))
    jsonschema.validate(value, schema)
    inner = next(part for part, content in value[key].items() if isinstance(content, dict))
    for wrong in (
        value[key] | {"surprise": 1},
        value[key] | {"task": "E-LOC-AOA"},
        value[key] | {inner: value[key][inner] | {"surprise": 1}},
        {part: content for part, content in value[key].items() if part != inner},
        value[key] | {"scenes": -1},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value | {key: wrong}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value | {"twin": "other"}, schema)


def test_what_the_scene_states_may_be_left_out_of_a_recipe():
    schema = json.loads((ROOT / "config/schemas/captures.json").read_text())
    value = json.loads(json.dumps(yaml.safe_load((ROOT / "config/captures/uwb_los.yaml").read_text())))
    del value["twin"]["samples"], value["twin"]["sample_rate_hz"]
    jsonschema.validate(value, schema)
