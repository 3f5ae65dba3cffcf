"""Scores of both sides, the gap between them, and the report."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml

from common.errors import InputError
from common.files import parse
from emma.captures.in_domain import IN_DOMAIN, SYNTHETIC, Side, in_domain
from emma.captures.records import CaptureScores, ConversionRecord
from emma.captures.report import model_gap, report_text, sim_to_real_report
from emma.captures.scoring import Sides, capture_record, capture_spec, score_capture
from emma.captures.settings import DEFAULT_CAPTURES, CaptureEntry, CaptureSet, Labels, load_capture_set
from emma.data.embeddings import Embeddings
from emma.data.labels import AZIMUTH, CLASS, DETAIL
from emma.data.provenance import Provenance
from emma.data.release import DataReleaseManifest, load_release_config
from emma.data.scenes import INDEX_SCHEMA
from emma.readouts import make_readout
from emma.results.records import SimToReal, TaskRecord
from emma.tasks import Split, TaskID
from workflow_support.matched import matched_set

ROOT = Path(__file__).parents[3]
PROVENANCE = Provenance(name="m", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")
CONVERSION = ConversionRecord(
    adapter="cir",
    set="uwb_los",
    task=TaskID.E_LOC_LOS,
    split="EMMA-REAL-OOD",
    scene=None,
    mapping=Labels(),
    converts={},
    cannot_give=(),
    geometry_wavelengths=None,
    files_sha256={},
    scenes=80,
    sessions=8,
    disjoint=80,
    caveats=(),
    index_hash="1" * 64,
    labels_hash="1" * 64,
    record_sha256="2" * 64,
)
GENERATOR = {"rfgen_version": "0", "rfgen_source_sha256": "0" * 64}


@pytest.fixture(scope="module")
def manifest():
    config = load_release_config(ROOT / "config/releases/tiny.yaml")
    return DataReleaseManifest(**config.model_dump(), provenance=GENERATOR, splits={})


def declared(name, **changes):
    path = ROOT / f"config/captures/{name}.yaml"
    return parse(CaptureSet, yaml.safe_load(path.read_text()) | changes, path)


def side(labels, features, name, sessions=None, groups=None):
    """Scenes with these labels, whose embeddings are the features."""
    n = len(labels)
    angle = isinstance(labels[0], float)
    known = {
        "scene_id": [f"{name}{i:05d}" for i in range(n)],
        "iq_sha256": [f"{name}-iq{i}" for i in range(n)],
        "session": sessions or [None] * n,
        "snr_db": [0.0] * n,
        "sample_rate_hz": [1.0] * n,
        "center_frequency_hz": [1.0] * n,
    }
    columns = [
        pa.array(known.get(field.name, [None if field.nullable else "x"] * n), field.type) for field in INDEX_SCHEMA
    ]
    label = AZIMUTH if angle else CLASS
    table = pa.table(columns, schema=INDEX_SCHEMA).append_column(label, pa.array(labels, label.type))
    details = [json.dumps({"group": g}) for g in groups] if groups else [None] * n
    table = table.append_column(DETAIL, pa.array(details, DETAIL.type))
    return Side(table, Embeddings(table["scene_id"], np.asarray(features, np.float32), PROVENANCE, name))


def two_class(rng, n, name, shift=0.0, **columns):
    labels = [("NLOS", "LOS")[i % 2] for i in range(n)]
    sign = np.array([1.0 if label == "LOS" else -1.0 for label in labels])
    features = np.stack([sign + shift + 0.3 * rng.standard_normal(n), rng.standard_normal(n)], axis=1)
    return side(labels, features, name, **columns)


@pytest.fixture
def sides():
    rng = np.random.default_rng(0)
    sessions = [f"s{i // 10}" for i in range(80)]
    captured = two_class(
        rng, 80, "c", 1.3, sessions=sessions, groups=["NLOS" if i % 2 == 0 else "LOS" for i in range(80)]
    )
    return two_class(rng, 200, "f"), two_class(rng, 100, "s"), captured


def scored(manifest, sides, name="uwb_los", **changes):
    one = declared(name, apart=["NLOS"], **changes)
    spec = capture_spec(manifest.spec(TaskID.E_LOC_LOS), one)
    fit, synth, captured = sides
    return score_capture(spec, one, manifest, Sides(fit, captured, synth), None, 0)


def test_both_sides_are_scored_and_their_gap_is_in_points(manifest, sides):
    record, tables = scored(manifest, sides)
    synth, captured = record.synth, record.captured
    assert synth.score > 0.98
    # The captured features lie off by 1.3: most out-of-sight scenes are taken for the other class.
    assert 0.4 < captured.score < 0.75
    assert captured.normalized == pytest.approx(2 * (captured.score - 0.5))
    assert record.gap_percentage_points == pytest.approx(100 * (synth.normalized - captured.normalized))
    assert (synth.n, synth.sessions, captured.n, captured.sessions) == (100, None, 80, 8)
    assert record.apart["NLOS"].n == 40
    assert record.apart["NLOS"].score < 0.5
    assert tables["captured"].num_rows == 80


def test_the_captured_interval_draws_sessions_whole(manifest):
    rng = np.random.default_rng(0)
    sessions = [f"s{i // 20}" for i in range(80)]
    captured = two_class(rng, 80, "c", sessions=sessions, groups=["NLOS"] * 80)
    # Within a session every scene is right or every one wrong.
    flip = np.repeat([1.0, -1.0, 1.0, -1.0], 20)[:, None]
    captured.embeddings.values[:] *= np.hstack([flip, np.ones((80, 1))]).astype(np.float32)
    parts = two_class(rng, 200, "f"), two_class(rng, 80, "s"), captured
    low, high = scored(manifest, parts)[0].captured.ci95
    assert high - low > 0.7


def test_gap_is_not_clipped_below_no_skill(manifest, sides):
    wrong = dataclasses.replace(sides[2], embeddings=sides[2].embeddings)
    wrong.embeddings.values[:, 0] = -(wrong.embeddings.values[:, 0] - 1.3)
    record, _ = scored(manifest, (*sides[:2], wrong))
    assert record.captured.normalized < -0.9
    assert record.gap_percentage_points > 150


def test_shared_samples_are_refused(manifest, sides):
    fit, synth, captured = sides
    column = captured.index.schema.get_field_index("iq_sha256")
    for other in (0, 1):
        table = (synth, captured)[other].index
        hashes = table["iq_sha256"].to_pylist()
        hashes[3] = fit.index["iq_sha256"][5].as_py()
        changed = dataclasses.replace(
            (synth, captured)[other], index=table.set_column(column, table.schema.field(column), pa.array(hashes))
        )
        parts = (fit, changed, captured) if other == 0 else (fit, synth, changed)
        with pytest.raises(InputError, match="share samples"):
            scored(manifest, parts)


def test_angles_are_scored_by_the_declared_anchors(manifest):
    rng = np.random.default_rng(1)

    def angles(n, name, **columns):
        degrees = rng.uniform(0, 360, n)
        radians = np.radians(degrees)
        return side(degrees.tolist(), np.stack([np.cos(radians), np.sin(radians)], axis=1), name, **columns)

    one = declared("wsr_aoa")
    spec = capture_spec(manifest.spec(TaskID.E_LOC_AOA), one)
    parts = angles(200, "f"), angles(50, "s"), angles(40, "c", sessions=["a", "b"] * 20)
    fit, synth, captured = parts
    record, _ = score_capture(spec, one, manifest, Sides(fit, captured, synth), None, 0)
    assert record.captured.score < 1.0
    assert record.captured.normalized == pytest.approx(1 - record.captured.score / 90)
    assert record.captured.balanced_accuracy is None


def test_accuracy_has_the_balanced_one_beside_it(manifest):
    rng = np.random.default_rng(2)

    def keyed(n, name, share, **columns):
        labels = ["OOK" if i < share * n else "2FSK" for i in range(n)]
        return side(labels, rng.standard_normal((n, 2)), name, **columns)

    one = declared("rtl433_amc")
    spec = capture_spec(manifest.spec(TaskID.E_ID_AMC), one)
    assert spec.classes == ("OOK", "2FSK")
    assert spec.anchors.minimum == 0.5
    parts = keyed(400, "f", 0.9), keyed(50, "s", 0.5), keyed(100, "c", 0.8, sessions=["a"] * 50 + ["b"] * 50)
    fit, synth, captured = parts
    record, _ = score_capture(spec, one, manifest, Sides(fit, captured, synth), None, 0)
    # A head that always says the first class is right four times in five, and no better than chance.
    assert record.captured.score == pytest.approx(0.8)
    assert record.captured.balanced_accuracy == pytest.approx(0.5)


def result(gap, undefined=None):
    return CaptureScores(gap_percentage_points=gap, undefined_reason=undefined)


def test_the_matched_gap_is_the_mean_over_tasks_of_means_over_sets(manifest):
    names = ("wsr_aoa", "wsr_los", "uwb_los", "mixed_drone")
    sets = {name: (declared(name), {}) for name in names}
    found = {"wsr_aoa": result(10.0), "wsr_los": result(40.0), "uwb_los": result(20.0), "mixed_drone": result(500.0)}
    gap = model_gap(manifest, "real", sets, found)
    assert gap.matched.gap_percentage_points == pytest.approx((10 + 30) / 2)
    assert gap.matched.over == ("E-LOC-AOA", "E-LOC-LOS")
    # None of these is in the release's own format, but for a demonstration.
    assert gap.gap_percentage_points is None
    assert gap.over == ()
    assert "demonstration" in gap.tasks[TaskID.E_ID_DRONE].undefined
    assert "in the release's format" in gap.tasks[TaskID.E_LOC_LOS].undefined
    matched = {task: block.matched for task, block in gap.tasks.items()}
    assert matched[TaskID.E_LOC_LOS].over == ("wsr_los", "uwb_los")
    assert "same devices" in gap.tasks[TaskID.E_ID_FP].undefined
    assert "no real set" in matched[TaskID.E_ID_AMC].undefined
    part = model_gap(manifest, "real", sets, {"wsr_aoa": result(None, "16 antennas"), "uwb_los": result(20.0)})
    assert part.matched.gap_percentage_points == 20.0
    assert part.tasks[TaskID.E_LOC_AOA].matched.undefined == "16 antennas"
    none = model_gap(manifest, "real", sets, {})
    assert none.matched.gap_percentage_points is None
    assert none.matched.undefined == "no scored task has both sides"


def test_the_gap_is_over_the_scored_tasks_alone(manifest):
    """E-ID-AMC is outside the OOD average: its own gap is shown, and enters no mean."""
    names = ("surrogate_aoa", "surrogate_los", "surrogate_amc")
    sets = {name: (declared(name), {}) for name in names}
    found = {"surrogate_aoa": result(2.0), "surrogate_los": result(6.0), "surrogate_amc": result(90.0)}
    gap = model_gap(manifest, "surrogate", sets, found)
    assert gap.gap_percentage_points == pytest.approx(4.0)
    assert gap.over == ("E-LOC-AOA", "E-LOC-LOS")
    assert gap.tasks[TaskID.E_ID_AMC].gap_percentage_points == 90.0
    assert gap.matched.gap_percentage_points is None


def test_surrogates_never_enter_a_real_gap(manifest):
    sets = {name: (declared(name), {}) for name in ("uwb_los", "surrogate_los", "surrogate_aoa")}
    found = {"uwb_los": result(20.0), "surrogate_los": result(0.0), "surrogate_aoa": result(0.0)}
    gap = model_gap(manifest, "real", sets, found)
    assert gap.matched.gap_percentage_points == 20.0
    assert gap.gap_percentage_points is None
    assert gap.tasks[TaskID.E_LOC_AOA].gap_percentage_points is None


def board_of(scores):
    """A model's record of E-LOC-LOS with these scores by held-out value."""
    met = {"met_in_pretraining": False}
    values = {
        value: {"score": score, "n": 50, "ci95": None, "undefined_reason": None, "in_distribution": None} | met
        for value, score in scores.items()
    }
    facts = {"metric": "BalancedAccuracy", "unit": "fraction", "direction": "higher", "undefined": None}
    facts |= {"score": float(np.mean(list(scores.values()))), "standard_error": 0.0, "protocol": "p", "axis": "a"}
    facts |= {"normalized": None, "clipped": None, "in_ood_avg": True, "secondary_metrics": {}, "secondary": {}}
    return TaskRecord(**facts, values=values)


