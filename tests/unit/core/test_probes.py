"""Probes on embeddings whose scores are known, and the report that ranks them."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from common.errors import InputError
from common.files import write_json
from emma.evaluation.probes import DRAWS, SIZES, ModelProbes, Neighbours, TaskFolds, probe_task
from emma.results.probes import probes_report, ranks_by_probe, scores_of
from emma.tasks import TaskSpec
from emma.tasks.targets import TARGETS

HASH = "0" * 64


def spec(kind: str = "binary", **changed: object) -> TaskSpec:
    angle = kind == "angle"
    regularisation = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    given = {
        "target": kind,
        "classes": () if angle else ("a", "b"),
        "readout": {
            "kind": "ridge" if angle else "logistic",
            "regularisation": regularisation,
            "max_parameters": 5000,
        },
        "metric": "MeanAngularError" if angle else "BalancedAccuracy",
        "unit": "1",
        "ood_axis": "environment",
        "held_out": ["E_A", "E_B"],
        "in_ood_avg": True,
        "anchors": {"minimum": 0.0, "maximum": 90.0} if angle else {"minimum": 0.5, "maximum": 1.0},
    }
    return TaskSpec.model_validate(given | changed)


def index(n: int, seed: int, labels: dict[str, list]) -> pa.Table:
    names = [f"{seed:02d}{number:05d}" for number in np.random.default_rng(seed).permutation(n)]
    columns = {"scene_id": names, "link_id": names, "split": ["DEV"] * n, "environment": ["E_A", "E_B"] * (n // 2)}
    return pa.table(columns | labels)


def two_classes(n: int, share: float = 0.5) -> tuple[TaskFolds, np.ndarray, np.ndarray]:
    """Folds, and the classes of both sides in the folds' order; ``share`` of the scenes are of class b."""
    sides = []
    for seed in (1, 2):
        number = np.arange(n) // 2
        labels = np.where(number < share * n / 2, "b", "a").tolist()
        sides.append(index(n, seed, {"class": labels, "session": [None] * n}))
    folds = TaskFolds(spec(), *sides)
    return folds, *folds.targets


def test_neighbours_vote_by_cosine() -> None:
    """Three directions; scale and offset of a feature tell nothing, and the nearer class wins."""
    rng = np.random.default_rng(0)
    target = np.repeat([0.0, 1.0], 60)
    features = np.stack([np.where(target == 1, 1.0, -1.0), np.zeros(120)], 1) + 0.1 * rng.standard_normal((120, 2))
    head = Neighbours(TARGETS["binary"](("a", "b"))).fit(features * [1e3, 1e-3] + [5e3, 1.0], target)
    scores = head.scores(np.array([[1.0, 0.0], [-1.0, 0.0]]) * [1e3, 1e-3] + [5e3, 1.0])
    np.testing.assert_allclose(scores, [[0.5], [-0.5]])


def test_neighbours_of_rare_classes_count_more_where_the_readout_balances() -> None:
    target = np.array([0.0] * 90 + [1.0] * 10)
    features = np.ones((100, 1))
    features[::2] = -1.0
    kind = TARGETS["binary"](("a", "b"))
    even = Neighbours(kind, balanced=True, count=100).fit(features, target).scores(np.array([[1.0]]))
    plain = Neighbours(kind, count=100).fit(features, target).scores(np.array([[1.0]]))
    np.testing.assert_allclose((even[0, 0], plain[0, 0]), (0.0, -0.4), atol=1e-12)


def test_neighbours_of_angles_go_round() -> None:
    """The mean of 350 and 10 degrees is 0, not 180."""
    head = Neighbours(TARGETS["angle"](), count=2)
    features = np.array([[1.0, 0.02], [1.0, -0.02], [-1.0, 0.9], [-1.0, -0.9]])
    scores = head.fit(features, np.array([350.0, 10.0, 170.0, 200.0])).scores(np.array([[1.0, 0.0]]))
    assert min(scores[0, 0], 360 - scores[0, 0]) < 1e-9


