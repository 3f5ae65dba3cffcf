# The release archive: everything that a result rests on but the scenes' samples, in one zip; with embeddings, too.


rule archive:
    input:
        archivable,
        board=LAYOUT.board,
        stress=LAYOUT.report("stress"),
        folds=rules.folds.input,
        page=rules.page.output,
        embeddings=lambda wildcards: PLAN.embedded() if wildcards.more else [],
    output:
        LAYOUT.archive(PLAN.release.release, "{more}"),
    log:
        LAYOUT.log("archive{more}"),
    wildcard_constraints:
        more="(-with-embeddings)?",
    conda:
        ENV
    params:
        code=code("build_archive"),
        more=lambda wildcards: wildcards.more and f"-{wildcards.more}",
    shell:
        program(
            "build_archive",
            "--results $(dirname {input.board}) {params.more} --out {output}",
        )