def test_the_gap_of_the_release_s_format_is_between_the_same_folds_readouts(manifest, sides):
    """The board's score, less the mean of its folds' readouts on the captured scenes; not one that met them all."""
    fit, _, captured = sides
    one, spec = declared("surrogate_los"), manifest.spec(TaskID.E_LOC_LOS)
    target, features = np.array([0.0, 1.0] * 100), fit.embeddings.values
    right = make_readout(spec).fit(features, target)
    wrong = make_readout(spec).fit(features, 1.0 - target)
    board = board_of({"E_URBAN": 0.9, "E_RURAL": 0.8})
    gaps = {}
    for name, readouts in (
        ("right", {"E_URBAN": right, "E_RURAL": right}),
        ("wrong", {"E_URBAN": wrong, "E_RURAL": wrong}),
        ("half", {"E_URBAN": right, "E_RURAL": wrong}),
    ):
        record, tables = score_capture(spec, one, manifest, Sides(fit, captured, None, readouts), board, 0)
        assert {"captured-E_URBAN", "captured-E_RURAL", IN_DOMAIN, SYNTHETIC} == set(tables) == set(record.hashes)
        assert record.synth.score == pytest.approx(0.85)
        assert (record.synth.n, record.synth.ci95, record.captured.n) == (100, None, 80)
        gaps[name] = record
    both, neither, half = (gaps[name].captured for name in ("right", "wrong", "half"))
    assert neither.score < 0.5 < both.score
    assert half.score == pytest.approx((both.score + neither.score) / 2)
    assert half.ci95[0] < half.score < half.ci95[1]
    # What one readout gains on a session the opposite one loses there: their mean hardly varies.
    assert np.ptp(half.ci95) < 0.5 * np.ptp(both.ci95)
    scale = spec.anchors
    span = scale.maximum - scale.minimum
    assert gaps["right"].gap_percentage_points == pytest.approx(100 * (0.85 - both.score) / span)
    assert gaps["half"].gap_percentage_points == pytest.approx(100 * (0.85 - half.score) / span)


