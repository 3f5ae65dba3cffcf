# Submitted predictions: one job a bundle validates it as a stranger's and scores it as ours. A rule a bundle.

for entrant in PLAN.submissions:

    rule:
        name:
            f"submission_{re.sub('[^A-Za-z0-9]', '_', entrant)}"
        input:
            manifest=f"{RESULTS}/release/manifest.json",
            indexes=expand(
                f"{RESULTS}/scenes/{{task}}/{{split}}.index.parquet",
                task=PLAN.tasks,
                split=["TRAIN", EVAL],
            ),
            bundle=PLAN.bundle_files(entrant),
        output:
            [
                f"{RESULTS}/folds/{entrant}/{task}/{protocol}/{value}/{file}"
                for task in PLAN.tasks_of(entrant)
                for protocol, value in PLAN.folds(task)
                for file in ("predictions.parquet", "metrics.json")
            ],
            expand(
                f"{RESULTS}/folds/{entrant}/{{task}}/score_replicates.parquet",
                task=PLAN.tasks_of(entrant),
            ),
            f"{RESULTS}/runs/{entrant}.json",
        log:
            f"{RESULTS}/logs/submissions/{entrant}.log",
        conda:
            "../../envs/emma.yaml"
        params:
            code=code("scripts/score_submission.py"),
            folder=PLAN.submissions[entrant].root.relative_to(PLAN.root).as_posix(),
            results=RESULTS,
            eval_split=EVAL,
            seed=SEED,
        shell:
            "python -IS $EMMA_HOME/scripts/run.py score_submission {params.folder:q} --results {params.results}"
            " --eval-split {params.eval_split} --seed {params.seed} --out {params.results} 2> {log}"
