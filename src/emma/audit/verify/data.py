"""Checks of what was frozen: the files that are there, the manifest, the indexes and the scenes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from common.hashing import table_hash
from emma.audit.verify.base import Check
from emma.audit.verify.captures import capture_files, capture_sets
from emma.audit.verify.levels import Level
from emma.audit.verify.results import Results
from emma.data.holdout import check_opened, load_commitment
from emma.data.published import PUBLISHED, config_hash, differences, load_published, published_release
from emma.data.release import DataReleaseManifest, SplitRecord, load_release_config
from emma.data.scenes import iterate_scenes, read_index
from emma.data.tables import open_parquet, row_groups, unique_ids
from emma.results.layout import Layout
from emma.tasks import Split, TaskID

#: Leftover models that are named one by one.
_SHOWN = 8


def expected_files(results: Results) -> set[str]:
    """Names, below the root, of every file that finished results hold and that a check reads."""
    layout = Layout("")
    paths = {layout.manifest, layout.board, layout.board_as("csv"), layout.board_as("schema.json")}
    paths |= {layout.report("aggregation")} | ({layout.report("stress")} if results.has_stress() else set())
    paths |= {layout.run(model) for model in results.models()}
    paths |= {layout.cost(model) for model in results.costed()}
    for task in results.tasks:
        for protocol, value in results.folds(task):
            paths |= {layout.side(task, protocol, value, side) for side in ("train", "eval")}
        paths |= {place(task, split) for split in results.splits(task) for place in (layout.index, layout.labels)}
    for model, task, protocol, value in results.model_folds():
        place = (model, task, protocol, value)
        paths |= {layout.metrics(*place), layout.predictions(*place)}
        paths |= set() if results.is_submitted(model) else {layout.readout(*place), layout.refits(*place)}
        kind = "score" if protocol in results.board_protocols(task) else "stress"
        paths.add(layout.replicates(model, task, kind))
    return {path.as_posix() for path in paths} | capture_files(results)


class Inventory(Check):
    """Every file of every fold, run and report is there, is a file of its own, and no other one stands among them."""

    name = "files"

    def run(self, results: Results) -> None:
        """Compare the files found with those that manifest, runs and protocols ask for."""
        expected = {Layout("").manifest.as_posix(), Layout("").board.as_posix()}
        unbuilt: set[str] | None = None
        with self.item(results.root):
            expected = expected_files(results)
            unbuilt = set() if results.has_stress() else self._of_stress(results)
        for name in sorted(expected):
            with self.item(results.root / name):
                path = results.layout.at(*name.split("/"))
                if not path.is_file():
                    self.fault(path, f"no such file{self._why(results, name)}")
                elif path.stat().st_size == 0:
                    self.fault(path, "empty, expected content")
        for path in sorted(results.root.rglob("*")):
            name = path.relative_to(results.root).as_posix()
            top = name.split("/")[0]
            if top in Layout.apart and top != name:
                continue
            if path.is_symlink():
                self.fault(path, "a link, expected a file of its own")
            elif path.name.startswith(".tmp-"):
                self.fault(path, "left over from a job that was killed")
            elif unbuilt is None or not path.is_file() or top not in {"folds", "runs", "splits"}:
                continue
            elif name not in expected and name not in unbuilt and not self._left_over(results, name):
                self.fault(path, "belongs to no fold or run of these results")
        with self.item(results.root):
            self.checked -= 1
            if left := results.leftovers():
                shown = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
                self.note = f"left over from another run, named by no board, report or config, not checked: {shown}"

    @staticmethod
    def _left_over(results: Results, name: str) -> bool:
        """Whether a file is the run record of a model that is not of this board, or lies among its folds."""
        top, model, *below = name.split("/")
        if top == "runs":
            return not below and model.endswith(".json") and model.removesuffix(".json") in results.leftovers()
        return top == "folds" and bool(below) and model in results.leftovers()

    @staticmethod
    def _why(results: Results, name: str) -> str:
        """Who asks for a run record that is not there."""
        asked = results.named_by(name.removeprefix("runs/").removesuffix(".json")) if name.startswith("runs/") else ""
        return f", although {asked} names the model" if asked else ""

    @staticmethod
    def _of_stress(results: Results) -> set[str]:
        """Files of stress folds, which may be there before their report is."""
        layout, paths = Layout(""), set()
        for model in results.models():
            for task in results.tasks_of(model):
                paths.add(layout.replicates(model, task, "stress"))
                for fold in results.folds(task):
                    place = (model, task, *fold)
                    paths |= {layout.metrics(*place), layout.predictions(*place)}
                    paths |= {layout.readout(*place), layout.refits(*place)}
        return {path.as_posix() for path in paths}


class Manifest(Check):
    """The manifest's hashes are those of its content, and it says what the project's release config declares."""

    name = "manifest"

    def run(self, results: Results) -> None:
        """Recompute the hashes; compare it with the config, and an opened holdout with its commitment."""
        path = results.layout.manifest
        with self.item(path):
            manifest = results.manifest()
            for task in manifest.tasks:
                results.protocols(task)
            config_path = results.project and results.project / "config" / "releases" / f"{manifest.release}.yaml"
            if config_path is None or not config_path.is_file():
                self.miss("release configs not at hand", Level.CONSISTENT)
                return
            config = load_release_config(config_path)
            expected = config.model_dump(mode="json") | {"caveats": list(config.all_caveats)}
            actual = manifest.model_dump(mode="json", include=set(expected))
            self.compare(f"{path} (against {config_path})", actual, expected)
            self._opened(results, manifest, config_path)
            self.note = self._published(results, manifest, config_path.with_name(PUBLISHED))

    def _opened(self, results: Results, manifest: DataReleaseManifest, config_path: Path) -> None:
        """An official run has the splits of the seed that its release is committed to; a public run says nothing."""
        official = results.eval_split() is Split.HOLDOUT
        if official is not (manifest.holdout is not None):
            expected = "the committed splits of an official run" if official else "none in a public run"
            self.fault(results.layout.manifest, f"holdout: expected {expected}")
        with self.item(results.layout.manifest):
            check_opened(manifest, load_commitment(config_path), results.layout.manifest)

    def _published(self, results: Results, manifest: DataReleaseManifest, path: Path) -> str:
        """Whether the hash is the one on record.

        A release that is not on record, another config and other floating point are no fault; scenes of the recorded
        config that differ by more than that are one.
        """
        recorded = load_published(path).get(manifest.release)
        if recorded is None:
            return f"{manifest.release} is not among the published releases"
        if recorded.data_release_hash == results.release_hash():
            return "the published hash"
        if recorded.config_sha256 != config_hash(manifest):
            return "not the published hash: its config differs from the published one"
        places = [results.layout.scenes(task, split) for task, own in manifest.splits.items() for split in own]
        if not all(place.is_file() for place in places):
            return "not the published hash: other floating point or other scenes, which are not at hand"
        for part in differences(published_release(manifest, results.layout.at("scenes")), recorded):
            self.fault(results.layout.manifest, f"{part}: not those of the published release")
        return "not the published hash: other floating point" if not self.faults else "not the published hash"


class Indexes(Check):
    """Every index and labels table is the frozen one, every scene has its label, and no two splits share samples."""

    name = "indexes"

    def run(self, results: Results) -> None:
        """Hash each index and its labels again."""
        manifest = results.manifest()
        for task in results.tasks:
            frozen = dict(manifest.splits.get(task, {}))
            if results.eval_split() is Split.HOLDOUT:
                with self.item(results.layout.manifest):
                    frozen[Split.HOLDOUT] = manifest.frozen(task, Split.HOLDOUT)
            seen: dict[Split, pa.Table] = {}
            for split, record in frozen.items():
                path = results.layout.index(task, split)
                with self.item(path):
                    index = results.index(task, split)
                    if table_hash(index) != record.index_hash:
                        self.fault(path, f"content differs from the manifest's index_hash of {task} {split}")
                    self._labels(results, task, split, record)
                    if index.num_rows != record.scenes:
                        self.fault(path, f"{index.num_rows} scenes, the manifest froze {record.scenes}")
                    for other, table in seen.items():
                        if pc.any(pc.is_in(index["iq_sha256"], value_set=table["iq_sha256"].combine_chunks())).as_py():
                            self.fault(path, f"iq_sha256: shares samples with {other}")
                    seen[split] = index

    def _labels(self, results: Results, task: TaskID, split: Split, record: SplitRecord) -> None:
        path = results.layout.labels(task, split)
        with self.item(path):
            if table_hash(results.labels(task, split)) != record.labels_hash:
                self.fault(path, f"content differs from the manifest's labels_hash of {task} {split}")
            results.labelled(task, split)


class Channels(Check):
    """Every link that a scene names has its rays, once; that the recipe gives them is seen by ``--deep``.

    Scenes of some tasks, such as E-ID-FP, have links of their own and no rays: all of theirs are missing.
    """

    name = "channels"

    def run(self, results: Results) -> None:
        """Compare the links of the indexes with those of the tables of rays that are there."""
        for split in sorted({split for task in results.tasks for split in results.splits(task)}):
            path = results.layout.channels(split)
            if not path.is_file():
                self.miss("tables of rays not at hand")
                continue
            with self.item(path):
                with open_parquet(path) as file:
                    if "link_id" not in file.schema_arrow.names:
                        raise InputError(f"{path}: link_id: column missing")
                    parts = [part["link_id"] for part in row_groups(path, file, ["link_id"])]
                links = pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
                unique_ids(path, links)
                for task in results.tasks:
                    asked = results.index(task, split)["link_id"].drop_null()
                    lost = asked.filter(pc.invert(pc.is_in(asked, value_set=links)))
                    if 0 < len(lost) < len(asked):
                        self.fault(path, f"link_id: no {lost[0].as_py()}, which scenes of {task} {split} name")


class Scenes(Check):
    """Every scene id is the hash of the scene's metadata and samples, and its row in the index is the same."""

    name = "scenes"

    def run(self, results: Results) -> None:
        """Hash every file of scenes that is there, captured ones too, one row group at a time."""
        layout = results.layout
        wanted = [layout.scenes(task, split) for task in results.tasks for split in results.splits(task)]
        for path in sorted({*layout.scene_files(), *wanted}):
            self._file(path, layout.index(*Layout.split_of(path)), "files of scenes not at hand")
        for name, declared in capture_sets(results).items():
            absent = "files of captured scenes not at hand"
            self._file(layout.capture_scenes(name), layout.capture_index(name), absent)
            for split in Layout.twin_splits if declared.matched else ():
                self._file(layout.twin_scenes(name, split), layout.twin_index(name, split), absent)

    def _file(self, path: Path, index_path: Path, absent: str) -> None:
        if not path.is_file():
            self.miss(absent)
            return
        with self.item(path):
            index = read_index(index_path)
            start = 0
            for rows, _ in iterate_scenes(path):
                expected = index.slice(start, rows.num_rows).replace_schema_metadata()
                if not rows.replace_schema_metadata().equals(expected):
                    raise InputError(f"{path}: rows from {start} on differ from those of {index_path.name}")
                start += rows.num_rows
            if start != index.num_rows:
                self.fault(path, f"{start} scenes, its index holds {index.num_rows}")