def test_the_reference_tells_a_shift_from_a_hard_set(manifest):
    """Fit on captured scenes of other sessions, and on as many synthetic ones, scored on the same scenes."""
    rng = np.random.default_rng(3)
    sessions = [f"s{i // 10}" for i in range(100)]
    fit, synth = two_class(rng, 400, "f"), two_class(rng, 100, "s")
    shifted = two_class(rng, 100, "c", 1.3, sessions=sessions, groups=["NLOS"] * 100)
    noise = two_class(rng, 100, "d", sessions=sessions, groups=["NLOS"] * 100)
    noise.embeddings.values[:] = rng.standard_normal((100, 2))
    shift, hard = (scored(manifest, (fit, synth, side))[0] for side in (shifted, noise))
    assert shift.in_domain.captured.score > 0.97
    assert shift.in_domain.synthetic.score < 0.75
    for reference in (hard.in_domain.captured, hard.in_domain.synthetic):
        assert abs(reference.score - 0.5) < 0.2
    assert shift.in_domain.captured.sessions == 10


def test_no_session_is_on_both_sides_of_the_reference(manifest, monkeypatch):
    """A session's own offset would be learned; and both readouts see as many scenes."""
    rng = np.random.default_rng(4)
    captured = two_class(rng, 60, "c", sessions=[f"s{i // 6}" for i in range(60)], groups=["NLOS"] * 60)
    seen = []

    class Spy:
        def fit(self, features, target, groups):
            seen.append((len(features), set(groups)))
            return self

        def scores(self, features, given=None):
            seen[-1] += (len(features),)
            return np.zeros((len(features), 1))

    monkeypatch.setattr("emma.captures.in_domain.make_readout", lambda _: Spy())
    spec = capture_spec(manifest.spec(TaskID.E_LOC_LOS), declared("uwb_los"))
    tables = in_domain(spec, "uwb_los", two_class(rng, 200, "f").lined(spec), captured.lined(spec), 0)
    assert {table.num_rows for table in tables.values()} == {60}
    assert len(seen) == 10
    for own, other in zip(seen[::2], seen[1::2], strict=True):
        assert own[0] == other[0] == 48
        assert len(own[1]) == 8
        assert own[2] == other[2] == 12


