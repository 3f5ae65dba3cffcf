"""The scenes of the text tasks, what is said of them, and the recipe's block."""

import itertools
import re

import numpy as np
import pytest

from rfgen import scenes
from rfgen.recipe import Recipe
from rfgen.scenes.text import attributes, grammar
from rfgen.scenes.text.attributes import ACTIVITIES, BANDWIDTHS, FAMILIES, PLACES, POWERS, Attributes, Emitter
from rfgen.scenes.text.base import Bursts
from rfgen.waveforms import shaped

TASK, RATE = "E-S2T-CAP", 20e6
KEY = ("mid", "2.4GHz", 0)


def emitter(place: str, **words: str) -> Emitter:
    own = {"family": "OFDM", "bandwidth": "narrow", "power": "strong", "activity": "steady"} | words
    return Emitter(**own, place=place, snr_db=0.0, below_db=0.0, offset_hz=0.0, width_hz=5e5)


def every_scene(rng: np.random.Generator, n: int) -> list[Attributes]:
    """Scenes of words drawn by themselves, of each number of emitters."""
    found = []
    for count in range(n):
        places = np.sort(rng.permutation(3)[: count % 4])
        tables = (FAMILIES, BANDWIDTHS, POWERS, ACTIVITIES)
        keys = ("family", "bandwidth", "power", "activity")
        words = [{k: str(rng.choice(t)) for k, t in zip(keys, tables, strict=True)} for _ in places]
        found.append(Attributes(tuple(emitter(PLACES[p], **w) for p, w in zip(places, words, strict=True)), "mid"))
    return found


def chunk_of(recipe: Recipe, split: str = "DEV", key=KEY, seed: int = 0):
    return recipe.tasks[TASK].made(recipe, TASK, split, key, seed)


@pytest.fixture(scope="module")
def recipe(mapping) -> Recipe:
    data = mapping("v1.0")
    return Recipe.from_mapping(data | {"tasks": {TASK: data["tasks"][TASK]}, "environments": {}})


@pytest.fixture(scope="module")
def made(recipe):
    return [chunk_of(recipe, key=(regime, "2.4GHz", n)) for regime in ("low", "mid", "high") for n in range(5)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [4e5, 7e5, 1.3e6, 2e6, 3.4e6, 4.6e6])
def test_a_family_has_the_width_that_is_asked_for(family: str, width: float) -> None:
    """99 % of the power, by a plain spectrum."""
    for seed in range(20):
        signal = shaped.FAMILIES[family](np.random.default_rng(seed), 4096, width)
        assert signal.shape == (4096,)
        assert np.mean(np.abs(signal) ** 2) == pytest.approx(1.0, rel=0.6)
        share = np.cumsum(np.fft.fftshift(np.abs(np.fft.fft(signal * np.hanning(4096))) ** 2))
        low, high = np.searchsorted(share / share[-1], [0.005, 0.995])
        assert 0.45 < (high - low) * RATE / 4096 / width < (1.6 if family == "chirp" and width < 1e6 else 1.3)


def test_a_gate_opens_and_shuts_within_every_window() -> None:
    bursts = Bursts(on_us=(25.0, 50.0), off_us=(25.0, 50.0))
    for seed in range(50):
        gate = bursts.gate(np.random.default_rng(seed), 4096)
        assert gate.shape == (4096,)
        assert gate.min() == pytest.approx(0.0, abs=1e-12)
        assert gate.max() == pytest.approx(1.0)
        # Whole bursts and pauses last as long as the recipe says, but for the ramps.
        edges = np.flatnonzero(np.diff(gate > 0.5))
        lengths = np.diff(edges) / RATE * 1e6
        assert lengths.min() > 24.0
        assert lengths.max() < 51.0
        assert np.abs(np.diff(gate)).max() < 0.1


def test_numbers_of_emitters_balance_and_places_differ(made) -> None:
    for part in made:
        counts = np.bincount([len(scene.emitters) for scene in part.attributes])
        assert len(set(counts)) == 1
        assert len(counts) == 4
        for scene in part.attributes:
            places = [PLACES.index(e.place) for e in scene.emitters]
            assert places == sorted(set(places))
    assert len({tuple(len(scene.emitters) for scene in part.attributes) for part in made}) > 1


