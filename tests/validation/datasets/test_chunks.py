"""Streams and chunks: order, number and neighbours of chunks change nothing; splits and seeds change everything."""

import hashlib
import inspect
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from emma.data.extends import read_extended
from rfgen import channels, scenes
from rfgen.recipe import Recipe
from rfgen.scenes import SPLITS, TASKS
from rfgen.scenes.base import COLUMNS, REFERENCE_START


def same(a: scenes.Chunk, b: scenes.Chunk) -> bool:
    columns = all(list(a.metadata[name]) == list(b.metadata[name]) for name in COLUMNS)
    labels = a.labels.keys() == b.labels.keys() and all(np.array_equal(a.labels[x], b.labels[x]) for x in a.labels)
    return a.key == b.key and np.array_equal(a.iq.view(np.float32), b.iq.view(np.float32)) and columns and labels


def chunks(bench, task: str, split: str, **options) -> list[scenes.Chunk]:
    return list(scenes.generate(bench.recipe, task, split, bench.rays(split), bench.seed, **options))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", SPLITS)
def test_shapes_columns_and_counts(tiny, task: str, split: str) -> None:
    made = chunks(tiny, task, split)
    assert [c.key for c in made] == scenes.chunk_keys(tiny.recipe, task, split)
    params = tiny.recipe.tasks[task]
    if not params.counts.get(split, 0):
        assert made == []
        assert split == "PRETRAIN"
        assert task in {"E-LOC-LOS", "E-SC-SEP", "E-CH-BEAM", "E-CH-CSI", "E-S2T-CAP", "E-S2T-QA"}
        return
    rows = {"E-CH-BEAM": 8}.get(task, getattr(getattr(params, "array", params), "elements", 1))
    assert params.antennas == rows
    for chunk in made:
        assert chunk.iq.dtype == np.complex64
        assert chunk.iq.shape[1:] == (params.antennas, params.samples)
        assert tuple(chunk.metadata) == (*COLUMNS, *([] if chunk.reference is None else [REFERENCE_START]))
        assert {len(column) for column in (chunk.metadata | chunk.labels).values()} == {len(chunk)}
        assert np.isfinite(chunk.iq.view(np.float32)).all()
        # The pool says nothing of its labels; every other scene has all of its task's, of their types.
        assert tuple(chunk.labels) == (() if split == "PRETRAIN" else tuple(params.label_columns))
        for name, column in chunk.labels.items():
            kind = params.label_columns[name]
            assert all(isinstance(value, np.ndarray | list if kind is list else kind) for value in column)
    if split != "PRETRAIN" and "class" in params.label_columns:
        # A detector of anomalies is shown none.
        there = params.class_names[:1] if task == "E-SC-ANOM" and split == "TRAIN" else params.class_names
        assert {x for c in made for x in c.labels["class"]} == set(there)


@pytest.mark.parametrize("task", TASKS)
def test_chunks_do_not_depend_on_order_or_neighbours(tiny, task: str) -> None:
    whole = chunks(tiny, task, "DEV")
    keys = [c.key for c in whole]
    backwards = chunks(tiny, task, "DEV", chunk_keys=keys[::-1])
    assert all(same(a, b) for a, b in zip(whole, backwards[::-1], strict=True))
    assert same(whole[-1], chunks(tiny, task, "DEV", chunk_keys=keys[-1:])[0])
    digests = [hashlib.sha256(scene.tobytes()).digest() for c in whole for scene in c.iq]
    assert len(set(digests)) == len(digests)


def test_more_scenes_leave_those_there_were(tiny, mapping) -> None:
    data = mapping("tiny")
    for task in TASKS:
        data["tasks"][task] = dict(data["tasks"][task])
        key = "captures" if task == "E-ID-FP" else "scenes"
        data["tasks"][task][key] = {s: 3 * n for s, n in data["tasks"][task][key].items()}
    more = Recipe.from_mapping(data)
    rays = channels.split_table(more, "DEV", tiny.seed)
    few = {row["link_id"]: row for row in tiny.rays("DEV").to_pylist()}
    many = {row["link_id"]: row for row in rays.to_pylist()}
    assert len(many) == 3 * len(few)
    assert all(repr(many[name]) == repr(row) for name, row in few.items())
    for task in TASKS:
        again = {c.key: c for c in scenes.generate(more, task, "DEV", rays, tiny.seed)}
        assert all(same(c, again[c.key]) for c in chunks(tiny, task, "DEV"))


def test_ray_tables_do_not_depend_on_each_other(tiny) -> None:
    pairs = channels.links(tiny.recipe, "DEV")
    environment, band = pairs[-1]
    alone = channels.ray_table(tiny.recipe, "DEV", environment, band, tiny.seed)
    assert alone.equals(tiny.rays("DEV").slice(tiny.rays("DEV").num_rows - alone.num_rows))