@pytest.mark.parametrize(
    ("sessions", "labels", "reason"),
    [
        (["a"] * 20, None, "one session alone"),
        (["a"] * 10 + ["b"] * 10, ["LOS"] * 10 + ["NLOS"] * 10, "is in too few sessions"),
    ],
)
def test_a_reference_without_sessions_is_undefined(manifest, sessions, labels, reason):
    rng = np.random.default_rng(5)
    captured = two_class(rng, 20, "c", sessions=sessions, groups=["NLOS"] * 20)
    if labels:
        column = captured.index.schema.get_field_index("class")
        index = captured.index.set_column(column, CLASS, pa.array(labels, CLASS.type))
        captured = dataclasses.replace(captured, index=index)
    record, tables = scored(manifest, (two_class(rng, 80, "f"), two_class(rng, 40, "s"), captured))
    assert IN_DOMAIN not in tables
    assert reason in record.in_domain.undefined_reason
    assert record.gap_percentage_points is not None


@pytest.fixture
def report(manifest, sides):
    one = declared("uwb_los", apart=["NLOS"])
    scores, _ = scored(manifest, sides)

    def build(**changes):
        record = capture_record("m", one, CONVERSION, manifest, Split.DEV, 0, scores, PROVENANCE)
        record = record.model_copy(update=changes)
        return sim_to_real_report(
            manifest, {"uwb_los": (one, CONVERSION)}, [record], {"m": {TaskID.E_LOC_LOS: 0.7}}, Split.DEV, 0
        )

    return build


