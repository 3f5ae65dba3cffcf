"""What `make setup` tells: where pip is, its warnings and errors, but not which index lacks what."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LACKING = "WARNING: Location 'file:///pypi/simple/six/' is ignored: it is neither a file nor a directory."
REAL = "WARNING: six 1.0 is yanked. Reason: broken"
PIP = f"""#!/bin/sh
echo "{LACKING}" >&2
echo "{REAL}" >&2
echo "Collecting six"
echo "Installing collected packages: six"
exit $STATUS
"""


@pytest.mark.parametrize("status", [0, 1])
def test_setup_tells_its_steps_and_what_matters(status, tmp_path):
    shutil.copy2(ROOT / "Makefile", tmp_path)
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/requirements.txt").write_text("six==1.0\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, text in (("pip", PIP), ("python", "#!/bin/sh\necho '  WordNet is in x'\n")):
        (tmp_path / ".venv/bin" / name).write_text(text)
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")} | {"STATUS": str(status)}
    done = subprocess.run(["make", "setup"], cwd=tmp_path, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode == 0) == (status == 0)
    assert "  package 1 of 1: six\n  installing what was fetched\n" in done.stdout
    assert REAL in done.stderr
    assert LACKING not in done.stderr + done.stdout
    assert ("4/4 the words of the text metrics\n  WordNet is in x\n" in done.stdout) == (status == 0)
    assert (tmp_path / ".venv/installed").is_file() == (status == 0)
