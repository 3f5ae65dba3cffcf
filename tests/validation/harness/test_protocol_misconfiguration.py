"""Every task is scored on the axis of the task reference, and a run under another one is refused."""

import pytest

from common.errors import InputError
from common.files import parse
from emma import (
    LeaveOneBandOut,
    LeaveOneEnvironmentOut,
    LeaveOneReceiverOut,
    LeaveOneSNRRegimeOut,
    LeaveOneUnitOut,
    LeaveOneWaveformOut,
    OODAxis,
    ProtocolRunner,
    TaskID,
)
from emma.data.protocols import board_protocols, primary_protocol, task_protocols
from emma.data.release import ReleaseConfig, load_release_config

#: The task reference: axis, protocol, and whether the score enters the OOD average.
REFERENCE = {
    TaskID.E_LOC_AOA: (OODAxis.ENVIRONMENT, LeaveOneEnvironmentOut, True),
    TaskID.E_LOC_LOS: (OODAxis.ENVIRONMENT, LeaveOneEnvironmentOut, True),
    TaskID.E_ID_DRONE: (OODAxis.ENVIRONMENT, LeaveOneEnvironmentOut, True),
    TaskID.E_ID_FP: (OODAxis.DEVICE, LeaveOneUnitOut, True),
    TaskID.E_ID_AMC: (OODAxis.SNR_REGIME, LeaveOneSNRRegimeOut, False),
    TaskID.E_SC_SENSE: (OODAxis.RECEIVER, LeaveOneReceiverOut, False),
    TaskID.E_SC_ANOM: (OODAxis.WAVEFORM, LeaveOneWaveformOut, False),
    TaskID.E_SC_SEP: (OODAxis.WAVEFORM, LeaveOneWaveformOut, False),
    TaskID.E_CH_BEAM: (OODAxis.ENVIRONMENT, LeaveOneEnvironmentOut, False),
    TaskID.E_CH_CSI: (OODAxis.ENVIRONMENT, LeaveOneEnvironmentOut, False),
    TaskID.E_S2T_CAP: (OODAxis.SNR_REGIME, LeaveOneSNRRegimeOut, False),
    TaskID.E_S2T_QA: (OODAxis.SNR_REGIME, LeaveOneSNRRegimeOut, False),
}
#: The other axes that a board shows, and whether they are layered on the first.
SECONDARY = {
    TaskID.E_LOC_LOS: [(OODAxis.FREQUENCY_BAND, True)],
    TaskID.E_ID_DRONE: [(OODAxis.WAVEFORM, False)],
    TaskID.E_SC_SENSE: [(OODAxis.WAVEFORM, False)],
    TaskID.E_CH_CSI: [(OODAxis.FREQUENCY_BAND, False)],
    TaskID.E_SC_ANOM: [(OODAxis.RECEIVER, False)],
}
PRIMARY = (
    LeaveOneEnvironmentOut,
    LeaveOneUnitOut,
    LeaveOneSNRRegimeOut,
    LeaveOneReceiverOut,
    LeaveOneWaveformOut,
)


@pytest.fixture(scope="module", name="configs")
def _configs(releases) -> dict[str, ReleaseConfig]:
    return {path.stem: load_release_config(path) for path in releases}


def test_every_release_follows_the_task_reference(configs) -> None:
    assert set(configs) >= {"tiny", "v0.1", "v1.0"}
    for name, config in configs.items():
        for task, spec in config.tasks.items():
            axis, protocol, scored = REFERENCE[task]
            runner = primary_protocol(spec)
            assert (spec.ood_axis, type(runner), spec.in_ood_avg) == (axis, protocol, scored), (name, task)
            assert runner.axis is spec.ood_axis
            assert runner.eval_values() == list(spec.held_out)
            first = next(iter(board_protocols(spec).values()))
            assert type(first) is protocol
        axes = {task: [(each.ood_axis, each.layered) for each in spec.secondary] for task, spec in config.tasks.items()}
        for task, each in axes.items():
            assert each == SECONDARY.get(task, []), (name, task)


@pytest.mark.parametrize("task", TaskID)
@pytest.mark.parametrize("kind", PRIMARY)
def test_a_task_under_another_axis_is_refused(small, task: TaskID, kind) -> None:
    spec = small.manifest.spec(task)
    if REFERENCE[task][1] is kind:
        assert kind(spec).axis is spec.ood_axis
        return
    if (kind.axis, False) in SECONDARY.get(task, []):
        assert kind(spec).axis is not spec.ood_axis
        return
    with pytest.raises(InputError, match=f"pinned to {spec.ood_axis.value}.*, expected {kind.axis.value}"):
        kind(spec)


@pytest.mark.parametrize("task", [task for task in TaskID if task not in {TaskID.E_LOC_LOS, TaskID.E_CH_CSI}])
def test_the_band_is_held_out_where_the_task_says_so(small, task: TaskID) -> None:
    with pytest.raises(InputError, match=r"leave-one-band-out: ood_axis: .*, expected frequency_band"):
        LeaveOneBandOut(small.manifest.spec(task))


def test_a_runner_with_another_tasks_protocol_is_refused(small) -> None:
    """E-ID-DRONE fit by the protocol of E-LOC-LOS: the axis is the same, classes and capacity are not."""
    spec, other = small.manifest.spec("E-ID-DRONE"), small.manifest.spec("E-LOC-AOA")
    twin = spec.model_copy(update={"readout": spec.readout.model_copy(update={"regularisation": (1.0,)})})
    for foreign in (other, twin):
        with pytest.raises(InputError, match="another TaskSpec than the release's E-ID-DRONE"):
            ProtocolRunner(small.manifest, "E-ID-DRONE", primary_protocol(foreign), 0)


@pytest.mark.parametrize("axis", ["environment", "snr_regime", "frequency_band"])
def test_devices_scored_under_another_axis_are_no_release(small_release, axis: str) -> None:
    data = small_release()
    data["tasks"]["E-ID-FP"]["ood_axis"] = axis
    with pytest.raises(InputError, match=r"E-ID-FP.*ood_axis is device"):
        parse(ReleaseConfig, data, "small.yaml")


@pytest.mark.parametrize(("task", "axis"), [("E-LOC-AOA", "device"), ("E-ID-DRONE", "snr_regime")])
def test_scenes_without_the_held_out_values_are_not_frozen(small, small_release, task: str, axis: str) -> None:
    """A task wired to an axis whose values its scenes do not have stops at the freeze."""
    from emma import Split
    from emma.data.freezing import freeze

    data = small_release()
    data["tasks"][task]["ood_axis"] = axis
    data["tasks"] = {task: data["tasks"][task]}
    data["stress_regimes"] = {}
    config = ReleaseConfig.model_validate(data)
    folder = small.results / "scenes" / task
    paths = {TaskID(task): {s: folder / f"{s.value}.index.parquet" for s in (Split.TRAIN, Split.DEV)}}
    with pytest.raises(InputError, match=f"{axis}: no scene of E_"):
        freeze(config, paths, "0", "0")


def test_stress_is_named_as_such_and_never_on_the_board(small) -> None:
    for task, spec in small.manifest.tasks.items():
        every = task_protocols(spec, small.manifest.stress_regimes.get(task, ()))
        extra = set(every) - set(board_protocols(spec))
        stress = {"leave-one-snr-regime-out", "in-distribution-leave-one-snr-regime-out"}
        assert extra == (stress if task in small.manifest.stress_regimes else set())
