# The release archive: everything that a result rests on but the scenes' samples, in one zip.


rule archive:
    input:
        board=LAYOUT.board,
        stress=LAYOUT.report("stress"),
        folds=rules.folds.input,
    output:
        LAYOUT.archive(PLAN.release.release),
    log:
        LAYOUT.log("archive"),
    conda:
        ENV
    params:
        code=code("build_archive"),
    shell:
        program(
            "build_archive",
            "--results $(dirname {input.board}) --out {output}",
        )
