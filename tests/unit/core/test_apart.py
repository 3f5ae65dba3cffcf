"""A backbone's process: the same numbers, and no sight of results, seeds, network or other processes."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from common.confine import landlock_version
from common.errors import InputError
from emma.backbones import apart
from emma.backbones.apart import ApartBackbone
from emma.backbones.config import ModelConfig
from emma.backbones.embed import UnsuitedError, embed_batch, write_embeddings, write_rows
from emma.backbones.load import load_backbone
from emma.data.provenance import provenance_of
from emma.tasks import TaskID

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone confines a process")
confined = pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")

INDEX = pa.table({"sample_rate_hz": [2e7] * 3, "center_frequency_hz": [2.4e9] * 3, "label": ["a", "b", "c"]})
IQ = (np.arange(48).reshape(3, 1, 16) * (1 + 1j)).astype("c8")

MODEL = '''
import ctypes, gc, json, os, signal, socket, subprocess, sys, time
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
import beside

class Model:
    name, embedding_dim = "m", 2
    def __init__(self, do=""):
        self.do = do
    def embed(self, iq, rate, carrier):
        exec(self.do)
        return np.stack([iq.real.mean((1, 2)), iq.imag.std((1, 2))], 1).astype("f4")

def build(weights, do="", at_once=""):
    exec(at_once)
    return Model(do)

def tried(**ways):
    """What comes of each way, or the error."""
    found = {}
    for name, way in ways.items():
        try:
            found[name] = str(way())
        except BaseException as error:
            found[name] = type(error).__name__
    return found
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a factory, labels and a seed, and the variables that an official run has."""
    (tmp_path / "mine.py").write_text(MODEL)
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "results" / "scenes").mkdir(parents=True)
    pa.parquet.write_table(pa.table({"label": [1]}), tmp_path / "results" / "scenes" / "labels.parquet")
    # Where a model may read, but for what is hidden.
    (tmp_path / "config").mkdir()
    (tmp_path / "config/seed").write_text("secret")
    (tmp_path / "config/plain").write_text("plain")
    (tmp_path / "data.txt").write_text("named by an option")
    monkeypatch.setenv("EMMA_HOLDOUT_SEED_FILE", str(tmp_path / "config/seed"))
    monkeypatch.setenv("EMMA_HOLDOUT_SEED", "deep secret")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("mine", "beside"):
        sys.modules.pop(name, None)
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def config(**options):
    return ModelConfig(name="m", factory="mine:build", pretraining="unknown", options=options, normalise="none")


def embedded(**options):
    with ApartBackbone(config(**options), config(**options)) as model:
        return model(IQ, INDEX)


