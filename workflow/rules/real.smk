# Captured scenes: surrogate recordings, conversion, twins, scores of both sides, and the gap between them.
SIM_TO_REAL = [PLAN.gap_report()] if PLAN.captures else []

for name in PLAN.surrogates():

    rule:
        name:
            f"make_{name}"
        output:
            PLAN.recordings(name),
        log:
            LAYOUT.log("captures", name, "recordings"),
        conda:
            ENV
        params:
            code=code("make_surrogate"),
            declared=PLAN.capture_hash(name),
            recipe=PLAN.recipe_hash(),
            release=RELEASE,
            name=name,
        shell:
            program(
                "make_surrogate",
                "--captures config/captures/{params.name}.yaml",
                "--release-config {params.release} --out {output}",
            )


rule convert_captures:
    input:
        lambda wildcards: PLAN.capture_files(wildcards.captures),
    output:
        scenes=LAYOUT.capture_scenes("{captures}"),
        index=LAYOUT.capture_index("{captures}"),
        labels=LAYOUT.capture_labels("{captures}"),
        record=LAYOUT.conversion("{captures}"),
    log:
        LAYOUT.log("captures", "{captures}", "convert"),
    conda:
        ENV
    params:
        code=lambda wildcards: PLAN.convert_code(wildcards.captures),
        declared=lambda wildcards: PLAN.capture_hash(wildcards.captures),
        entry=lambda wildcards: PLAN.capture_entry(wildcards.captures),
        recipe=PLAN.recipe_hash(),
        release=RELEASE,
        root=lambda wildcards: PLAN.capture_root(wildcards.captures),
    shell:
        program(
            "convert_captures",
            "--entry {params.entry:q} --release-config {params.release} --root {params.root:q}",
            "--out {output.scenes} --index {output.index} --record {output.record}",
        )


rule twin:
    output:
        scenes=LAYOUT.twin_scenes("{captures}", "{split}"),
        index=LAYOUT.twin_index("{captures}", "{split}"),
        labels=LAYOUT.twin_labels("{captures}", "{split}"),
    log:
        LAYOUT.log("captures", "{captures}", "twin_{split}"),
    conda:
        ENV
    params:
        code=code("make_twin"),
        declared=lambda wildcards: PLAN.capture_hash(wildcards.captures),
        seed=PLAN.release.seed,
        release=RELEASE,
    shell:
        program(
            "make_twin",
            "--captures config/captures/{wildcards.captures}.yaml",
            "--release-config {params.release} --split {wildcards.split} --out {output.scenes} --index {output.index}",
        )


# A rule per model: the sets of its tasks are its own, and its library is imported once for all of them.
for model in [model for model in PLAN.models if PLAN.captures_of(model)]:

    rule:
        name:
            f"embed_captures_{model}"
        input:
            scenes=PLAN.embedded_for_captures(model),
            weights=(LAYOUT.weights(model) if model in PLAN.pretrained() else []),
        output:
            expand(
                LAYOUT.capture_embeddings("{captures}", model),
                captures=PLAN.captures_of(model),
            ),
        log:
            LAYOUT.log("captures", f"embed_{model}"),
        conda:
            ENV
        params:
            code=PLAN.embed_captures_code(model),
            model=PLAN.model_hash(model),
            name=model,
            weights=lambda wildcards, input: (
                f"--weights {input.weights}" if input.weights else ""
            ),
        shell:
            program(
                "embed_captures",
                "--model-config config/models/{params.name}.yaml {params.weights}",
                "--scenes {input.scenes} --out {output}",
            )

    rule:
        name:
            f"score_captures_{model}"
        input:
            manifest=LAYOUT.manifest,
            embeddings=expand(
                LAYOUT.capture_embeddings("{captures}", model),
                captures=PLAN.captures_of(model),
            ),
            scenes=PLAN.scored_for_captures(model),
        output:
            expand(
                LAYOUT.capture_metrics("{captures}", model),
                captures=PLAN.captures_of(model),
            ),
        log:
            LAYOUT.log("captures", f"score_{model}"),
        conda:
            ENV
        params:
            code=code("score_captures"),
            declared=[PLAN.capture_hash(name) for name in PLAN.captures_of(model)],
            captures=expand(
                "config/captures/{captures}.yaml", captures=PLAN.captures_of(model)
            ),
            model=model,
            eval_split=EVAL,
            seed=SEED,
        shell:
            program(
                "score_captures",
                "--manifest {input.manifest} --model {params.model}",
                "--captures {params.captures} --results $(dirname $(dirname {input.manifest})) --eval-split {params.eval_split}",
                "--seed {params.seed}",
            )


rule sim_to_real:
    input:
        manifest=LAYOUT.manifest,
        records=expand(LAYOUT.conversion("{captures}"), captures=PLAN.captures),
        metrics=[
            LAYOUT.capture_metrics(name, model)
            for model in PLAN.models
            for name in PLAN.captures_of(model)
        ],
        runs=expand(LAYOUT.run("{model}"), model=PLAN.models),
    output:
        report=report(
            PLAN.gap_report(),
            caption="../report/sim_to_real.rst",
            category="4. Reports",
            labels={"what": "sim-to-real gap", "as": "JSON"},
        ),
        table=report(
            PLAN.gap_report("md"),
            caption="../report/sim_to_real.rst",
            category="4. Reports",
            labels={"what": "sim-to-real gap", "as": "Markdown"},
        ),
    log:
        LAYOUT.log("sim_to_real"),
    conda:
        ENV
    params:
        code=code("build_sim_to_real"),
        declared=[PLAN.capture_hash(name) for name in PLAN.captures],
        captures=expand("config/captures/{captures}.yaml", captures=PLAN.captures),
        eval_split=EVAL,
        seed=SEED,
    shell:
        program(
            "build_sim_to_real",
            "--manifest {input.manifest} --captures {params.captures}",
            "--records {input.records} --metrics {input.metrics} --runs {input.runs} --eval-split {params.eval_split}",
            "--seed {params.seed} --out {output.report} --table {output.table}",
        )