def test_neighbours_of_one_class_are_far_or_near() -> None:
    """One less the mean cosine: 0 among its like, 2 on the other side; without features all alike."""
    fit = np.array([[1.0, 0.01], [1.0, -0.01], [-1.0, 0.01], [-1.0, -0.01], [0.0, 1.0], [0.0, -1.0]])
    head = Neighbours(TARGETS["anomaly"](("a", "b")), count=2).fit(fit, np.zeros(6))
    scale = 1 / fit.std(axis=0)
    found = head.scores(np.array([[2.0, 0.0], [1.0, 1.0]]) / scale)
    assert found.shape == (2, 1)
    assert found[0, 0] < 1e-3 < 0.1 < found[1, 0]
    alike = Neighbours(TARGETS["anomaly"](("a", "b"))).fit(np.zeros((6, 0)), np.zeros(6)).scores(np.zeros((3, 0)))
    np.testing.assert_array_equal(alike, np.ones((3, 1)))


def anomalies(shown: int = 0) -> tuple[TaskFolds, np.ndarray, np.ndarray]:
    """Folds whose fit scenes are of class a but for some that are ``shown``; every fifth scored scene is of class b."""
    number = np.arange(400) // 2
    classes = [np.where(number < shown, "b", "a"), np.where(number % 5 == 0, "b", "a")]
    sides = [index(400, seed, {"class": of.tolist(), "session": [None] * 400}) for seed, of in enumerate(classes, 1)]
    head = {"kind": "mahalanobis", "components": 8, "regularisation": [], "max_parameters": 5000}
    folds = TaskFolds(spec("anomaly", readout=head, metric="AUROC"), *sides)
    return folds, *folds.targets


def test_probes_of_one_class() -> None:
    """No strength to choose; every probe is fit on normal scenes alone and finds what lies elsewhere."""
    folds, fit, scored = anomalies()
    rng = np.random.default_rng(0)
    # Normal scenes lie on either side along one axis, anomalies along another.
    sides = ((t[:, None] * [0, 12.0], rng.choice([-9.0, 9.0], (len(t), 1)) * (t[:, None] == 0)) for t in (fit, scored))
    embedded = tuple(np.hstack([along, other]) + rng.standard_normal((len(along), 3)) for along, other in sides)
    made = probe_task(folds, embedded, 0)
    assert made.strengths == ()
    assert made.pinned.score == 1.0
    assert made.neighbours.score > 0.95
    by_size = {draws.scenes: draws for draws in made.label_efficiency}
    assert by_size[50].mean > 0.99 and by_size[150].undefined is None
    assert by_size[500].undefined == "E_A: 200 fit scenes, expected at least 500"
    nothing = probe_task(folds, tuple(np.zeros((len(t), 0)) for t in (fit, scored)), 0)
    assert nothing.pinned.score == nothing.neighbours.score == 0.5


def test_probes_refuse_a_fit_that_shows_an_anomaly() -> None:
    folds, fit, scored = anomalies(shown=3)
    made = probe_task(folds, (fit[:, None], scored[:, None]), 0)
    assert made.pinned.score is None
    assert made.pinned.undefined == "E_A: readout: 3 fit scenes of class b, expected none"


def test_neighbours_in_a_gallery() -> None:
    """Enrolled captures take the place of the fit scenes; a unit's score is its votes, each by its cosine."""
    kind = TARGETS["enrolled_class"](("u", "v", "w"))
    rng = np.random.default_rng(0)
    head = Neighbours(kind, count=4).fit(rng.standard_normal((30, 3)), np.zeros(30))
    gallery = np.repeat(np.eye(3), 4, axis=0) * 5
    labels = np.repeat([0.0, 1.0, 2.0], 4)
    head.enrol(np.concatenate([gallery, gallery[::-1]]), np.concatenate([labels, labels]), np.repeat([0, 1], 12))
    first, second = head.turn_scores(np.eye(3)[[2, 0]] * 5)
    assert first.argmax(axis=1).tolist() == [2, 0]
    assert second.argmax(axis=1).tolist() == [0, 2]
    np.testing.assert_allclose(first.sum(axis=1), 1.0)


