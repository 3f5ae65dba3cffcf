"""Nuisance audit: under each task's own protocol no label can be read from what is not the signal's structure.

A readout gets everything but the samples' structure: SNR, regime, band, receiver, total power, place in the release and
in the chunk, numbers and hashes of names and of the samples. It is fit on the other values of the task's axis and
scored on the held-out one, all of whose scenes are used (nothing of them reached the fit). Its score must be no better
than chance by more than four standard errors.

What is tied to a label by nature: a held-out environment's share of links in sight (bounded below), and for E-ID-FP the
columns device, session and link_id, which name the unit and are identity, not metadata.
"""

import hashlib

import numpy as np
import pytest
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

AXIS = {
    "E-LOC-AOA": "environment",
    "E-LOC-LOS": "environment",
    "E-ID-DRONE": "environment",
    "E-ID-FP": "device",
    "E-ID-AMC": "snr_regime",
    "E-SC-SENSE": "receiver",
    "E-SC-ANOM": "waveform",
}


def hashed(values: list[bytes]) -> np.ndarray:
    """Eight numbers of each value's SHA-256."""
    return np.stack([np.frombuffer(hashlib.sha256(v).digest(), np.uint32) for v in values]) / 2**32


def one_hot(values: np.ndarray) -> np.ndarray:
    names = np.asarray([str(v) for v in values])
    return (names[:, None] == np.unique(names)).astype(float)