def test_numbers_agree_with_words(recipe, made) -> None:
    task = recipe.tasks[TASK]
    for part in made:
        for scene, snr in zip(part.attributes, part.snr_db, strict=True):
            below = [e.below_db for e in scene.emitters]
            assert not below or min(below) == 0.0
            for e in scene.emitters:
                assert e.snr_db == pytest.approx(snr - e.below_db)
                assert task.bandwidths_hz[e.bandwidth][0] <= e.width_hz <= task.bandwidths_hz[e.bandwidth][1]
                low, high = task.below_db[e.power]
                assert (e.below_db == 0.0 and e.power == "strong") or low <= e.below_db <= high
                edge = (PLACES.index(e.place) - 1.5) * RATE / 3
                reach = 0.6 * e.width_hz + task.guard_hz
                assert edge + reach <= e.offset_hz <= edge + RATE / 3 - reach


def test_words_are_drawn_by_themselves(recipe) -> None:
    """No word is told by another, by the number of emitters or by the regime: chi-square on their tables."""
    from scipy import stats

    rows = []
    for regime, n in itertools.product(("low", "mid", "high"), range(10)):
        for scene in chunk_of(recipe, "TRAIN", (regime, "2.4GHz", n)).attributes:
            rows += [(regime, len(scene.emitters), e.family, e.bandwidth, e.activity, e.place) for e in scene.emitters]
    columns = [np.unique(np.array(column, str), return_inverse=True)[1] for column in zip(*rows, strict=True)]
    for a, b in itertools.combinations(columns, 2):
        table = np.zeros((a.max() + 1, b.max() + 1))
        np.add.at(table, (a, b), 1)
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_samples_hold_the_emitters_that_are_stated(recipe) -> None:
    """Power in each third at high SNR, less the noise, against the stated one and the share of time on air."""
    off = []
    for number in range(5):
        part = chunk_of(recipe, key=("high", "2.4GHz", number))
        spectra = np.fft.fftshift(np.abs(np.fft.fft(part.iq[:, 0])) ** 2, axes=1)
        thirds = spectra[:, 2:-2].reshape(len(spectra), 3, -1).sum(axis=2)
        for scene, power in zip(part.attributes, thirds, strict=True):
            there = {e.place: e for e in scene.emitters}
            if 0 < len(there) < 3:
                noise = min(power)
                for place, value in zip(PLACES, power, strict=True):
                    if place in there and there[place].activity == "steady":
                        off.append(10 * np.log10((value - noise) / noise / 3) - there[place].snr_db)
                    elif place not in there:
                        assert value < 1.5 * noise
    assert len(off) > 20
    assert np.abs(np.mean(off)) < 0.3
    assert np.abs(off).max() < 1.2


def test_a_truth_is_the_words_and_no_more(recipe) -> None:
    part = chunk_of(recipe)
    truth = recipe.tasks[TASK].truth(recipe, TASK, "DEV", KEY, 0)
    assert np.array_equal(truth, attributes.embedding(part.attributes))
    assert set(np.unique(truth)) == {0.0, 1.0}
    lone = Attributes((emitter("low"),), "low")
    weak = Attributes((emitter("low", power="weak"),), "high")
    # Of a lone emitter the relative power says nothing.
    assert np.array_equal(*attributes.embedding([lone, weak]))
    singles = [
        Attributes((emitter(p, family=f, bandwidth=b, activity=a),), "mid")
        for p, f, b, a in itertools.product(PLACES, FAMILIES, BANDWIDTHS, ACTIVITIES)
    ]
    assert len(np.unique(attributes.embedding(singles), axis=0)) == len(singles)


def test_captions_of_a_scene_never_repeat_and_stay_short() -> None:
    rng = np.random.default_rng(0)
    for scene in every_scene(rng, 4000):
        texts = grammar.captions(scene, rng)
        assert len(texts) == len(set(texts)) == grammar.REFERENCES
        assert max(map(len, texts)) <= grammar.LONGEST