def test_embeddings_are_those_of_this_process_to_the_byte(world, tmp_path):
    for given in ({"factory": "emma.backbones.conv:random_conv"}, {"factory": "emma.backbones.base:prior"}):
        model = ModelConfig(name="m", pretraining="unknown", **given)
        backbone, provenance = load_backbone(model)
        scenes = world.scenes(TaskID.E_ID_FP)
        write_embeddings(tmp_path / "here.parquet", backbone, scenes, contract=model, provenance=provenance)
        with ApartBackbone(model, model) as other:
            assert other.provenance == provenance.model_copy(update={"isolation": other.provenance.isolation})
            write_rows(tmp_path / "apart.parquet", other, scenes, provenance)
        assert (tmp_path / "apart.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


WAYS = """raise ValueError(json.dumps(tried(
    opened=lambda: open(ROOT / "results/scenes/labels.parquet", "rb").read(),
    tables=lambda: pq.read_table(ROOT / "results/scenes/labels.parquet"),
    listed=lambda: os.listdir(ROOT / "results"),
    in_root=lambda: os.listdir(ROOT),
    seed=lambda: (ROOT / "config/seed").read_text(),
    plain=lambda: (ROOT / "config/plain").read_text(),
    variables=lambda: [name for name in os.environ if name.startswith("EMMA_")],
    memory=lambda: "secret" in Path("/proc/self/environ").read_text(errors="replace"),
    parent=lambda: open(f"/proc/{os.getppid()}/environ").read(),
    signalled=lambda: os.kill(os.getppid(), 0),
    network=lambda: socket.create_connection(("127.0.0.1", 9)),
    local=lambda: socket.socket(socket.AF_UNIX),
    session=lambda: os.setsid(),
    elsewhere=lambda: (ROOT / "mark").write_text("x"),
    linked=lambda: [os.symlink(ROOT / "results", "link"), os.listdir("link")],
    processes=lambda: subprocess.run(["/bin/ls", str(ROOT / "results")], capture_output=True, text=True).stdout,
    files=lambda: [n for n in os.listdir("/proc/self/fd") if "results" in os.path.realpath(f"/proc/self/fd/{n}")],
    empty=lambda: os.listdir("."),
    own=lambda: Path("own").write_text("x"),
    source=lambda: len(Path(__file__).read_text()) > 100,
    option=lambda: Path(ROOT / "data.txt").read_text(),
    )))"""


@confined
def test_results_seeds_network_and_other_processes_are_out_of_reach(project):
    ways = WAYS.replace("ROOT /", f"Path({str(project)!r}) /").replace("(ROOT)", f"({str(project)!r})")
    with pytest.raises(InputError, match="refused its weights or options") as caught:
        embedded(at_once=ways, do="data.txt")
    text = str(caught.value)
    found = json.loads(text[text.index("({") + 1 : text.rindex("}") + 1])
    denied = {"opened", "tables", "listed", "in_root", "seed", "parent", "signalled", "network", "local", "session"}
    denied |= {"elsewhere", "linked"}
    assert {name: found[name] for name in denied} == dict.fromkeys(denied, "PermissionError")
    nothing = {"variables": "[]", "memory": "False", "processes": "", "files": "[]"}
    assert {name: found[name] for name in nothing} == nothing
    given = {"own": "1", "source": "True", "option": "named by an option", "plain": "plain"}
    assert {name: found[name] for name in given} == given
    assert not (project / "mark").exists()


@pytest.mark.parametrize("lacking", ["restrict_files", "restrict_calls"])
def test_a_system_that_cannot_hide_results_is_said_in_what_follows(project, monkeypatch, lacking):
    with ApartBackbone(config(), config()) as model:
        assert ("isolation" in model.provenance.model_dump(mode="json")) != bool(landlock_version())
    monkeypatch.setattr(f"emma.backbones.rights.{lacking}", lambda *_: False)
    with ApartBackbone(config(), config()) as model:
        assert model.provenance.model_dump(mode="json")["isolation"] == "none"
        assert provenance_of(model.provenance.metadata, "e.parquet") == model.provenance


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("sys.exit(0)", "SystemExit: 0"),
        ("os._exit(0)", "ended with status 0 and gave no answer"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("np.ones(10**14)", "rray"),
        ("{}[5]", "5"),
        (
            "[os.write(n, b'nonsense ' * 9) for n in range(3, 99) if os.path.exists(f'/proc/self/fd/{n}')]",
            "its process",
        ),
        ("time.sleep(60)", "gave no answer in 1 s"),
    ],
)
@pytest.mark.parametrize("when", ["at_once", "do"])
def test_a_process_that_ends_hangs_or_babbles_is_one_line(project, monkeypatch, how, told, when):
    monkeypatch.setattr(apart, "PATIENCE", 1 if "sleep" in how else 100)
    with pytest.raises(InputError, match=r"^model m: [^\n]*$") as caught:
        embedded(**{when: how})
    assert told in str(caught.value)


def test_what_a_model_starts_ends_with_it_and_its_folder_goes(project):
    (project / "own").touch()
    code = "other = os.fork() or time.sleep(60); raise ValueError(f'{os.getcwd()} {other} ')"
    with pytest.raises(InputError) as caught:
        embedded(at_once=code)
    folder, pid = str(caught.value).split("(")[1].split()[:2]
    assert not Path(folder).exists()
    state = Path(f"/proc/{pid}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still there")


def test_scenes_that_do_not_fit_are_unsuited_and_the_next_are_embedded(project):
    own = config()
    with ApartBackbone(own, own.model_copy(update={"samples": 16})) as model:
        with pytest.raises(UnsuitedError, match="model m"):
            model(IQ[:, :, :8], INDEX)
        backbone, _ = load_backbone(own)
        np.testing.assert_array_equal(model(IQ, INDEX), embed_batch(backbone, IQ, INDEX, own))
