"""Backbones run apart: what one does to its process reaches no verdict, and no code runs that is not trusted."""

import subprocess
import sys
from pathlib import Path

import emma_miniature as miniature
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from emma.audit.verify import Level, Results, Verdict, embedded, verify
from emma.audit.verify import samples as sampling
from emma.audit.verify.draws import Draw
from emma.audit.verify.embedded import Reembedded
from emma.audit.verify.levels import Missed
from emma.audit.verify.samples import Samples

ROOT = Path(__file__).resolve().parents[3]


class Some(Results):
    """Results of which a test looks at some models and two tasks: each model is a process of its own."""

    only = ("many",)

    def models(self):
        return [model for model in super().models() if model in self.only]

    def tasks_of(self, model):
        return [task for task in super().tasks_of(model) if task in {"E-LOC-LOS", "E-LOC-AOA"}]


def deep(project, code=None, draw=None, only=("many",)):
    """The outcome of embedding again with the code of a project, its own by default."""
    results = Some(project / "results", project, project if code is None else code)
    results.only = only
    (outcome,) = verify(results, [Reembedded(Samples(draw or Draw(1)))])
    return outcome


def with_code(project, text):
    """Put code at the top of the module of the project's models."""
    (project / "elsewhere.py").write_text(text + miniature.ELSEWHERE)


def forge(project, place="embeddings/many/E-LOC-LOS.parquet", row=0):
    """Change one row of a table of embeddings."""
    path = project / "results" / place
    table = pq.read_table(path)
    values = table["embedding"].to_pylist()
    values[row] = [value + 3 for value in values[row]]
    column = pa.array(values, table.schema.field("embedding").type)
    pq.write_table(table.set_column(1, table.schema.field("embedding"), column), path)


def test_untouched_embeddings_are_given_again(pristine):
    outcome = deep(pristine, only=("few", "many", "prior"))
    assert (outcome.faults, outcome.missed) == ((), ())
    assert outcome.note.endswith("at places drawn by --draw 1")


@pytest.mark.parametrize("row", [31, 32])
def test_a_forged_row_of_train_or_dev_is_a_fault(project, row):
    forge(project, row=row)
    (fault,) = deep(project).faults
    assert "embeddings/many/E-LOC-LOS.parquet: scene_id " in fault and "from what many gives" in fault


def test_a_forged_row_of_captured_scenes_is_a_fault(project):
    """The last of them."""
    forge(project, "captures/mini_los/many/embeddings.parquet", row=31)
    assert ["captures/mini_los/many/embeddings.parquet" in fault for fault in deep(project).faults] == [True]


def test_a_factory_that_patches_numpy_changes_no_other_verdict(project):
    """It comes before the model whose forged embeddings the patch would hide."""
    forge(project)
    with_code(project, "import numpy\nnumpy.abs = lambda values: numpy.zeros_like(values)\n")
    (fault,) = deep(project, only=("few", "many")).faults
    assert "embeddings/many/E-LOC-LOS.parquet: scene_id " in fault


ENDINGS = {
    "sys.exit": "import sys\nsys.exit(0)\n",
    "os._exit": "import os\nos._exit(0)\n",
    "a child that lives on": "import os, time\nif os.fork() == 0:\n    time.sleep(60)\nos._exit(0)\n",
    "SIGKILL": "import os\nos.kill(os.getpid(), 9)\n",
    "more memory than there is": "b = bytearray(2**46)\n",
    "no end": "while True: pass\n",
}


@pytest.mark.parametrize("kind", ENDINGS)
def test_a_factory_that_ends_its_process_gives_no_answer(project, monkeypatch, kind):
    """One fault, in seconds, and the costs say why they are not there."""
    monkeypatch.setattr(embedded, "SECONDS", 1.0)
    monkeypatch.setattr(embedded, "PER_SCENE", 0.0)
    with_code(project, ENDINGS[kind])
    (fault,) = deep(project).faults
    assert "embeddings/many/" in fault and "model many: " in fault


def test_the_check_itself_ends_with_its_verdict(project):
    """The program, on a project whose factories exit with 0: status 1, and the verdict is the last line."""
    with_code(project, ENDINGS["os._exit"])
    options = ["--project", str(project), "--deep", "--draw", "5", "--trust-code"]
    command = [sys.executable, str(ROOT / "scripts/verify.py"), str(project / "results"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "model few: its process ended with status 0 and gave no answer" in done.stdout
    assert "faults" in done.stdout.splitlines()[-1]


MARK = "import pathlib\npathlib.Path({!r}).touch()\n"


def test_code_of_others_runs_only_where_it_is_trusted(project, tmp_path):
    """The project is data: its configs are not of this checkout. What is trusted is confined."""
    mark = tmp_path / "ran"
    with_code(project, MARK.format(str(mark)))
    outcome = deep(project, code=ROOT)
    assert not mark.exists()
    assert outcome.missed == (Missed("models without a config in this checkout", 1, Level.REPRODUCED),)
    assert Verdict.of([outcome], Level.REPRODUCED).status == 3
    (fault,) = deep(project).faults
    assert "Permission denied" in fault and str(mark) in fault and not mark.exists()


def test_a_config_that_is_not_the_checkout_s_is_not_trusted(project, pristine, tmp_path):
    """The same name with another factory."""
    mark = tmp_path / "ran"
    path = project / "config/models/many.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"options": {"x": 1}}))
    (project / "elsewhere.py").write_text(MARK.format(str(mark)))
    outcome = deep(project, code=pristine)
    expected = Missed("models with another config than this checkout's", 1, Level.REPRODUCED)
    assert (outcome.missed, outcome.faults, mark.exists()) == ((expected,), (), False)


def test_the_draw_decides_which_rows(project, monkeypatch):
    """One forged row among 32, of which 8 are drawn: some draws see it, and the same draw always does."""
    monkeypatch.setattr(sampling, "DRAWN", 8)
    rows = {seed: tuple(Draw(seed).rows(32, 8, "E-LOC-LOS", "TRAIN")) for seed in range(6)}
    assert len(set(rows.values())) == 6 and rows[0] == tuple(Draw(0).rows(32, 8, "E-LOC-LOS", "TRAIN"))
    assert Draw() != Draw() and list(Draw(0, every=True).rows(32, 8)) == list(range(32))
    seen = next(seed for seed in rows if 5 in rows[seed])
    unseen = next(seed for seed in rows if 5 not in rows[seed])
    forge(project, row=5)
    assert len(deep(project, draw=Draw(seen)).faults) == 1
    assert deep(project, draw=Draw(unseen)).faults == ()
    assert len(deep(project, draw=Draw(unseen, every=True)).faults) == 1


def test_embeddings_whose_scenes_are_gone_are_counted(project):
    (project / "results/scenes/E-LOC-AOA/TRAIN.parquet").unlink()
    (project / "results/embeddings/many/E-LOC-LOS.parquet").unlink()
    outcome = deep(project)
    assert outcome.missed == (
        Missed("tables of embeddings not made again", 1, Level.REPRODUCED),
        Missed("files of scenes whose embeddings were not made again", 1, Level.REPRODUCED),
    )
