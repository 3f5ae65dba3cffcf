# Captured scenes: surrogate recordings, conversion, twins, scores of both sides, and the gap between them.
CAPTURES = f"{RESULTS}/captures"
SIM_TO_REAL = [f"{RESULTS}/reports/sim_to_real.json"] if PLAN.captures else []

for name in PLAN.surrogates():

    rule:
        name:
            f"make_{name}"
        output:
            PLAN.recordings(name),
        log:
            f"{RESULTS}/logs/captures/{name}/recordings.log",
        conda:
            "../../envs/emma.yaml"
        params:
            code=code("scripts/make_surrogate.py"),
            declared=PLAN.capture_text(name),
            recipe=PLAN.recipe_text(),
            release=RELEASE,
            name=name,
        shell:
            "python -IS $EMMA_HOME/scripts/run.py make_surrogate --captures config/captures/{params.name}.yaml"
            " --release-config {params.release} --out {output} 2> {log}"


rule convert_captures:
    input:
        lambda wildcards: PLAN.capture_files(wildcards.captures),
    output:
        scenes=f"{CAPTURES}/{{captures}}/scenes.parquet",
        index=f"{CAPTURES}/{{captures}}/index.parquet",
        record=f"{CAPTURES}/{{captures}}/record.json",
    log:
        f"{RESULTS}/logs/captures/{{captures}}/convert.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/convert_captures.py"),
        declared=lambda wildcards: PLAN.capture_text(wildcards.captures),
        entry=lambda wildcards: PLAN.capture_entry(wildcards.captures),
        root=lambda wildcards: PLAN.capture_root(wildcards.captures),
    shell:
        "python -IS $EMMA_HOME/scripts/run.py convert_captures --entry {params.entry:q} --root {params.root:q}"
        " --out {output.scenes} --index {output.index} --record {output.record} 2> {log}"


rule twin:
    output:
        scenes=f"{CAPTURES}/{{captures}}/twin/{{split}}.parquet",
        index=f"{CAPTURES}/{{captures}}/twin/{{split}}.index.parquet",
    log:
        f"{RESULTS}/logs/captures/{{captures}}/twin_{{split}}.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/make_twin.py"),
        declared=lambda wildcards: PLAN.capture_text(wildcards.captures),
        seed=PLAN.release.seed,
        release=RELEASE,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py make_twin --captures config/captures/{wildcards.captures}.yaml"
        " --release-config {params.release} --split {wildcards.split} --out {output.scenes} --index {output.index} 2> {log}"


# A rule a model: the sets of its tasks are its own, and its library is imported once for all of them.
for model in [model for model in PLAN.models if PLAN.captures_of(model)]:

    rule:
        name:
            f"embed_captures_{model}"
        input:
            scenes=PLAN.embedded_for_captures(model),
            weights=(
                f"{RESULTS}/weights/{model}.safetensors"
                if model in PLAN.pretrained()
                else []
            ),
        output:
            expand(
                f"{CAPTURES}/{{captures}}/{model}/embeddings.parquet",
                captures=PLAN.captures_of(model),
            ),
        log:
            f"{RESULTS}/logs/captures/embed_{model}.log",
        conda:
            "../../envs/emma.yaml"
        params:
            code=PLAN.embed_captures_code(model),
            model=PLAN.model_text(model),
            name=model,
            weights=lambda wildcards, input: (
                f"--weights {input.weights}" if input.weights else ""
            ),
        shell:
            "python -IS $EMMA_HOME/scripts/run.py embed_captures --model-config config/models/{params.name}.yaml {params.weights}"
            " --scenes {input.scenes} --out {output} 2> {log}"

    rule:
        name:
            f"score_captures_{model}"
        input:
            manifest=f"{RESULTS}/release/manifest.json",
            embeddings=expand(
                f"{CAPTURES}/{{captures}}/{model}/embeddings.parquet",
                captures=PLAN.captures_of(model),
            ),
            scenes=PLAN.scored_for_captures(model),
        output:
            expand(
                f"{CAPTURES}/{{captures}}/{model}/metrics.json",
                captures=PLAN.captures_of(model),
            ),
        log:
            f"{RESULTS}/logs/captures/score_{model}.log",
        conda:
            "../../envs/emma.yaml"
        params:
            code=code("scripts/score_captures.py"),
            declared=[PLAN.capture_text(name) for name in PLAN.captures_of(model)],
            captures=expand(
                "config/captures/{captures}.yaml", captures=PLAN.captures_of(model)
            ),
            model=model,
            eval_split=EVAL,
            seed=SEED,
        shell:
            "python -IS $EMMA_HOME/scripts/run.py score_captures --manifest {input.manifest} --model {params.model}"
            " --captures {params.captures} --results $(dirname $(dirname {input.manifest})) --eval-split {params.eval_split}"
            " --seed {params.seed} 2> {log}"


rule sim_to_real:
    input:
        manifest=f"{RESULTS}/release/manifest.json",
        records=expand(f"{CAPTURES}/{{captures}}/record.json", captures=PLAN.captures),
        metrics=[
            f"{CAPTURES}/{name}/{model}/metrics.json"
            for model in PLAN.models
            for name in PLAN.captures_of(model)
        ],
        runs=expand(f"{RESULTS}/runs/{{model}}.json", model=PLAN.models),
    output:
        report=report(
            f"{RESULTS}/reports/sim_to_real.json",
            caption="../report/sim_to_real.rst",
            category="4. Reports",
            labels={"what": "sim-to-real gap", "as": "JSON"},
        ),
        table=report(
            f"{RESULTS}/reports/sim_to_real.md",
            caption="../report/sim_to_real.rst",
            category="4. Reports",
            labels={"what": "sim-to-real gap", "as": "Markdown"},
        ),
    log:
        f"{RESULTS}/logs/sim_to_real.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/build_sim_to_real.py"),
        declared=[PLAN.capture_text(name) for name in PLAN.captures],
        captures=expand("config/captures/{captures}.yaml", captures=PLAN.captures),
        eval_split=EVAL,
        seed=SEED,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py build_sim_to_real --manifest {input.manifest} --captures {params.captures}"
        " --records {input.records} --metrics {input.metrics} --runs {input.runs} --eval-split {params.eval_split}"
        " --seed {params.seed} --out {output.report} --table {output.table} 2> {log}"
