"""YAML aliases are bounded; paths of a config and of results stay below their root; the seed file is its owner's."""

import importlib.util
import shutil
import stat
import sys
from pathlib import Path

import pytest

from common.errors import InputError, run_script
from common.files import read_yaml
from emma.audit.verify import Results
from workflow_support.config import check_config

ROOT = Path(__file__).resolve().parents[3]
RUN = {"release": "tiny", "seed": 0, "eval_split": "DEV", "models": ["prior"]}


def test_aliases_that_double_without_end_are_refused(tmp_path):
    path = tmp_path / "laughs.yaml"
    path.write_text("a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60)))
    with pytest.raises(InputError, match=r"laughs\.yaml: aliases stand for"):
        read_yaml(path)


def test_an_alias_that_holds_itself_is_refused(tmp_path):
    path = tmp_path / "self.yaml"
    path.write_text("a: &a [1, *a]\n")
    with pytest.raises(InputError, match="hold themselves"):
        read_yaml(path)


@pytest.mark.parametrize("folder", ["/etc", "../elsewhere", "submissions/../../x"])
def test_a_submission_outside_the_project_is_refused(folder):
    with pytest.raises(InputError, match="submissions: expected folders inside the project"):
        check_config({**RUN, "submissions": [folder]}, ROOT)


@pytest.mark.parametrize("part", ["..", "", ".", "a/b", "/etc", "a\0b"])
def test_results_are_read_below_their_root_alone(tmp_path, part):
    with pytest.raises(InputError, match="is no path below it"):
        Results(tmp_path).layout.replicates(part, "E-ID-FP")


def test_results_behind_a_link_are_refused(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/runs").symlink_to("/etc")
    with pytest.raises(InputError, match="leads out of"):
        Results(tmp_path / "results").layout.run("passwd")


def test_the_drawn_seed_is_in_its_file_alone(tmp_path, monkeypatch, capsys):
    """256 bits, mode 600, not printed; a file that is there is never overwritten."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("commit_holdout", ROOT / "scripts/commit_holdout.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A copy: what is committed to stays as it is.
    releases = shutil.copytree(ROOT / "config/releases", tmp_path / "releases")
    path, commitment = tmp_path / "seed", releases / "tiny.holdout.yaml"
    command = ["commit_holdout.py", "--release-config", str(releases / "tiny.yaml")]
    monkeypatch.setattr(sys, "argv", [*command, "--seed-file", str(path)])
    module.main()
    seed = path.read_text().strip()
    assert len(bytes.fromhex(seed)) * 8 >= 128 and stat.S_IMODE(path.stat().st_mode) == 0o600
    shown = capsys.readouterr()
    assert seed not in shown.out + shown.err + commitment.read_text() and "seed_sha256" in commitment.read_text()
    commitment.unlink()
    with pytest.raises(SystemExit):
        run_script(module.main)
    assert "expected a new file" in capsys.readouterr().err and path.read_text().strip() == seed
    assert not commitment.exists()