def test_captions_use_the_pinned_words() -> None:
    """The vocabulary of version 1, word by word."""
    rng = np.random.default_rng(0)
    said = {w for s in every_scene(rng, 2000) for t in grammar.captions(s, rng) for w in re.findall(r"[A-Za-z]+", t)}
    first = "a the there no one two three and at in on is only alone noise air empty band"
    nouns = "signal signals emitter emitters OFDM PSK GFSK FM chirp low high end lower middle upper third centre"
    kinds = "strong weak narrow medium wide steady continuous bursty pulsed"
    assert said == {*first.split(), *nouns.split(), *kinds.split()}
    assert grammar.VERSION == 1


def test_captions_say_what_is_there_and_nothing_else() -> None:
    """Each caption, read word by word: its families in order, and no word of an attribute that no emitter has."""
    rng = np.random.default_rng(1)
    known = {w: w for table in (BANDWIDTHS, POWERS, ACTIVITIES) for w in table}
    known |= {"continuous": "steady", "pulsed": "bursty"}
    for scene in every_scene(rng, 2000):
        own = {w for e in scene.emitters for w in (e.bandwidth, e.activity, e.power)}
        for text in grammar.captions(scene, rng):
            words = re.findall(r"[A-Za-z]+", text)
            assert [w for w in words if w in FAMILIES] == [e.family for e in scene.emitters]
            assert {known[w] for w in words if w in known} <= own
            if len(scene.emitters) == 1:
                assert not {"strong", "weak"} & set(words)


def test_one_caption_in_full() -> None:
    scene = Attributes((emitter("low"), emitter("high", family="chirp", power="weak", activity="bursty")), "mid")
    words = grammar._Words(scene.emitters, np.random.default_rng(0))
    words.noun, words.count, words._activity, words._place = "signal", "two signals", 1, 0
    assert [style(words) for style in grammar._STYLES] == [
        "a strong narrow continuous OFDM signal at the low end and a weak narrow pulsed chirp signal at the high end",
        "a narrow OFDM signal at the low end and a narrow chirp signal at the high end",
        "a continuous OFDM signal at the low end and a pulsed chirp signal at the high end",
        "two signals: strong OFDM at the low end and weak chirp at the high end",
        "two signals: narrow continuous OFDM and narrow pulsed chirp",
    ]


def test_words_have_a_stream_of_their_own(recipe, monkeypatch) -> None:
    before = next(scenes.generate(recipe, TASK, "DEV", None, 0))
    monkeypatch.setattr(grammar, "captions", lambda scene, rng: [str(rng.random())])
    after = next(scenes.generate(recipe, TASK, "DEV", None, 0))
    assert before.labels["captions"] != after.labels["captions"]
    assert before.iq.tobytes() == after.iq.tobytes()


BAD = [
    ("chunk", 50, "chunk: expected a multiple of 4"),
    ("sample_rate_hz", 1e7, "sample_rate_hz: expected 20000000.0"),
    ("regimes_db", {"low": [-4.0, 0.0]}, "regimes_db: expected at least two"),
    ("regimes_db", {"low": [-4.0, 3.0], "mid": [4.0, 8.0]}, "regimes_db.low: expected a range inside snr_regimes_db"),
    ("regimes_db", {"faint": [-4.0, 0.0], "mid": [4.0, 8.0]}, "regimes_db.faint: expected a range inside"),
    ("families", ["OFDM", "laser"], "families: unknown family 'laser'"),
    ("bandwidths_hz", {"narrow": [4e5, 7e5]}, "bandwidths_hz: expected narrow, medium, wide"),
    ("below_db", {"weak": [4.0, 5.0]}, "below_db: expected strong, weak"),
    ("guard_hz", 1e6, "bandwidths_hz.wide: 4600000.0 does not fit"),
    ("bursts", {"on_us": [25.0, 50.0]}, "bursts.off_us: Field required"),
    ("grammar", 2, "grammar: expected 1"),
]


@pytest.mark.parametrize(("key", "value", "message"), BAD)
def test_a_bad_block_is_refused(mapping, key: str, value: object, message: str) -> None:
    data = mapping("v1.0")
    block = data["tasks"][TASK] | {key: value}
    with pytest.raises(ValueError, match=r"^rfgen") as caught:
        Recipe.from_mapping(data | {"tasks": {TASK: block}, "environments": {}})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
