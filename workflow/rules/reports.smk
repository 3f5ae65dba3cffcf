# Run records, the leaderboard, and the reports beside it.


rule run_record:
    input:
        manifest=LAYOUT.manifest,
        metrics=lambda wildcards: [
            LAYOUT.metrics(*place) for place in PLAN.model_folds(wildcards.model)
        ],
    output:
        LAYOUT.run("{model}"),
    log:
        LAYOUT.log("runs", "{model}"),
    conda:
        ENV
    params:
        code=code("collect_run"),
        model=lambda wildcards: PLAN.model_hash(wildcards.model),
        eval_split=EVAL,
        seed=SEED,
    shell:
        program(
            "collect_run",
            "--manifest {input.manifest} --model-config config/models/{wildcards.model}.yaml",
            "--metrics {input.metrics} --eval-split {params.eval_split} --seed {params.seed} --out {output}",
        )


rule board:
    input:
        manifest=LAYOUT.manifest,
        runs=expand(LAYOUT.run("{model}"), model=PLAN.entrants),
        replicates=[
            LAYOUT.replicates(model, task)
            for model in PLAN.entrants
            for task in PLAN.tasks_of(model)
        ],
        sim_to_real=SIM_TO_REAL,
        costs=expand(LAYOUT.cost("{model}"), model=PLAN.embedding()),
    output:
        board=LAYOUT.board,
        schema=LAYOUT.board_as("schema.json"),
        csv=report(
            LAYOUT.board_as("csv"),
            caption="../report/board_csv.rst",
            category="2. Tables",
            labels={"what": "scores by held-out value", "as": "CSV"},
        ),
        aggregation=report(
            LAYOUT.report("aggregation"),
            caption="../report/aggregation.rst",
            category="4. Reports",
            labels={"what": "what the averages rest on", "as": "JSON"},
        ),
    log:
        LAYOUT.log("leaderboard"),
    conda:
        ENV
    params:
        code=code("build_leaderboard"),
        sim_to_real=lambda wildcards, input: (
            f"--sim-to-real {input.sim_to_real}" if input.sim_to_real else ""
        ),
    shell:
        program(
            "build_leaderboard",
            "--manifest {input.manifest} --runs {input.runs} --replicates {input.replicates}",
            "{params.sim_to_real} --costs {input.costs} --board {output.board} --schema {output.schema} --csv {output.csv} --aggregation {output.aggregation}",
        )


rule stress_report:
    input:
        manifest=LAYOUT.manifest,
        metrics=[
            LAYOUT.metrics(*place)
            for model in PLAN.models
            for place in PLAN.model_folds(model, stress=True)
        ],
    output:
        report(
            LAYOUT.report("stress"),
            caption="../report/stress.rst",
            category="4. Reports",
            labels={"what": "scores under an unseen noise regime", "as": "JSON"},
        ),
    log:
        LAYOUT.log("stress_report"),
    conda:
        ENV
    params:
        code=code("build_stress"),
    shell:
        program(
            "build_stress",
            "--manifest {input.manifest} --metrics {input.metrics}",
            "--out {output}",
        )


# Other probes of the same embeddings: beside the board, never in it.
rule probe:
    input:
        manifest=LAYOUT.manifest,
        embeddings=lambda wildcards: [
            LAYOUT.embeddings(wildcards.model, task)
            for task in PLAN.tasks_of(wildcards.model)
        ],
        scenes=lambda wildcards: [
            file(task, split)
            for task in PLAN.tasks_of(wildcards.model)
            for split in ("TRAIN", EVAL)
            for file in (LAYOUT.index, LAYOUT.labels)
        ],
    output:
        LAYOUT.probes("{model}"),
    log:
        LAYOUT.log("probes", "{model}"),
    conda:
        ENV
    params:
        code=code("probe_model"),
        model=lambda wildcards: PLAN.model_hash(wildcards.model),
        eval_split=EVAL,
        seed=SEED,
    shell:
        program(
            "probe_model",
            "--manifest {input.manifest} --model-config config/models/{wildcards.model}.yaml",
            "--results $(dirname $(dirname {input.manifest})) --eval-split {params.eval_split} --seed {params.seed}",
            "--out {output}",
        )


rule probe_report:
    input:
        manifest=LAYOUT.manifest,
        probes=expand(LAYOUT.probes("{model}"), model=PLAN.models),
    output:
        report=report(
            LAYOUT.report("probes"),
            caption="../report/probes.rst",
            category="4. Reports",
            labels={"what": "scores under other probes", "as": "JSON"},
        ),
        figure=report(
            LAYOUT.report("probes", "svg"),
            caption="../report/probes.rst",
            category="3. Figures",
            labels={"what": "probes", "as": "SVG"},
        ),
    log:
        LAYOUT.log("probe_report"),
    conda:
        ENV
    params:
        code=code("build_probes"),
    shell:
        program(
            "build_probes",
            "--manifest {input.manifest} --probes {input.probes}",
            "--out {output.report} --figure {output.figure}",
        )


# Measured on this machine, alone on it: in no hash, and nothing rests on it.
rule speed_report:
    input:
        scenes=expand(LAYOUT.scenes("{task}", EVAL), task=PLAN.tasks),
        weights=expand(LAYOUT.weights("{model}"), model=PLAN.pretrained()),
    output:
        LAYOUT.report("speed"),
    log:
        LAYOUT.log("speed_report"),
    conda:
        ENV
    threads: workflow.cores or 1
    params:
        code=PLAN.speed_code(),
        models=[PLAN.model_hash(model) for model in PLAN.measured()],
        configs=[f"config/models/{model}.yaml" for model in PLAN.measured()],
        windows=PLAN.windows(*PLAN.tasks),
    shell:
        program(
            "measure_speed",
            "--model-configs {params.configs} --scenes {input.scenes} {params.windows}",
            "--results $(dirname $(dirname {output})) --out {output}",
        )


# What people read of the board. Its figures are as many as the tasks ask for; those of captures only where they are.
rule page:
    input:
        board=LAYOUT.board,
        manifest=LAYOUT.manifest,
        sim_to_real=SIM_TO_REAL,
        probes=[LAYOUT.report("probes")] if PLAN.config.probes else [],
    output:
        page=report(
            LAYOUT.board_as("html"),
            caption="../report/leaderboard.rst",
            category="1. Leaderboard",
            labels={"what": "leaderboard", "as": "page"},
        ),
        markdown=report(
            LAYOUT.board_as("md"),
            caption="../report/board_markdown.rst",
            category="2. Tables",
            labels={"what": "ranking", "as": "Markdown"},
        ),
        latex=LAYOUT.board_as("tex"),
        appendix=LAYOUT.board_as("appendix.tex"),
        bibtex=LAYOUT.board_as("bib"),
        figures=report(
            directory(LAYOUT.figures),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="3. Figures",
            labels={"what": "{figure}", "as": "SVG"},
        ),
    log:
        LAYOUT.log("page"),
    conda:
        ENV
    params:
        code=code("build_page"),
        sim_to_real=lambda wildcards, input: (
            f"--sim-to-real {input.sim_to_real}" if input.sim_to_real else ""
        ),
        probes=lambda wildcards, input: (
            f"--probes {input.probes}" if input.probes else ""
        ),
    shell:
        program(
            "build_page",
            "--board {input.board} --manifest {input.manifest} {params.sim_to_real} {params.probes} --page {output.page}",
            "--markdown {output.markdown} --latex {output.latex} --appendix {output.appendix} --bibtex {output.bibtex} --figures {output.figures}",
        )
