# EMMA: from frozen scenes to the leaderboard. Each include is one stage; `snakemake all` builds every report too.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/scenes.smk"
include: "workflow/rules/splits.smk"
include: "workflow/rules/embeddings.smk"
include: "workflow/rules/readouts.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/submissions.smk"
include: "workflow/rules/real.smk"
include: "workflow/rules/reports.smk"
include: "workflow/rules/release.smk"
include: "workflow/rules/floor.smk"


# Jobs on this machine, with this interpreter, fork from one warm process; --no-hooks does without.
onstart:
    if workflow.local_exec and not deployed:
        start_worker(HOME / "scripts")


rule leaderboard:
    default_target: True
    input:
        f"{RESULTS}/leaderboard.json",
        f"{RESULTS}/leaderboard.html",
    localrule: True


rule all:
    input:
        f"{RESULTS}/leaderboard.json",
        f"{RESULTS}/leaderboard.html",
        f"{RESULTS}/reports/stress.json",
        rules.folds.input,
        FLOOR_TARGETS,
    localrule: True
