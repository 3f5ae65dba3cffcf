"""The leaderboard: runs of one release side by side, ranked by OOD average, with what the ranks rest on."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from common.errors import InputError
from common.terminal import folded, item
from emma.data.costs import Cost
from emma.data.protocols import primary_protocol
from emma.data.release import DataReleaseManifest
from emma.evaluation.records import Draws
from emma.results.aggregate import OODAvg, normalise_task, summarise
from emma.results.caveats import PUBLIC_LABELS, model_caveats, row_caveats
from emma.results.components import (
    APART_TITLE,
    CONTROL_NOTE,
    GAP_NOTE,
    LEVEL,
    above_floor,
    components_head,
    components_text,
    control_texts,
    gap_texts,
)
from emma.results.controls import compare_controls
from emma.results.ranking import Entrant, Standing, p_no_better, rank
from emma.results.records import (
    AggregationReport,
    BeatsFloor,
    Board,
    BoardTask,
    Bought,
    Components,
    ModelStatistics,
    Range,
    RankStatistics,
    Row,
    RowCost,
    RunRecord,
    Sensitivity,
    SimToReal,
)
from emma.tasks import TaskID

#: Draws of one model's primary scores, by task and held-out value.
PrimaryReplicates = Mapping[TaskID, Mapping[str, Draws]]


def check_provenance(manifest: DataReleaseManifest, runs: Mapping[str, RunRecord]) -> None:
    """Refuse runs that are not of this release, or that differ in seed, evaluation split or harness version."""
    seen: dict[str, tuple[str | int, str]] = {}
    release = manifest.data_release_hash
    for path, run in runs.items():
        if run.run_manifest.data_release_hash != release:
            raise InputError(f"{path}: data_release_hash: expected {release}, that of the release")
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
    costs: Mapping[str, Cost] | None = None,
) -> tuple[Board, AggregationReport]:
    """Rank the runs of a release.

    Args:
        manifest: the release; anchors are read from it alone.
        runs: run records by where they were read.
        replicates: draws of the primary scores by model.
        sim_to_real: sim-to-real blocks by model, where there are any.
        costs: what models cost, where that was counted.

    Returns:
        the board, and the aggregation report.

    Raises:
        InputError: no run, runs of mixed provenance, scores that do not follow from their components, costs of another
            model, or replicates missing.
    """
    if not runs:
        raise InputError("leaderboard: expected at least one run")
    check_provenance(manifest, runs)
    check_scores(manifest, runs)
    counted = _costs(runs, costs or {})
    aggregator = OODAvg(manifest.tasks)
    entrants = [_entrant(aggregator, run, replicates.get(run.model, {})) for run in runs.values()]
    standings, statistics = rank(aggregator, entrants, manifest.bootstrap.level)
    order = sorted(runs.values(), key=lambda run: (run.apart, _place(standings[run.model]), run.kind, run.model))
    tests = _floor_tests(runs.values(), replicates)
    bought = compare_controls(order, standings, replicates, manifest.bootstrap.level)
    told = row_caveats(order)
    rows = [
        _row(
            run,
            standings[run.model],
            told[run.model],
            tests[run.model],
            sim_to_real=(sim_to_real or {}).get(run.model),
            control=bought.get(run.model),
            cost=counted.get(run.model),
        )
        for run in order
    ]
    first = order[0]
    board = Board(
        release=manifest.release,
        data_release_hash=manifest.data_release_hash,
        eval_split=first.eval_split,
        seed=first.run_manifest.seed,
        harness_version=first.run_manifest.harness_version,
        caveats=(*manifest.caveats, *model_caveats(manifest, order)),
        models=tuple(rows),
    )
    return board, _aggregation_report(board, standings, statistics)


def _place(standing: Standing) -> tuple[float, float]:
    """Ranked models first, then unranked ones by their average, then those without one."""
    average = float("inf") if standing.ood_avg is None else -standing.ood_avg
    return (float("inf") if standing.rank is None else standing.rank, average)


def _unranked(run: RunRecord, standing: Standing) -> str | None:
    """Why a run has no rank."""
    if run.ranked:
        return standing.undefined_reason
    if run.apart:
        return PUBLIC_LABELS
    return f"kind {run.kind}: it sets the scale"


def _entrant(aggregator: OODAvg, run: RunRecord, replicates: PrimaryReplicates) -> Entrant:
    scores = {
        task: {value: record.score for value, record in run.tasks[task].values.items()}
        for task in aggregator.tasks
        if task in run.tasks
    }
    return Entrant(run.model, scores, {task: replicates.get(task, {}) for task in scores}, run.ranked)


def _floor_tests(
    runs: Iterable[RunRecord], replicates: Mapping[str, PrimaryReplicates]
) -> dict[str, dict[TaskID, BeatsFloor | None]]:
    """By model and task, the paired test against the floor: of the rows of kind ``chance`` the best on the task."""
    every = list(runs)
    floors = {run.model: run for run in every if run.kind == "chance"}
    tests: dict[str, dict[TaskID, BeatsFloor | None]] = {}
    for run in every:
        tests[run.model] = {}
        for task, block in run.tasks.items():
            sign = 1.0 if block.direction == "higher" else -1.0
            known = [
                (sign * other.score, name)
                for name, floor in floors.items()
                if (other := floor.tasks.get(task)) is not None and other.score is not None
            ]
            tests[run.model][task] = None
            if not known or block.score is None or run.model in floors:
                continue
            score, name = max(known)
            try:
                draws = [[replicates[model][task][value] for value in block.values] for model in (run.model, name)]
                p = p_no_better(sign * block.score - score, *draws)
            except (KeyError, ValueError) as error:
                raise InputError(f"model {run.model}: bootstrap replicates: {task}: {error}") from None
            tests[run.model][task] = None if p is None else BeatsFloor(p=p)
    return tests


def _costs(runs: Mapping[str, RunRecord], costs: Mapping[str, Cost]) -> dict[str, RowCost]:
    """Costs by model; InputError where one was counted on another model than the run's."""
    for path, run in runs.items():
        # Of what held the process back a cost says nothing.
        model = run.run_manifest.model_provenance.model_copy(update={"isolation": "landlock"})
        if run.model in costs and costs[run.model].model_provenance != model:
            raise InputError(f"{path}: model_provenance: expected that of the model whose cost was counted")
    return {model: RowCost.of(cost) for model, cost in costs.items()}


