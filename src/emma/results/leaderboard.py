"""The leaderboard: runs of one release side by side, ranked by OOD average, with what the ranks rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.errors import InputError
from emma.data.protocols import primary_protocol
from emma.data.release import DataReleaseManifest
from emma.evaluation.records import FloatArray
from emma.results.aggregate import Entrant, OODAvg, Standing, normalise_task, rank, summarise
from emma.results.records import (
    AggregationReport,
    Board,
    ModelStatistics,
    Range,
    RankStatistics,
    Row,
    RunRecord,
    Sensitivity,
    SimToReal,
)
from emma.tasks import TaskID

#: Bootstrap replicates of one model's primary scores, by task and held-out value.
PrimaryReplicates = Mapping[TaskID, Mapping[str, FloatArray]]


def check_provenance(manifest: DataReleaseManifest, runs: Mapping[str, RunRecord]) -> None:
    """Refuse runs that are not of this release, or that differ in seed, evaluation split or harness version."""
    seen: dict[str, tuple[str | int, str]] = {}
    for path, run in runs.items():
        if run.run_manifest.data_release_hash != manifest.data_release_hash:
            raise InputError(f"{path}: data_release_hash: expected {manifest.data_release_hash}, that of the release")
        shared: dict[str, str | int] = {
            "seed": run.run_manifest.seed,
            "harness_version": run.run_manifest.harness_version,
            "eval_split": run.eval_split,
        }
        for key, value in shared.items():
            first, where = seen.setdefault(key, (value, path))
            if value != first:
                raise InputError(f"{path}: {key}: {value}, expected {first} as in {where}: runs of mixed provenance")
    names = [run.model for run in runs.values()]
    if len(set(names)) != len(names):
        raise InputError(f"{next(iter(runs))}: model: two runs have one name, expected one run per model")


def check_scores(manifest: DataReleaseManifest, runs: Mapping[str, RunRecord]) -> None:
    """Refuse a run whose task scores do not follow from its own held-out values by the release's specs and anchors."""
    for path, run in runs.items():
        for task, block in run.tasks.items():
            spec = manifest.spec(task)
            protocol = primary_protocol(spec)
            scores = {name: record.score for name, record in block.values.items()}
            if set(scores) != set(spec.held_out):
                raise InputError(f"{path}: {task}: values: {sorted(scores)}, expected {sorted(spec.held_out)}")
            summary = summarise(scores)
            normalized, clipped = normalise_task(spec, summary.score)
            expected = {
                "metric": spec.metric,
                "protocol": protocol.name,
                "axis": spec.ood_axis.value,
                "in_ood_avg": spec.in_ood_avg,
                "score": summary.score,
                "standard_error": summary.standard_error,
                "undefined": summary.undefined_reason,
                "normalized": normalized,
                "clipped": clipped,
            }
            for key, value in expected.items():
                if getattr(block, key) != value:
                    raise InputError(f"{path}: {task}: {key}: {getattr(block, key)}, expected {value} by the release")


def build_board(
    manifest: DataReleaseManifest,
    runs: Mapping[str, RunRecord],
    replicates: Mapping[str, PrimaryReplicates],
    sim_to_real: Mapping[str, SimToReal] | None = None,
) -> tuple[Board, AggregationReport]:
    """Rank the runs of a release.

    Args:
        manifest: the release; anchors are read from it alone.
        runs: run records by where they were read.
        replicates: bootstrap replicates by model.
        sim_to_real: sim-to-real blocks by model, where there are any.

    Returns:
        the board, and the aggregation report.

    Raises:
        InputError: no run, runs of mixed provenance, scores that do not follow from their components, or replicates
            missing.
    """
    if not runs:
        raise InputError("leaderboard: expected at least one run")
    check_provenance(manifest, runs)
    check_scores(manifest, runs)
    aggregator = OODAvg(manifest.tasks)
    entrants = [_entrant(aggregator, run, replicates.get(run.model, {})) for run in runs.values()]
    standings, statistics = rank(aggregator, entrants, manifest.bootstrap.level)
    order = sorted(runs.values(), key=lambda run: (_place(standings[run.model]), run.kind, run.model))
    rows = [_row(run, standings[run.model], (sim_to_real or {}).get(run.model)) for run in order]
    first = order[0]
    board = Board(
        release=manifest.release,
        data_release_hash=manifest.data_release_hash,
        eval_split=first.eval_split,
        seed=first.run_manifest.seed,
        harness_version=first.run_manifest.harness_version,
        caveats=manifest.caveats,
        models=tuple(rows),
    )
    return board, _aggregation_report(board, standings, statistics)


