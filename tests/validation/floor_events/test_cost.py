"""Ten hours at 5 Hz, two runs, every horizon and three recalls: under 20 s and 1 GB on one core."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from floor_events.converter import align
from floor_events.synthetic import synthetic_raw, synthetic_target

ROOT = Path(__file__).resolve().parents[3]
ROWS, SESSIONS = 180_000, 10


def write(root):
    for number in range(SESSIONS):
        rng = np.random.default_rng(number)
        target = synthetic_target(ROWS // SESSIONS, rng)
        arrays = {"target": target}
        for run, quality in (("a", 0.8), ("b", 1.0)):
            arrays[f"{run}/pred"], arrays[f"{run}/valid"] = align(synthetic_raw(target, quality, rng))
        for folder, array in arrays.items():
            (root / folder).mkdir(parents=True, exist_ok=True)
            np.save(root / folder / f"S{number}.npy", array)


#: Runs the evaluator and then says what it took: processor seconds, and the peak of its own memory, not its parent's.
MEASURED = """
import resource, runpy, sys
from pathlib import Path
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
used = resource.getrusage(resource.RUSAGE_SELF)
status = Path("/proc/self/status").read_text()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print("measured", used.ru_utime + used.ru_stime, peak)
"""


def test_ten_hours(tmp_path):
    write(tmp_path)
    names = [f"S{number}" for number in range(SESSIONS)]
    command = [sys.executable, "-c", MEASURED, str(ROOT / "scripts" / "evaluate_floor_state_changes.py")]
    command += ["--target-root", str(tmp_path / "target")]
    command += ["--run", f"a={tmp_path / 'a'}", "--run", f"b={tmp_path / 'b'}"]
    command += ["--calibration-sessions", names[0], "--sessions", *names[1:], "--output", str(tmp_path / "x.json")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    # Processor time, so that a busy machine does not fail it.
    word, seconds, peak = ended.stdout.splitlines()[-1].split()
    assert word == "measured"
    assert float(seconds) < 20
    assert int(peak) < 1e9
    report = json.loads((tmp_path / "x.json").read_text())
    assert report["runs"]["a"]["events"][0]["no_response_count"] > 1000
