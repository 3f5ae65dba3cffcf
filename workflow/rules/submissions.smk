# Submitted predictions: one job per bundle validates it as untrusted and scores it as ours. A rule per bundle.

for entrant in PLAN.submissions:

    rule:
        name:
            f"submission_{entrant}"
        input:
            manifest=LAYOUT.manifest,
            indexes=expand(
                LAYOUT.index("{task}", "{split}"),
                task=PLAN.tasks,
                split=["TRAIN", EVAL],
            ),
            labels=expand(
                LAYOUT.labels("{task}", "{split}"),
                task=PLAN.tasks,
                split=["TRAIN", EVAL],
            ),
            bundle=PLAN.bundle_files(entrant),
        output:
            [
                file(*place)
                for place in PLAN.model_folds(entrant)
                for file in (LAYOUT.predictions, LAYOUT.metrics)
            ],
            [LAYOUT.replicates(entrant, task) for task in PLAN.tasks_of(entrant)],
            LAYOUT.run(entrant),
        log:
            LAYOUT.log("submissions", entrant),
        conda:
            ENV
        params:
            code=code("score_submission"),
            folder=PLAN.submissions[entrant].root.relative_to(PLAN.root).as_posix(),
            results=PLAN.results,
            eval_split=EVAL,
            seed=SEED,
        shell:
            program(
                "score_submission",
                "{params.folder:q} --results {params.results}",
                "--eval-split {params.eval_split} --seed {params.seed} --out {params.results}",
            )