def _row(
    run: RunRecord,
    standing: Standing,
    caveats: tuple[str, ...],
    tests: Mapping[TaskID, BeatsFloor | None],
    *,
    sim_to_real: SimToReal | None,
    control: Bought | None,
    cost: RowCost | None,
) -> Row:
    sensitivity = None
    if standing.ood_avg is not None:
        ranges = [
            Range(min=min(averages.values()), max=max(averages.values()), averages=averages) if averages else None
            for averages in (standing.leave_one_task_out, standing.leave_one_value_out)
        ]
        sensitivity = Sensitivity(
            leave_one_task_out=ranges[0],
            leave_one_value_out=ranges[1],
            ranks=standing.rank_ranges,
            fragile=standing.fragile,
        )
    return Row(
        model=run.model,
        kind=run.kind,
        control_of=run.control_of,
        standing=run.standing,
        rank=standing.rank,
        unranked=None if standing.rank is not None else _unranked(run, standing),
        rank_range=standing.rank_range,
        ood_avg=standing.ood_avg,
        ood_avg_ci95=standing.ci95,
        ood_avg_standard_errors=standing.standard_errors,
        undefined=standing.undefined_reason,
        separable_from_next=standing.separable_from_next,
        tasks={task: BoardTask(**dict(block), beats_floor=tests[task]) for task, block in run.tasks.items()},
        sensitivity=sensitivity,
        sim_to_real=sim_to_real,
        control=control,
        cost=cost,
        caveats=caveats,
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
                rank_range=row.rank_range,
                ood_avg=row.ood_avg,
                ood_avg_ci95=row.ood_avg_ci95,
                ood_avg_standard_errors=row.ood_avg_standard_errors,
                tasks={
                    task: Components(
                        metric=block.metric,
                        score=block.score,
                        normalized=block.normalized,
                        in_ood_avg=block.in_ood_avg,
                        values={value: record.score for value, record in block.values.items()},
                    )
                    for task, block in row.tasks.items()
                },
                undefined=row.undefined,
                separable_from_next=row.separable_from_next,
                holm_p_value_against_next=standings[row.model].p_value_against_next,
                sensitivity=row.sensitivity,
            )
            for row in board.models
        },
    )


def board_text(board: Board, width: int | None = None) -> str:
    """The board as a plain table for a terminal: every mean with its held-out values, and the caveats.

    A table that is wider than ``width`` is folded: its columns follow one another in blocks.
    """
    tasks = {task: block for row in reversed(board.models) for task, block in row.tasks.items()}
    order = list(dict.fromkeys([*board.models[0].tasks, *tasks]))
    heads = [f"{task.value} ({components_head(list(tasks[task].values))})" for task in order]
    gaps, controls = gap_texts(board, "-"), control_texts(board, _plain, "-")
    beside = controls | gaps
    lines = [["rank", "range", "model", "OOD-avg", "95% interval", *beside, *heads]]
    marked = False
    for number, row in enumerate(board.models):
        interval = "-" if row.ood_avg_ci95 is None else f"[{row.ood_avg_ci95[0]:.3f}, {row.ood_avg_ci95[1]:.3f}]"
        span = "-" if row.rank_range is None else f"{row.rank_range[0]} to {row.rank_range[1]}"
        cells = [str(row.rank or "-"), span, row.model, _plain(row.ood_avg), interval]
        cells += [column[number] for column in beside.values()]
        for task in order:
            if (block := row.tasks.get(task)) is None:
                cells.append("-")
                continue
            mark = "~" if above_floor(row, task) is False else ""
            marked = marked or bool(mark)
            cells.append(f"{_plain(block.score)}{mark} ({components_text(block.values.values(), _plain)})")
        lines.append(cells)
    blocks = folded(lines, (lines[0].index("rank"), lines[0].index("model")), width)
    own = len(board.reproduced) + 1
    if board.apart:
        title = APART_TITLE if width is None else textwrap.fill(APART_TITLE, width)
        blocks = [[*block[:own], "", title, block[0], *block[own:]] for block in blocks]
    notes = [f"~ does not beat the floor (one-sided p of {LEVEL} or more)."] if marked else []
    notes += [CONTROL_NOTE] if controls else []
    notes += [GAP_NOTE] if gaps else []
    notes += [f"{row.model}: {caveat}" for row in board.models for caveat in row.caveats]
    items = [item(note, width) for note in (*notes, *board.caveats)]
    if len(blocks) > 1:
        items.append(item("Columns are folded at the terminal's width; a pipe shows each row whole (less -S).", width))
    return "\n".join([*(line for block in blocks for line in [*block, ""]), *items]) + "\n"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