def test_units_are_queried_on_other_sessions_than_they_enrol() -> None:
    """Embeddings that name the session and not the unit: a unit is never found; those that name the unit find it."""
    units, rng = tuple("stuvwx"), np.random.default_rng(0)
    device = list(np.repeat(units, 16))
    session = [f"{unit}-S{number}" for unit in units for number in np.repeat(np.arange(4), 4)]
    sides = [index(96, seed, {"class": device, "device": device, "session": session}) for seed in (1, 2)]
    codes = rng.standard_normal((24, 12))
    head = {"kind": "discriminant", "regularisation": [0.1, 0.5], "max_parameters": 5000}
    changed = {"classes": units, "readout": head, "metric": "Top1Accuracy", "ood_axis": "device", "held_out": units}
    folds = TaskFolds(spec("enrolled_class", **changed), *sides)
    noise = [0.01 * rng.standard_normal((96, 12)) for _ in range(2)]
    names = [np.array(side["session"].to_pylist()) for side in (folds.train, folds.evaluation)]
    by_unit = tuple(codes[t.astype(int)] + n for t, n in zip(folds.targets, noise, strict=True))
    by_session = tuple(codes[np.unique(s, return_inverse=True)[1]] + n for s, n in zip(names, noise, strict=True))
    for make in (folds.readout, folds.neighbours):
        assert folds.score(by_unit, make).score == 1.0
        assert folds.score(by_session, make).score < 0.5


def test_folds_are_fit_on_the_other_value_and_scored_on_their_own() -> None:
    """A feature that is right in one environment alone: fit there and scored elsewhere it tells nothing."""
    folds, fit, scored = two_classes(400)
    train = np.array(folds.train["environment"].to_pylist())
    held = np.array(folds.evaluation["environment"].to_pylist())
    good = tuple(t[:, None] + 0.0 for t in (fit, scored))
    assert folds.score(good, folds.readout).score == 1.0
    only = fit[:, None] * (train == "E_A")[:, None], scored[:, None] * (held == "E_A")[:, None]
    assert folds.score(only, folds.readout).values == {"E_A": 0.5, "E_B": 0.5}
    assert [len(fold.fit) for fold in folds.folds] == [200, 200]
    assert all((train[fold.fit] != fold.value).all() for fold in folds.folds)
    assert all((held[fold.scored] == fold.value).all() for fold in folds.folds)


@pytest.mark.parametrize("size", [50, 150, 7])
def test_draws_keep_the_share_of_classes(size: int) -> None:
    folds, fit, _ = two_classes(400, share=0.2)
    fold = folds.folds[0]
    drawn = folds.drawn(fold, size, 0, 0)
    assert len(drawn) == len(set(drawn)) == size
    assert set(drawn) <= set(fold.fit)
    assert abs((fit[drawn] == 1).sum() - 0.2 * size) <= 1
    assert (folds.drawn(fold, size, 0, 0) == drawn).all()
    assert any((folds.drawn(fold, size, *other) != drawn).any() for other in ((0, 1), (1, 0)))


def test_a_rare_class_is_drawn_at_least_once_and_no_scene_twice() -> None:
    folds, fit, _ = two_classes(400, share=0.01)
    for draw in range(DRAWS):
        drawn = folds.drawn(folds.folds[1], 50, 0, draw)
        assert len(drawn) == 50
        assert (fit[drawn] == 1).sum() == 1


def test_more_scenes_than_there_are_leave_a_reason() -> None:
    folds, fit, scored = two_classes(200)
    made = probe_task(folds, (fit[:, None], scored[:, None]), 0)
    by_size = {draws.scenes: draws for draws in made.label_efficiency}
    assert list(by_size) == [*SIZES, None]
    assert by_size[50].mean == by_size[None].mean == made.pinned.score == 1.0
    assert by_size[50].deviation == 0.0
    assert by_size[500].mean is None
    assert by_size[500].undefined == "E_A: 100 fit scenes, expected at least 500"
    assert len(by_size[50].scores) == DRAWS


