# The plan of the run, and the few names that every rule uses. Logic lives in src/emma/plan.py.
import os
import sys

sys.path.insert(0, f"{workflow.basedir}/src")

from emma.files import InputError
from emma.plan import Plan, job_environment

os.environ.update(job_environment(workflow.basedir))


def refuse(error):
    """Say in one line what is wrong with the configuration, and end with status 2 before anything is planned."""
    sys.stderr.write(f"{error}\n")
    sys.stderr.flush()
    os._exit(2)


try:
    PLAN = Plan(config, workflow.basedir)
except InputError as error:
    refuse(error)

RESULTS = PLAN.results
SEED = PLAN.config.seed
EVAL = PLAN.eval_split.value
RELEASE = PLAN.release_path
code = PLAN.code


wildcard_constraints:
    model="[A-Za-z0-9][A-Za-z0-9._-]*",
    task="|".join(PLAN.tasks),
    split="TRAIN|DEV|HOLDOUT|PRETRAIN",
    protocol="[a-z-]+",
    value="[^/]+",