def nuisances(bench, task: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Feature blocks and metadata of a task's TRAIN and DEV scenes, one after the other; of E-SC-ANOM DEV's alone.

    Its TRAIN scenes are all of one class, so that a place that TRAIN has would tell.
    """
    parts = [bench.scenes(task, split) for split in (("TRAIN", "DEV") if task != "E-SC-ANOM" else ("DEV",))]
    meta = {name: np.concatenate([p[1][name] for p in parts]) for name in parts[0][1]}
    iq = [scene for p in parts for scene in p[0]]
    chunk = bench.recipe.tasks[task].chunk * (len(bench.recipe.tasks[task].units) if task == "E-ID-FP" else 1)
    order = np.concatenate([np.arange(len(p[0])) for p in parts])
    place = order % chunk
    power = np.array([10 * np.log10(np.mean(np.abs(scene) ** 2)) for scene in iq])
    blocks = {
        "stated": np.column_stack([meta["snr_db"], one_hot(meta["snr_regime"]), one_hot(meta["frequency_band"])]),
        "environment": one_hot(meta["environment"]),
        "receiver": one_hot(meta["receiver"]),
        "power": power[:, None],
        "order": np.column_stack([order, place, place % 2, place % 3, place % 4, place % 5, order // chunk]),
        "names": hashed([str(x).encode() for x in meta["link_id"]]),
        "content": hashed([scene.tobytes() for scene in iq]),
    }
    if task == "E-ID-FP":
        del blocks["names"]
    return blocks, meta


def classifiers() -> list:
    forest = RandomForestClassifier(60, max_depth=6, class_weight="balanced", random_state=0, n_jobs=1)
    linear = LogisticRegression(C=0.1, class_weight="balanced", max_iter=200)
    return [make_pipeline(StandardScaler(), linear), forest]


@pytest.mark.parametrize("task", ["E-LOC-LOS", "E-ID-DRONE", "E-ID-AMC", "E-SC-SENSE", "E-SC-ANOM"])
def test_no_class_from_nuisances(shipped, task: str) -> None:
    blocks, meta = nuisances(shipped(task), task)
    features, labels, axis = np.column_stack(list(blocks.values())), meta["class"].astype(str), meta[AXIS[task]]
    for value in sorted(set(axis)):
        held = axis == value
        n, classes = held.sum(), len(set(labels))
        for model in classifiers():
            model.fit(features[~held], labels[~held])
            if positive := {"present", "anomalous"} & set(labels):
                true = np.isin(labels[held], list(positive))
                shares = model.predict_proba(features[held])[:, list(model.classes_).index(*positive)]
                score = roc_auc_score(true, shares)
                # The rank statistic's variance without information.
                error = np.sqrt((n + 1) / (12 * true.sum() * (~true).sum()))
            elif task == "E-LOC-LOS":
                score = balanced_accuracy_score(labels[held], model.predict(features[held]))
                counts = np.unique(labels[held], return_counts=True)[1]
                error = np.sqrt(np.sum(0.25 / counts)) / 2
            else:
                score = accuracy_score(labels[held], model.predict(features[held]))
                error = np.sqrt((1 / classes) * (1 - 1 / classes) / n)
            assert score < 1 / classes + 4 * error, (task, value, score)


def test_no_angle_from_nuisances(v01) -> None:
    blocks, meta = nuisances(v01, "E-LOC-AOA")
    features, angle = np.column_stack(list(blocks.values())), np.radians(meta["azimuth_deg"].astype(float))
    target = np.column_stack([np.cos(angle), np.sin(angle)])
    for value in sorted(set(meta["environment"])):
        held = meta["environment"] == value
        forest = RandomForestRegressor(30, max_depth=6, random_state=0, n_jobs=1)
        for model in (make_pipeline(StandardScaler(), Ridge(10.0)), forest):
            guess = model.fit(features[~held], target[~held]).predict(features[held])
            error = np.degrees(np.abs(np.angle(np.exp(1j * (np.arctan2(guess[:, 1], guess[:, 0]) - angle[held])))))
            # Chance is uniform on [0, 180]: mean 90, standard deviation 52.
            assert error.mean() > 90 - 4 * 52 / np.sqrt(held.sum()), (value, error.mean())


@pytest.mark.parametrize("with_receiver", [False, True])
def test_no_unit_from_nuisances(v01, with_receiver: bool) -> None:
    """The enrolment protocol on nuisances alone: match to one session, projected by others or not.

    A receiver is constant within a session, so with it the evidence counts sessions, not captures.
    """
    blocks, meta = nuisances(v01, "E-ID-FP")
    if not with_receiver:
        del blocks["receiver"]
    features = np.column_stack(list(blocks.values()))
    units, sessions = sorted(set(meta["device"])), v01.recipe.tasks["E-ID-FP"].sessions
    train, number = meta["split"] == "TRAIN", np.array([int(s[-2:]) for s in meta["session"]])
    hits, queries = np.zeros(2), 0
    for unit in units:
        others = train & (meta["device"] != unit)
        scaled = StandardScaler().fit(features[others]).transform(features)
        project = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(scaled[others], meta["device"][others])
        query = ~train & (meta["device"] == unit) & (number > 0)
        queries += query.sum()
        for way, z in enumerate((project.transform(scaled), scaled)):
            enrol = [z[~train & (meta["device"] == u) & (number == 0)].mean(axis=0) for u in units]
            gallery = np.stack(enrol) / np.linalg.norm(enrol, axis=1, keepdims=True)
            hits[way] += np.sum((z[query] @ gallery.T).argmax(axis=1) == units.index(unit))
    chance = 1 / len(units)
    evidence = len(units) * (sessions - 1) if with_receiver else queries
    assert max(hits / queries) < chance + 4 * np.sqrt(chance * (1 - chance) / evidence), hits / queries


def test_sight_is_tied_to_its_environment_and_no_further(v01) -> None:
    """Knowing the environment gives its prevalence: nothing within one, and over both at most half the difference."""
    meta = {s: v01.scenes("E-LOC-LOS", s)[1] for s in ("TRAIN", "DEV")}
    share = {}
    for environment in v01.recipe.environments:
        rows = meta["DEV"]["environment"] == environment
        labels = meta["DEV"]["class"][rows]
        share[environment] = np.mean(labels == "LOS")
        # One answer for one environment, whatever it is, has balanced accuracy one half.
        assert balanced_accuracy_score(labels, np.full(len(labels), "LOS")) == 0.5
        for band in v01.recipe.tasks["E-LOC-LOS"].bands:
            in_band = np.mean(labels[meta["DEV"]["frequency_band"][rows] == band] == "LOS")
            assert abs(in_band - share[environment]) < 4 * 0.5 / np.sqrt(len(labels) / 2)
    pooled = balanced_accuracy_score(
        meta["DEV"]["class"], np.where(meta["DEV"]["environment"] == max(share, key=share.get), "LOS", "NLOS")
    )
    assert 0.05 < max(share.values()) - min(share.values()) < 0.3
    assert pooled < 0.65


@pytest.mark.parametrize("task", AXIS)
def test_power_is_the_random_gain(shipped, task: str) -> None:
    """Uniform in dB over the recipe's range, whatever the label, SNR, environment or unit."""
    iq, meta = shipped(task).scenes(task, "DEV")
    power = 10 * np.log10(np.mean(np.abs(iq) ** 2, axis=(1, 2)))
    low, high = shipped(task).recipe.gain_db
    assert stats.kstest(power, stats.uniform(low, high - low).cdf).pvalue > 1e-4
    assert abs(stats.spearmanr(power, meta["snr_db"]).statistic) < 4 / np.sqrt(len(power))
    names = [name for name in ("class", AXIS[task]) if name in meta]
    groups = [power[meta[name] == v] for name in names for v in set(meta[name]) - {None}]
    for group in groups:
        assert abs(group.mean() - (low + high) / 2) < 4.5 * (high - low) / np.sqrt(12 * len(group))


def test_channels_do_not_know_the_drone(v01) -> None:
    """Both labels share height, sight, K and delay spread; noise alone states an SNR of the same law."""
    for split in ("TRAIN", "DEV"):
        meta = v01.scenes("E-ID-DRONE", split)[1]
        rows = v01.rays(split).to_pandas().set_index("link_id").loc[meta["link_id"]]
        present = meta["class"] == "present"
        k_db = rows.k_factor_db.fillna(-30.0)
        for column in (rows.los, rows.high, k_db, rows.delay_spread_s, rows.distance_2d_m, rows.terminal_height_m):
            values = column.to_numpy(float)
            assert stats.mannwhitneyu(values[present], values[~present]).pvalue > 1e-4
        assert stats.ks_2samp(meta["snr_db"][present], meta["snr_db"][~present]).pvalue > 1e-4
        quiet = meta["detail"] == "noise"
        assert quiet.sum() > 50
        assert stats.ks_2samp(meta["snr_db"][quiet], meta["snr_db"][~quiet]).pvalue > 1e-4
        assert np.mean(present) == 0.5


@pytest.mark.parametrize("task", AXIS)
def test_classes_balance_where_the_recipe_chooses(shipped, task: str) -> None:
    for split in ("TRAIN", "DEV"):
        meta = shipped(task).scenes(task, split)[1]
        if task == "E-SC-ANOM":
            for value in set(meta["receiver"]):
                wrong = meta["class"][meta["receiver"] == value] == "anomalous"
                assert wrong.mean() == (0.1 if split == "DEV" else 0.0)
        elif not task.startswith("E-LOC"):
            for value in set(meta[AXIS[task]]) if task != "E-ID-FP" else {None}:
                rows = meta[AXIS[task]] == value if value is not None else slice(None)
                assert len(set(np.unique(meta["class"][rows], return_counts=True)[1])) == 1
