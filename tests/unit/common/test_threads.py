"""One thread for fits, for libraries that come late too."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json
import numpy
from common.threads import one_thread
with one_thread():
    import scipy.linalg.lapack
    import scipy.optimize
    from threadpoolctl import threadpool_info
    print(json.dumps([(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]))
"""


def test_libraries_that_are_loaded_later_are_held_too():
    """scipy's own BLAS, loaded after a plain limit, runs on every core, and its sums are other bytes."""
    settings = {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    settings |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=os.environ | settings
    )
    pools = json.loads(done.stdout)
    assert len(pools) >= 2, pools
    assert {threads for _, threads in pools} == {1}, pools