def test_one_real_set_makes_a_report_real_and_surrogates_alone_say_so(manifest, sides):
    sets = {name: (declared(name), CONVERSION) for name in ("surrogate_los", "uwb_los")}
    both = sim_to_real_report(manifest, sets, [], {"m": {}}, Split.DEV, 0)
    assert both.kind == "real"
    alone = sim_to_real_report(manifest, {"surrogate_los": sets["surrogate_los"]}, [], {"m": {}}, Split.DEV, 0)
    assert alone.kind == "surrogate"
    assert "no real captures are configured" in report_text(alone)
    assert "(surrogate captures)" in report_text(alone)
    assert "no real captures" not in report_text(both)


def test_report_names_licence_caveats_and_the_release_s_own_score(report):
    found = report()
    assert found.kind == "real"
    gaps = found.models["m"]
    assert gaps.sets["uwb_los"].release_score == 0.7
    assert gaps.block == SimToReal(**{key: getattr(gaps, key) for key in SimToReal.model_fields})
    assert type(gaps.block) is SimToReal
    text = report_text(found)
    assert "CC-BY-4.0" in text
    assert all(caveat in text for caveat in found.sets["uwb_los"].caveats)
    assert "E-ID-FP: no public set" in text
    assert "Surrogate" not in text


@pytest.mark.parametrize(
    ("key", "value"),
    [("data_release_hash", "0"), ("seed", 1), ("eval_split", "holdout"), ("record_sha256", "s")],
)
def test_records_of_mixed_provenance_are_refused(report, key, value):
    with pytest.raises(InputError, match=key):
        report(**{key: value})