def _place(standing: Standing) -> tuple[float, float]:
    """Ranked models first, then unranked ones by their average, then those without one."""
    average = float("inf") if standing.ood_avg is None else -standing.ood_avg
    return (float("inf") if standing.rank is None else standing.rank, average)


def _entrant(aggregator: OODAvg, run: RunRecord, replicates: PrimaryReplicates) -> Entrant:
    scores = {
        task: {value: record.score for value, record in run.tasks[task].values.items()}
        for task in aggregator.tasks
        if task in run.tasks
    }
    return Entrant(run.model, scores, {task: replicates.get(task, {}) for task in scores}, run.kind != "reference")


def _row(run: RunRecord, standing: Standing, sim_to_real: SimToReal | None) -> Row:
    sensitivity = None
    if standing.ood_avg is not None:
        ranges = [
            Range(min=min(averages.values()), max=max(averages.values()), averages=averages) if averages else None
            for averages in (standing.leave_one_task_out, standing.leave_one_value_out)
        ]
        sensitivity = Sensitivity(leave_one_task_out=ranges[0], leave_one_value_out=ranges[1], fragile=standing.fragile)
    return Row(
        model=run.model,
        kind=run.kind,
        rank=standing.rank,
        ood_avg=standing.ood_avg,
        ood_avg_ci95=standing.ci95,
        undefined=standing.undefined_reason,
        separable_from_next=standing.separable_from_next,
        tasks=run.tasks,
        sensitivity=sensitivity,
        sim_to_real=sim_to_real,
        run_manifest=run.run_manifest,
    )


def _aggregation_report(
    board: Board, standings: Mapping[str, Standing], statistics: RankStatistics
) -> AggregationReport:
    return AggregationReport(
        **dict(statistics),
        release=board.release,
        data_release_hash=board.data_release_hash,
        caveats=board.caveats,
        models={
            row.model: ModelStatistics(
                rank=row.rank,
                ood_avg=row.ood_avg,
                ood_avg_ci95=row.ood_avg_ci95,
                undefined=row.undefined,
                separable_from_next=row.separable_from_next,
                holm_p_value_against_next=standings[row.model].p_value_against_next,
                sensitivity=row.sensitivity,
            )
            for row in board.models
        },
    )


def board_text(board: Board) -> str:
    """The board as a short plain table for a terminal, with its caveats."""
    tasks: Sequence[TaskID] = list(board.models[0].tasks)
    head = ["rank", "model", "OOD-avg", "95% interval", *(task.value for task in tasks)]
    lines = [head]
    for row in board.models:
        interval = "-" if row.ood_avg_ci95 is None else f"[{row.ood_avg_ci95[0]:.3f}, {row.ood_avg_ci95[1]:.3f}]"
        average = "-" if row.ood_avg is None else f"{row.ood_avg:.3f}"
        cells = [str(row.rank or "-"), row.model, average, interval]
        for task in tasks:
            block = row.tasks.get(task)
            cells.append("-" if block is None or block.score is None else f"{block.score:.3f}")
        lines.append(cells)
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*table, "", *(f"- {caveat}" for caveat in board.caveats)]) + "\n"
