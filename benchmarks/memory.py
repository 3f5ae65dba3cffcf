"""Peak memory of the embedding and the fit program with ten times the scenes, against itself."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from measuring import ROOT, Runs, deliver, figure, job, parser, process, processes_in_turn

from common.columns import matrix_to_lists
from emma.data.embeddings import EMBEDDING_SCHEMA
from emma.data.extends import read_extended
from emma.data.labels import CLASS
from emma.data.provenance import Provenance
from emma.data.scenes import METADATA_SCHEMA, SceneChunk, write_scenes

TASK, WIDTH = "E-LOC-LOS", 256
ENVIRONMENTS, BANDS, LABELS = ("E_URBAN", "E_RURAL"), ("2.4GHz", "5.8GHz"), ("NLOS", "LOS")


def chunks(split: str, count: int, samples: int, seed: int) -> Iterator[tuple[np.ndarray, dict[str, list]]]:
    """Scenes of noise in chunks of 200, with every environment, band and label."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, 200):
        n = min(200, count - start)
        iq = rng.standard_normal((n, 1, samples, 2)).astype(np.float32).view(np.complex64)[..., 0]
        known = {
            "task": [TASK] * n,
            "split": [split] * n,
            "environment": [ENVIRONMENTS[i % 2] for i in range(n)],
            "frequency_band": [BANDS[i // 2 % 2] for i in range(n)],
            "snr_regime": ["high"] * n,
            "snr_db": rng.uniform(10, 25, n),
            "sample_rate_hz": np.full(n, 20e6),
            "center_frequency_hz": np.full(n, 2.4e9),
            "link_id": [f"{split}/{start + i}" for i in range(n)],
        }
        columns = {name: known.get(name, [None] * n) for name in METADATA_SCHEMA.names}
        yield SceneChunk(iq, columns, {CLASS.name: [LABELS[i // 4 % 2] for i in range(n)]})


def release(folder: Path, count: int) -> list[str | Path]:
    """A release of one task with so many TRAIN scenes and a third as many DEV ones; options of its fit program."""
    config = read_extended(ROOT / "config/releases/tiny.yaml")
    config["tasks"] = {TASK: config["tasks"][TASK]}
    config["stress_regimes"] = {}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    ids, sides = [], (("TRAIN", count), ("DEV", count // 3))
    for seed, (split, n) in enumerate(sides):
        paths = [folder / TASK / f"{split}{kind}.parquet" for kind in ("", ".index")]
        write_scenes(*paths, chunks(split, n, 8, seed), CLASS)
        ids += pq.read_table(paths[1])["scene_id"].chunks
    indexes = [folder / TASK / f"{split}.index.parquet" for split, _ in sides]
    manifest, fold = folder / "manifest.json", folder / "leave-one-environment-out/E_URBAN"
    freeze = ["python", "scripts/freeze_release.py", "--release-config", folder / "tiny.yaml"]
    process([*freeze, "--indexes", *indexes, "--out", manifest], ROOT)
    common = ["--manifest", manifest, "--task", TASK, "--train-index", indexes[0], "--eval-index", indexes[1]]
    common += ["--eval-split", "DEV"]
    outs = [fold / "train.parquet", fold / "eval.parquet"]
    process(["python", "scripts/make_splits.py", *common, "--seed", "0", "--out", *outs], ROOT)
    made = Provenance(name="noise", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")
    metadata = {"embedding_dim": str(WIDTH)} | made.metadata
    rng, embeddings = np.random.default_rng(0), folder / "embeddings.parquet"
    with pq.ParquetWriter(
        embeddings, EMBEDDING_SCHEMA.with_metadata(metadata), compression="none", use_dictionary=False
    ) as writer:
        for chunk in ids:
            for start in range(0, len(chunk), 200):
                part = chunk[start : start + 200]
                values = rng.standard_normal((len(part), WIDTH)).astype(np.float32)
                writer.write_table(pa.table([part, matrix_to_lists(values)], schema=writer.schema))
    place = ["--protocol", "leave-one-environment-out", "--value", "E_URBAN", "--train", outs[0], "--eval", outs[1]]
    written = ["--readout", folder / "out/r.safetensors", "--predictions", folder / "out/p.parquet"]
    return ["python", "scripts/fit_fold.py", *common, *place, "--embeddings", embeddings, *written]


#: A process counts as its own the peak of the one that started it; between the two stands this small one.
MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
"""


def peak_of(command: list[str | Path]) -> Runs:
    """Run a program, as ``job`` does; its own peak."""
    with tempfile.NamedTemporaryFile("r") as told:
        one = job([sys.executable, "-IS", "-c", MEASURE, told.name, *command], ROOT)
        return Runs(one.wall, one.cpu, [int(told.read()) / 1024])


def main() -> None:
    """Run both programs at both sizes."""
    options = parser(__doc__, 3).parse_args()
    few, samples = (40, 64) if options.tiny else (2_000, 1_024)
    figures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy2(ROOT / "config/models/random_conv.yaml", folder / "random_conv.yaml")
        embed, fit = [], []
        for count in (few, 10 * few):
            scenes = folder / f"{count}.parquet"
            write_scenes(scenes, folder / f"{count}.index.parquet", chunks("TRAIN", count, samples, 0))
            embed.append(["python", "scripts/embed.py", "--model-config", folder / "random_conv.yaml"])
            embed[-1] += ["--scenes", scenes, "--out", folder / "embeddings.parquet"]
            (folder / f"fit{count}").mkdir()
            fit.append(release(folder / f"fit{count}", count))
        for name, (small, large) in {"embed": embed, "fit": fit}.items():
            small_runs, large_runs = processes_in_turn(
                [lambda c=small: peak_of(c), lambda c=large: peak_of(c)], options.runs, warm=False
            )
            peaks = [Runs(runs.peak, runs.cpu) for runs in (large_runs, small_runs)]
            checks = {"seconds": min(large_runs.wall), "seconds_tenth": min(small_runs.wall)}
            figures.append(
                figure(
                    "memory",
                    f"peak of {name}, {10 * few} TRAIN scenes, MiB",
                    f"peak of {name}, {few} TRAIN scenes",
                    ours=peaks[0],
                    other=peaks[1],
                    target=1.15,
                    sense="at most",
                    checks=checks,
                )
            )
    deliver(figures, options)


if __name__ == "__main__":
    main()
