# Run records, the leaderboard, and the reports beside it.


rule run_record:
    input:
        manifest=f"{RESULTS}/release/manifest.json",
        metrics=lambda wildcards: [
            f"{RESULTS}/folds/{wildcards.model}/{task}/{protocol}/{value}/metrics.json"
            for task in PLAN.tasks_of(wildcards.model)
            for protocol, value in PLAN.folds(task)
        ],
    output:
        f"{RESULTS}/runs/{{model}}.json",
    log:
        f"{RESULTS}/logs/runs/{{model}}.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/collect_run.py"),
        model=lambda wildcards: PLAN.model_text(wildcards.model),
        eval_split=EVAL,
        seed=SEED,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py collect_run --manifest {input.manifest} --model-config config/models/{wildcards.model}.yaml"
        " --metrics {input.metrics} --eval-split {params.eval_split} --seed {params.seed} --out {output} 2> {log}"


rule board:
    input:
        manifest=f"{RESULTS}/release/manifest.json",
        runs=expand(f"{RESULTS}/runs/{{model}}.json", model=PLAN.entrants),
        replicates=[
            f"{RESULTS}/folds/{model}/{task}/score_replicates.parquet"
            for model in PLAN.entrants
            for task in PLAN.tasks_of(model)
        ],
        sim_to_real=SIM_TO_REAL,
    output:
        board=f"{RESULTS}/leaderboard.json",
        schema=f"{RESULTS}/leaderboard.schema.json",
        csv=report(
            f"{RESULTS}/leaderboard.csv",
            caption="../report/board_csv.rst",
            category="2. Tables",
            labels={"what": "scores by held-out value", "as": "CSV"},
        ),
        aggregation=report(
            f"{RESULTS}/reports/aggregation.json",
            caption="../report/aggregation.rst",
            category="4. Reports",
            labels={"what": "what the averages rest on", "as": "JSON"},
        ),
    log:
        f"{RESULTS}/logs/leaderboard.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/build_leaderboard.py"),
        sim_to_real=lambda wildcards, input: (
            f"--sim-to-real {input.sim_to_real}" if input.sim_to_real else ""
        ),
    shell:
        "python -IS $EMMA_HOME/scripts/run.py build_leaderboard --manifest {input.manifest} --runs {input.runs} --replicates {input.replicates}"
        " {params.sim_to_real} --board {output.board} --schema {output.schema} --csv {output.csv} --aggregation {output.aggregation} 2> {log}"


rule stress_report:
    input:
        manifest=f"{RESULTS}/release/manifest.json",
        metrics=[
            f"{RESULTS}/folds/{model}/{task}/{protocol}/{value}/metrics.json"
            for model in PLAN.models
            for task in PLAN.tasks_of(model)
            for protocol, value in PLAN.folds(task, stress=True)
        ],
    output:
        report(
            f"{RESULTS}/reports/stress.json",
            caption="../report/stress.rst",
            category="4. Reports",
            labels={"what": "scores under an unseen noise regime", "as": "JSON"},
        ),
    log:
        f"{RESULTS}/logs/stress_report.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/build_stress.py"),
    shell:
        "python -IS $EMMA_HOME/scripts/run.py build_stress --manifest {input.manifest} --metrics {input.metrics}"
        " --out {output} 2> {log}"


# What people read of the board. Its figures are as many as the tasks ask for; those of captures only where they are.
rule page:
    input:
        board=f"{RESULTS}/leaderboard.json",
        manifest=f"{RESULTS}/release/manifest.json",
        sim_to_real=SIM_TO_REAL,
    output:
        page=report(
            f"{RESULTS}/leaderboard.html",
            caption="../report/leaderboard.rst",
            category="1. Leaderboard",
            labels={"what": "leaderboard", "as": "page"},
        ),
        markdown=report(
            f"{RESULTS}/leaderboard.md",
            caption="../report/board_markdown.rst",
            category="2. Tables",
            labels={"what": "ranking", "as": "Markdown"},
        ),
        latex=f"{RESULTS}/leaderboard.tex",
        figures=report(
            directory(f"{RESULTS}/figures"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="3. Figures",
            labels={"what": "{figure}", "as": "SVG"},
        ),
    log:
        f"{RESULTS}/logs/page.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/build_page.py"),
        sim_to_real=lambda wildcards, input: (
            f"--sim-to-real {input.sim_to_real}" if input.sim_to_real else ""
        ),
    shell:
        "python -IS $EMMA_HOME/scripts/run.py build_page --board {input.board} --manifest {input.manifest} {params.sim_to_real} --page {output.page}"
        " --markdown {output.markdown} --latex {output.latex} --figures {output.figures} 2> {log}"
