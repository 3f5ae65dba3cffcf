# The plan of the run, and the few names that every rule uses. Logic lives in src/workflow_support/plan.py.
import os
import re
import sys
from pathlib import Path

# Where this file's checkout is: also right in a `module` of another workflow, whose own folder holds config and results.
HOME = Path(workflow.current_basedir).parents[1]
sys.path.insert(0, f"{HOME}/src")

from snakemake.logging import logger as messages
from workflow_support.ending import check_file_limit, end_in_one_line

# Before the imports that take long.
if workflow.is_main_process:
    end_in_one_line(messages)

from common.errors import InputError
from common.files import hold_alone
from workflow_support.archive import check_archive
from workflow_support.captures import check_captures
from workflow_support.inputs import check_inputs
from workflow_support.outputs import check_outputs
from workflow_support.plan import Plan, job_environment
from emma.data.release import check_declared
from workflow_support.worker import SOCKET, start_worker


def refuse(error):
    """Say in one line what is wrong with the configuration, and end with status 2 before anything is planned."""
    sys.stderr.write(f"{error}\n")
    sys.stderr.flush()
    os._exit(2)


# That of the run that this one was started within.
os.environ.pop(SOCKET, None)

try:
    check_file_limit()
    os.environ.update(job_environment(HOME))
    # With conda or containers, jobs find other packages than this process does.
    deployed = getattr(workflow.deployment_settings, "deployment_method", ())
    PLAN = Plan(config, Path.cwd(), HOME, elsewhere=bool(deployed))
    recipe = PLAN.recipe
    check_declared(
        PLAN.release,
        {task: recipe.values_of(task) for task in recipe.tasks},
        PLAN.release_path,
    )
    check_captures(
        [declared for _, declared in PLAN.captures.values()],
        recipe,
        PLAN.release.release,
    )
    # A job elsewhere was planned here.
    if workflow.is_main_process:
        check_outputs(PLAN)
        check_inputs(PLAN)
except InputError as error:
    refuse(error)

for line in PLAN.notices():
    sys.stderr.write(f"{line}\n")

# A run that was killed leaves Snakemake's locks behind; while no other run lives, they bind nobody.
if hold_alone(".snakemake/alive"):
    for lock in Path(".snakemake/locks").glob("*.lock"):
        lock.unlink(missing_ok=True)

LAYOUT = PLAN.layout
SEED = PLAN.config.seed
EVAL = PLAN.eval_split.value
RELEASE = PLAN.release_path

# What the rules share: an environment, the digest of a program's code, and a job's command.
ENV = "../../envs/emma.yaml"
code = PLAN.code


def program(name, *options, stdout=""):
    """The command of a job: a program of scripts/ with its options and its log; ``stdout`` names a file for it."""
    command = (
        f"python -IS $EMMA_HOME/scripts/run.py {name} {' '.join(options)} 2> {{log}}"
    )
    return f"{command} >{stdout}" if stdout else command


def archivable(wildcards):
    """No further input: what no archive could be made of is refused here, before the first job."""
    try:
        check_archive(PLAN)
    except InputError as error:
        refuse(error)
    return []


# Jobs on this machine, with this interpreter, fork from one warm process; --no-hooks does without.
onstart:
    if workflow.local_exec and not deployed:
        start_worker(HOME / "scripts")


wildcard_constraints:
    model="|".join(re.escape(name) for name in PLAN.models),
    task="|".join(PLAN.tasks),
    captures="|".join(PLAN.captures) or "none",
    split="TRAIN|DEV|HOLDOUT|PRETRAIN",
    protocol="[a-z-]+",
    value="[^/]+",