def test_each_value_of_the_grid_is_fit_as_it_is() -> None:
    """Noise columns: a weak penalty is hurt by them; the pinned head is near the best of the grid."""
    rng = np.random.default_rng(0)
    folds, fit, scored = two_classes(400)
    embedded = tuple(
        np.hstack([t[:, None] + 0.8 * rng.standard_normal((len(t), 1)), rng.standard_normal((len(t), 150))])
        for t in (fit, scored)
    )
    made = probe_task(folds, embedded, 0)
    by_value = {each.regularisation: each.probed.score for each in made.strengths}
    assert list(by_value) == list(folds.spec.readout.regularisation)
    assert len(set(by_value.values())) > 2
    assert max(by_value.values()) > by_value[1e-5]
    assert made.pinned.score >= max(by_value.values()) - 0.05
    again = probe_task(folds, embedded, 0)
    assert again == made


def test_a_width_of_zero_is_the_floor() -> None:
    folds, fit, scored = two_classes(200)
    made = probe_task(folds, (np.zeros((len(fit), 0)), np.zeros((len(scored), 0))), 0)
    assert made.pinned.score == made.neighbours.score == 0.5


def record(name: str, score: float, kind: str = "backbone") -> ModelProbes:
    folds, fit, scored = two_classes(200)
    task = probe_task(folds, (fit[:, None], scored[:, None]), 0)
    changed = task.model_copy(update={"neighbours": task.neighbours.model_copy(update={"score": score})})
    provenance = {"name": name, "config_sha256": HASH, "weights_sha256": None, "pretraining": {}}
    return ModelProbes.model_validate(
        {
            "model": name,
            "kind": kind,
            "release": "tiny",
            "data_release_hash": HASH,
            "eval_split": "dev",
            "seed": 0,
            "model_provenance": provenance,
            "tasks": {"E-LOC-LOS": changed.model_dump()},
        }
    )


def test_ranks_under_each_probe(tmp_path) -> None:
    manifest = SimpleNamespace(tasks={"E-LOC-LOS": spec()}, data_release_hash=HASH, release="tiny", caveats=())
    models = {"one": record("one", 0.7), "two": record("two", 0.9), "oracle": record("oracle", 1.0, "oracle")}
    ranks = ranks_by_probe(manifest, models)
    assert ranks["pinned"]["E-LOC-LOS"] == {"one": 1, "two": 1}
    assert ranks["neighbours"]["E-LOC-LOS"] == ranks["neighbours"]["average"] == {"one": 2, "two": 1}
    assert set(ranks) == set(scores_of(models["one"].tasks["E-LOC-LOS"])) - {"scenes 150", "scenes 500"}
    outside = SimpleNamespace(tasks={"E-LOC-LOS": spec().model_copy(update={"in_ood_avg": False})})
    assert set(ranks_by_probe(outside, models)["pinned"]) == {"E-LOC-LOS"}
    paths = []
    for name, made in models.items():
        paths.append(tmp_path / f"{name}.json")
        write_json(paths[-1], made.model_dump(mode="json"))
    report = probes_report(manifest, paths)
    assert report.ranks == ranks
    with pytest.raises(InputError, match="one is given twice"):
        probes_report(manifest, [paths[0], paths[0]])
    manifest.data_release_hash = "1" * 64
    with pytest.raises(InputError, match="data_release_hash: expected 1"):
        probes_report(manifest, paths)


def test_the_figure_has_a_line_for_every_model(tmp_path) -> None:
    from emma.report.probes import curves

    manifest = SimpleNamespace(tasks={"E-LOC-LOS": spec()}, data_release_hash=HASH, release="tiny", caveats=())
    path = tmp_path / "one.json"
    write_json(path, record("one", 0.7).model_dump(mode="json"))
    drawn = curves(probes_report(manifest, [path]))
    text = str(drawn)
    assert "'model': 'one'" in text
    assert "fit scenes" in text
    assert "regularisation of the head" in text