def test_a_set_of_one_class_says_why_it_has_no_gap(manifest, sides):
    """A set in sight alone has no balanced accuracy: the reason stands where the number would, never None."""
    fit, synth, captured = sides
    column = captured.index.schema.get_field_index("class")
    seen = captured.index.set_column(column, CLASS, pa.array(["LOS"] * 80, CLASS.type))
    one = declared("uwb_los", apart=[])
    spec = capture_spec(manifest.spec(TaskID.E_LOC_LOS), one)
    scores, _ = score_capture(
        spec, one, manifest, Sides(fit, dataclasses.replace(captured, index=seen), synth), None, 0
    )
    assert scores.gap_percentage_points is None
    assert "NLOS" in scores.undefined_reason or "class" in scores.undefined_reason
    record = capture_record("m", one, CONVERSION, manifest, Split.DEV, 0, scores, PROVENANCE)
    report = sim_to_real_report(manifest, {"uwb_los": (one, CONVERSION)}, [record], {"m": {}}, Split.DEV, 0)
    text = report_text(report)
    assert scores.undefined_reason in text
    assert "None" not in text


def test_what_the_conversion_found_stands_with_the_caveats(manifest):
    conversion = CONVERSION.model_copy(update={"caveats": ("Carriers are unknown.",)})
    report = sim_to_real_report(manifest, {"uwb_los": (declared("uwb_los"), conversion)}, [], {"m": {}}, Split.DEV, 0)
    assert "Carriers are unknown." in report.sets["uwb_los"].caveats
    assert "- Carriers are unknown." in report_text(report)


def test_the_documents_examples_are_complete():
    """Whoever copies them has a set: the declaration, its matched synthetic set, and the entry."""
    text = (ROOT / "docs/captures.md").read_text()
    blocks = dict.fromkeys(("yaml", "json", "csv"), ())
    for kind, body in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL):
        blocks[kind] = (*blocks[kind], body)
    *declarations, entries = (yaml.safe_load(body) for body in blocks["yaml"])
    one, keyed = (parse(CaptureSet, content, "docs/captures.md") for content in declarations)
    assert matched_set(one, "docs/captures.md").kind == "array"
    assert matched_set(keyed, "docs/captures.md").kind == "keyed"
    (entry,) = entries["real_captures"]
    assert CaptureEntry.model_validate(entry).name == one.name
    assert json.loads(blocks["json"][0])["global"]["core:num_channels"] == one.scene.array.elements
    assert blocks["csv"][0].splitlines()[0].split(",")[:3] == ["path", "label", "session"]


def test_default_sets_are_surrogates_and_say_so():
    for entry in DEFAULT_CAPTURES:
        one = load_capture_set(ROOT, entry)
        assert one.kind == "surrogate"
        assert any("surrogate" in caveat.lower() for caveat in one.caveats)


def test_listed_public_sets_are_declared(tmp_path):
    listed = yaml.safe_load((ROOT / "config/real_captures.yaml").read_text())["real_captures"]
    for content in listed:
        entry = CaptureEntry.model_validate(content | {"path": str(tmp_path)})
        one = load_capture_set(ROOT, entry)
        assert one.kind == "real"
        if one.anchors is not None and one.classes:
            right = 3 if one.task is TaskID.E_CH_BEAM else 1  # the three best beams count
            assert one.anchors.minimum == pytest.approx(right / len(one.classes))


@pytest.mark.parametrize(("name", "classes"), [("uwb_los", {}), ("wsr_aoa", {"a": "LOS"})])
def test_a_mapping_of_classes_goes_with_declared_classes(tmp_path, name, classes):
    listed = yaml.safe_load((ROOT / "config/real_captures.yaml").read_text())["real_captures"]
    content = next(entry for entry in listed if entry["name"] == name)
    entry = CaptureEntry.model_validate(content | {"path": str(tmp_path), "mapping": {"classes": classes}})
    with pytest.raises(InputError, match=f"real_captures.{name}: mapping.classes: expected where"):
        load_capture_set(ROOT, entry)
