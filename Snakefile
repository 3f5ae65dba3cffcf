# EMMA: from frozen scenes to the leaderboard. Each include is one stage; `snakemake all` builds every report too.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"  # the plan of the run, and what every rule uses
include: "workflow/rules/scenes.smk"  # rays, scenes, release manifest
include: "workflow/rules/splits.smk"  # folds of each task
include: "workflow/rules/embeddings.smk"  # trained weights, embeddings
include: "workflow/rules/readouts.smk"  # a readout and predictions per fold
include: "workflow/rules/metrics.smk"  # scores of every fold
include: "workflow/rules/submissions.smk"  # predictions that others made
include: "workflow/rules/real.smk"  # captured scenes, sim-to-real gap
include: "workflow/rules/reports.smk"  # run records, leaderboard, page, stress report
include: "workflow/rules/release.smk"  # the release archive
include: "workflow/rules/floor.smk"  # floor events
include: "workflow/rules/cluster.smk"  # how a job on a cluster runs its rules


rule leaderboard:
    default_target: True
    input:
        LAYOUT.board,
        LAYOUT.board_as("html"),
    localrule: True


rule all:
    input:
        LAYOUT.board,
        LAYOUT.board_as("html"),
        LAYOUT.report("stress"),
        LAYOUT.report("probes"),
        LAYOUT.report("speed"),
        rules.folds.input,
        FLOOR_TARGETS,
    localrule: True
