"""A textbook beside the models: on the board with its scores, outside the ranking, and moving nothing of it."""

import numpy as np
import pytest

from emma import TaskID
from emma.evaluation.uncertainty import less, parts_of
from emma.results.leaderboard import build_board

TEXTBOOKS = {
    "music": TaskID.E_LOC_AOA,
    "k_factor_delay": TaskID.E_LOC_LOS,
    "cumulants": TaskID.E_ID_AMC,
    "waveform_bank": TaskID.E_ID_DRONE,
    "impairments": TaskID.E_ID_FP,
    "max_min_eigenvalue": TaskID.E_SC_SENSE,
    "antenna_coherence": TaskID.E_SC_SENSE,
    "band_energies": TaskID.E_SC_ANOM,
    "wiener_mask": TaskID.E_SC_SEP,
    "line_excision": TaskID.E_SC_SEP,
    "strongest_probe": TaskID.E_CH_BEAM,
    "probe_music": TaskID.E_CH_BEAM,
    "probe_capon": TaskID.E_CH_BEAM,
    "least_squares": TaskID.E_CH_CSI,
    "lmmse_exponential": TaskID.E_CH_CSI,
    "band_detector": TaskID.E_S2T_CAP,
}
#: A textbook and each of its tasks.
PAIRS = [*TEXTBOOKS.items(), ("band_detector", TaskID.E_S2T_QA)]
MODELS = ("prior", "random_conv", "dsp")


def board(small, *names: str):
    runs = {name: small.run(name) for name in names}
    records = {name: record for name, (record, _) in runs.items()}
    return build_board(small.manifest, records, {name: draws for name, (_, draws) in runs.items()})


@pytest.fixture(scope="module")
def together(small):
    return board(small, *TEXTBOOKS, *MODELS)


@pytest.mark.parametrize("name", TEXTBOOKS)
def test_a_reference_is_shown_and_not_ranked(together, name: str) -> None:
    row = next(row for row in together[0].models if row.model == name)
    assert row.kind == "reference"
    assert set(row.tasks) == {task for other, task in PAIRS if other == name}
    assert row.tasks[TEXTBOOKS[name]].score is not None
    assert row.rank is row.ood_avg is row.ood_avg_ci95 is row.separable_from_next is row.sensitivity is None
    assert "was not run" in row.undefined
    assert name not in together[1].ranking


def test_references_move_nothing_of_the_ranking(small, together) -> None:
    alone, report = board(small, *MODELS)
    ranked = {row.model: row for row in together[0].models}
    assert [row.model for row in together[0].models][: len(MODELS)] == [row.model for row in alone.models]
    for row in alone.models:
        assert ranked[row.model] == row
    for key in ("ranking", "gaps", "median_gap", "rank_flips"):
        assert getattr(together[1], key) == getattr(report, key)


def test_a_reference_over_all_tasks_has_an_average_and_no_rank(small) -> None:
    runs = {name: small.run(name) for name in MODELS}
    records = {name: record for name, (record, _) in runs.items()}
    records["dsp"] = records["dsp"].model_copy(update={"kind": "reference"})
    made, report = build_board(small.manifest, records, {name: draws for name, (_, draws) in runs.items()})
    row = next(row for row in made.models if row.model == "dsp")
    assert row.ood_avg is not None
    assert row.rank is row.separable_from_next is None
    assert [row.model for row in made.models if row.rank] == list(report.ranking) == ["random_conv"]
    assert report.gaps == ()


@pytest.mark.parametrize(("name", "task"), PAIRS)
def test_a_textbook_beats_chance(small, together, name: str, task: TaskID, record_property) -> None:
    """By the interval of every held-out value, or the mean over units; beside the learned rows, whatever they are."""
    rows = {row.model: row.tasks[task] for row in together[0].models if task in row.tasks}
    record_property(name, {model: block.score for model, block in rows.items()})
    if name == "impairments":
        # Four captures in each of two queried sessions give no interval of one unit that says much.
        assert rows[name].score > rows["prior"].score + 0.2
        return
    if task is TaskID.E_SC_SEP:
        # A score spreads with the SINR, over 20 dB: compared on the same scenes.
        own, floor = (small.run(model)[1][TaskID.E_SC_SEP] for model in (name, "prior"))
        for value, record in rows[name].values.items():
            gain = record.score - rows["prior"].values[value].score
            error = np.sqrt(parts_of(less(own[value], floor[value])).total.variance)
            # No line stands out of a wide interferer.
            assert gain > 2 * error or (name, value) == ("line_excision", "nr-ofdm")
        return
    for value, record in rows[name].values.items():
        floor = rows["prior"].values[value]
        if rows[name].direction == "lower":
            assert record.ci95[1] < floor.ci95[0]
        else:
            assert record.ci95[0] > floor.ci95[1]
