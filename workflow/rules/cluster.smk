# How a job on a cluster runs its rules. Inside one, Slurm's executor would start Snakemake again for every rule of a
# group, and in each an interpreter: several seconds for a fit of one.
if workflow.remote_exec:
    workflow.localrules(*(rule.name for rule in workflow.rules))

    # Hooks do not run here. What is no group, of one rule alone, gains nothing from a worker. Snakemake's own settings of
    # groups are not there yet when this is read.
    if "--local-groupid" in sys.argv and not deployed:
        start_worker(HOME / "scripts")
