"""E-S2T-QA: what questions alone let one answer, in closed form; written without the generator's code."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from emma.data.extends import read_extended
from emma.data.release import load_release_config
from emma.readouts import make_readout
from emma.tasks import TaskID
from emma.tasks.questions import grammar, question_key

TASK = TaskID.E_S2T_QA
KINDS = ("presence", "count", "family", "strongest", "bandwidth", "power")
NONE = Fraction(1, 4)
ONE = 1 - NONE


def law(block: dict) -> dict[tuple[str, str], dict[str, float]]:
    """Probability of every answer to every kind and argument.

    Zero to three emitters are equally likely, in as many of three places, drawn without favour; family and width are
    uniform, and of the emitters but one each is strong or weak like a coin.
    """
    answers = {kind: own["answers"] for kind, own in block["questions"].items()}
    # Half of all places are taken: a mean of 1.5 emitters over three places.
    half = {"yes": 0.5, "no": 0.5}
    found = {("presence", place): half for place in block["questions"]["presence"]["arguments"]}
    found["count", ""] = dict.fromkeys(answers["count"], 0.25)
    # Two emitters: one coin. Three: two coins, both strong one time in four.
    weak = Fraction(1, 4) * (Fraction(1, 2) + Fraction(3, 4))
    alone, strong = Fraction(1, 4), Fraction(1, 2) - weak
    found["power", ""] = dict(zip(answers["power"], map(float, (NONE, alone, strong, weak)), strict=True))
    others = {kind: len(answers[kind]) - 1 for kind in ("family", "strongest", "bandwidth")}
    for kind in ("family", "strongest", "bandwidth"):
        shares = dict(zip(answers[kind], map(float, (NONE, *[ONE / others[kind]] * others[kind])), strict=True))
        found |= {(kind, argument): shares for argument in block["questions"][kind].get("arguments", ("",))}
    return found


def blind(block: dict) -> np.ndarray:
    """Share of right answers ``[kinds]`` of whoever gives the most frequent one to each kind and argument."""
    best = [[max(shares.values()) for (kind, _), shares in law(block).items() if kind == own] for own in KINDS]
    return np.array([np.mean(own) for own in best])


@pytest.fixture(scope="module", name="block")
def _block(releases) -> dict:
    return read_extended(releases / "v1.0.yaml")["rfgen"]["tasks"][TASK.value]


@pytest.fixture(scope="module", name="spec")
def _spec(releases):
    return load_release_config(releases / "v1.0.yaml").tasks[TASK]


@pytest.fixture(scope="module", name="asked")
def _asked(v10) -> list[np.ndarray]:
    """Questions and answers ``[N, 6, 2]`` of TRAIN and DEV."""
    return [v10.scenes(TASK.value, split)[1]["qa"].reshape(-1, len(KINDS), 2) for split in ("TRAIN", "DEV")]


def test_questions_alone_answer_no_more_than_is_allowed(block, spec, record_property) -> None:
    found = dict(zip(KINDS, blind(block), strict=True))
    record_property("blind accuracy by kind", found)
    assert found["presence"] == 0.5
    assert np.mean(list(found.values())) <= 0.35
    assert spec.anchors.minimum == pytest.approx(np.mean(list(found.values())), abs=0.005)
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in law(block).values())


def test_answers_are_as_frequent_as_the_law_says(asked, block, spec) -> None:
    """Every answer to every kind and argument over both splits, to four standard errors."""
    known, texts = grammar(spec.readout.questions), np.concatenate(asked)
    for place in range(len(KINDS)):
        heads = np.array([known[question_key(text)][1] for text in texts[:, place, 0]])
        for argument in np.unique(heads):
            shares = law(block)[KINDS[place], argument]
            answers, n = Counter(texts[heads == argument, place, 1]), np.sum(heads == argument)
            assert set(answers) <= set(shares)
            for answer, share in shares.items():
                error = np.sqrt(max(share * (1 - share), 1e-4) / n)
                assert answers[answer] / n == pytest.approx(share, abs=4 * error), (KINDS[place], argument, answer)


def test_the_floor_is_the_blind_accuracy(asked, block, spec) -> None:
    train, dev = asked
    readout = make_readout(spec).fit(np.zeros((len(train), 0)), train)
    right = readout.scores(np.zeros((len(dev), 0)), dev[:, :, 0]) == dev[:, :, 1]
    expected = blind(block)
    errors = np.sqrt(expected * (1 - expected) / len(dev))
    # Of answers that are equally likely in law, the sample of TRAIN chooses.
    assert (np.abs(right.mean(axis=0) - expected) <= 4 * errors + 0.01).all()


def test_paraphrases_and_arguments_are_drawn_without_favour(asked, spec) -> None:
    """Every text of a kind is as frequent as any other."""
    texts = np.concatenate(asked)[:, :, 0]
    for place, kind in enumerate(KINDS):
        question, counts = spec.readout.questions[kind], Counter(texts[:, place])
        share = 1 / (len(question.texts) * len(question.heads))
        assert len(counts) == round(1 / share)
        error = np.sqrt(share * (1 - share) / len(texts))
        assert np.abs(np.array(list(counts.values())) / len(texts) - share).max() <= 4.5 * error, kind


@pytest.mark.parametrize("place", range(len(KINDS)), ids=KINDS)
def test_all_six_questions_together_tell_nothing_of_an_answer(asked, block, place: int) -> None:
    """A forest on the texts of all questions of a scene, against the law's most frequent answers."""
    train, dev = asked
    texts = np.unique(np.concatenate(asked)[:, :, 0].astype(str))
    coded = [
        np.concatenate([side[:, each, :1].astype(str) == texts[None] for each in range(len(KINDS))], axis=1)
        for side in asked
    ]
    forest = RandomForestClassifier(n_estimators=50, min_samples_leaf=10, random_state=0)
    forest.fit(coded[0], train[:, place, 1].astype(str))
    found = np.mean(forest.predict(coded[1]) == dev[:, place, 1])
    expected = blind(block)[place]
    assert found <= expected + 4 * np.sqrt(expected * (1 - expected) / len(dev))