def test_more_environments_leave_the_first_two(mapping) -> None:
    more = mapping("v0.1")
    more["environments"]["E_MICRO"] = mapping("v1.0")["environments"]["E_MICRO"]
    for task in ("E-LOC-AOA", "E-ID-DRONE"):
        more["tasks"][task]["environments"] = ["E_URBAN", "E_RURAL", "E_MICRO"]
    first, second = Recipe.from_mapping(mapping("v0.1")), Recipe.from_mapping(more)
    key = ("E_RURAL", "5.8GHz", 1)
    tables = [channels.ray_table(r, "DEV", key[0], key[1], 0) for r in (first, second)]
    assert tables[0].equals(tables[1])
    for task in ("E-LOC-AOA", "E-ID-DRONE"):
        a, b = (
            next(scenes.generate(r, task, "DEV", t, 0, chunk_keys=[key]))
            for r, t in zip((first, second), tables, strict=True)
        )
        assert same(a, b)


@pytest.mark.parametrize("task", TASKS)
def test_seed_and_split_change_every_scene(tiny, task: str) -> None:
    key = scenes.chunk_keys(tiny.recipe, task, "DEV")[0]
    rays = tiny.rays("DEV")
    secret = "5f" * 16
    made = [next(scenes.generate(tiny.recipe, task, "DEV", rays, s, chunk_keys=[key])) for s in (0, 1, "0", secret)]
    made.append(next(scenes.generate(tiny.recipe, task, "HOLDOUT", tiny.rays("HOLDOUT"), 0, chunk_keys=[key])))
    powers = [tuple(np.mean(np.abs(c.iq) ** 2, axis=(1, 2))) for c in made]
    assert len(set(powers)) == len(powers)


def test_secret_seed_moves_the_links(tiny) -> None:
    environment, band = channels.links(tiny.recipe, "HOLDOUT")[0]
    a, b = (channels.ray_table(tiny.recipe, "HOLDOUT", environment, band, s) for s in ("a" * 32, "b" * 32))
    assert not np.isin(a["bearing_deg"].to_numpy(), b["bearing_deg"].to_numpy()).any()
    assert a["link_id"].equals(b["link_id"])  # names, that no seed can be read from


def test_a_row_serves_one_scene(v01) -> None:
    ids = np.concatenate(
        [v01.scenes(task, "DEV")[1]["link_id"] for task in v01.recipe.tasks if TASKS[task].needs_links]
    )
    assert len(set(ids)) == len(ids) == v01.rays("DEV").num_rows
    train = set(v01.rays("TRAIN")["link_id"].to_pylist())
    assert not train & set(ids)


def test_units_meet_another_receiver_in_every_session(v01) -> None:
    task = v01.recipe.tasks["E-ID-FP"]
    for split in ("TRAIN", "DEV"):
        meta = v01.scenes("E-ID-FP", split)[1]
        for unit in set(meta["device"]):
            mine = meta["device"] == unit
            pairs = set(zip(meta["session"][mine], meta["receiver"][mine], strict=True))
            sessions, receivers = {s for s, _ in pairs}, {r for _, r in pairs}
            # So that no query shares its unit's enrolment receiver, whichever session enrols.
            assert len(pairs) == len(sessions) == len(receivers) == task.sessions
        for number in range(task.sessions):
            at = np.char.endswith(meta["session"].astype(str), f"S{number:02d}")
            pairs = set(zip(meta["device"][at], meta["receiver"][at], strict=True))
            assert len({r for _, r in pairs}) == len(pairs) == len(task.units)


def test_the_pool_meets_no_held_out_value(v01) -> None:
    recipe = v01.recipe
    for task in recipe.tasks_in("PRETRAIN"):
        pool, scored = v01.scenes(task, "PRETRAIN")[1], v01.scenes(task, "DEV")[1]
        for axis in ("environment", "device", "frequency_band", "snr_regime", "receiver"):
            values = set(pool[axis]) - {None}
            assert not values & set(scored[axis]), (task, axis)
    assert recipe.tasks["E-ID-FP"].units_and_receivers(recipe, "PRETRAIN")[0][0].startswith("U9")


def digest_of(recipe: Recipe) -> str:
    """Hash over rays and scenes of every task at one place."""
    rays = channels.ray_table(recipe, "DEV", "E_URBAN", "2.4GHz", 0)
    digest = hashlib.sha256()
    for name in ("path_delay_s", "path_power", "ray_azimuth_deg", "ray_zenith_deg"):
        digest.update(rays.column(name).combine_chunks().flatten().to_numpy().tobytes())
    for task in recipe.tasks:
        keys = [
            k
            for k in scenes.chunk_keys(recipe, task, "DEV")
            if k[0] in ("E_URBAN", 0, "low", "F1") and k[1] == "2.4GHz"
        ]
        for chunk in scenes.generate(recipe, task, "DEV", rays, 0, chunk_keys=keys):
            digest.update(chunk.iq.tobytes())
    return digest.hexdigest()


def test_number_of_threads_changes_nothing(tiny, releases) -> None:
    """The same bytes in another process, with other thread counts and another hash seed."""
    script = f"{inspect.getsource(digest_of)}\nprint(digest_of(Recipe.from_mapping(mapping)))"
    start = "import hashlib, json, sys\nfrom rfgen import channels, scenes\nfrom rfgen.recipe import Recipe\n"
    start += "mapping = json.loads(sys.argv[1])\n"
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONHASHSEED"), "3")
    env = os.environ | counts | {"PYTHONPATH": str(releases.parents[1] / "src")}
    command = [sys.executable, "-c", start + script, json.dumps(read_extended(releases / "tiny.yaml")["rfgen"])]
    other = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()
    assert other == digest_of(tiny.recipe)
