"""E-S2T-QA's block of the recipe, its questions, and answers worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from emma.data.extends import read_extended
from rfgen.recipe import Recipe
from rfgen.scenes.text.attributes import Attributes, Emitter
from rfgen.scenes.text.questions import KINDS

CONFIG = Path(__file__).parents[3] / "config" / "releases" / "tiny.yaml"
TASK = "E-S2T-QA"
KEY = ("mid", "2.4GHz", 0)


def recipe(**changes) -> Recipe:
    data = read_extended(CONFIG)["rfgen"]
    data["tasks"] = {TASK: data["tasks"][TASK] | changes}
    data["environments"] = {}
    return Recipe.from_mapping(data)


def questions(kind: str, **changes) -> dict:
    block = read_extended(CONFIG)["rfgen"]["tasks"][TASK]["questions"]
    return {"questions": block | {kind: block[kind] | changes}}


def emitter(place: str, offset_mhz: float, **changes) -> Emitter:
    numbers = {"family": "PSK", "bandwidth": "wide", "power": "strong", "activity": "steady"}
    numbers |= {"snr_db": 5.0, "below_db": 0.0, "width_hz": 4e6} | changes
    return Emitter(place=place, offset_hz=1e6 * offset_mhz, **numbers)


EMPTY = Attributes((), "mid")
ONE = Attributes((emitter("centre", 2.0, family="FM", bandwidth="narrow"),), "mid")
TWO = Attributes((emitter("low", -6.0, power="weak", below_db=6.0), emitter("high", 9.0, family="OFDM")), "mid")
THREE = Attributes(
    (emitter("low", -6.1, below_db=1.0), emitter("centre", 0.0, family="chirp"), emitter("high", 5.9, below_db=0.1)),
    "mid",
)
WORKED = {
    ("presence", "lower"): ("no", "no", "yes", "yes"),
    ("presence", "middle"): ("no", "yes", "no", "yes"),
    ("presence", "upper"): ("no", "no", "yes", "yes"),
    ("count", ""): ("0", "1", "2", "3"),
    ("family", "lowest-frequency"): ("none", "FM", "PSK", "PSK"),
    ("family", "highest-frequency"): ("none", "FM", "OFDM", "PSK"),
    ("strongest", ""): ("none", "FM", "OFDM", "chirp"),
    ("bandwidth", "lowest-frequency"): ("none", "0.4 to 0.7 MHz", "3.4 to 4.6 MHz", "3.4 to 4.6 MHz"),
    ("bandwidth", "highest-frequency"): ("none", "0.4 to 0.7 MHz", "3.4 to 4.6 MHz", "3.4 to 4.6 MHz"),
    ("power", ""): ("none", "0 dB", "5 to 8 dB", "0 to 2 dB"),
}


def test_answers_are_those_worked_out_by_hand() -> None:
    task = recipe().tasks[TASK]
    assert {(kind, argument) for kind, each in KINDS.items() for argument in each.arguments or ("",)} == set(WORKED)
    for (kind, argument), expected in WORKED.items():
        found = [KINDS[kind].answer(task, scene, argument) for scene in (EMPTY, ONE, TWO, THREE)]
        assert tuple(found) == expected, kind


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"questions": {}}, "questions: expected presence, count, family, strongest, bandwidth, power"),
        (questions("count", answers=["0", "1"]), "questions.count.answers: expected 0, 1, 2, 3"),
        (questions("family", arguments=["strongest"]), "questions.family.arguments: expected lowest-frequency, "),
        (questions("count", arguments=["strongest"]), "questions.count.arguments: expected none"),
        (questions("power", answers=["none", "0 dB"]), "questions.power.answers: expected none, 0 dB, 0 to 2 dB"),
        (
            {"below_db": {"strong": [0.0, 1.0], "weak": [5.0, 8.0]}},
            "questions.power.answers: expected none, 0 dB, 0 to 1 dB",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=TASK) as caught:
        recipe(**changes)
    assert message in str(caught.value)


def test_a_scene_is_asked_one_question_of_each_kind() -> None:
    made = recipe()
    chunk = made.tasks[TASK].make(made, TASK, "DEV", KEY, 0)
    texts = made.tasks[TASK].questions
    qa = chunk.labels["qa"]
    assert qa.shape == (len(chunk), 12)
    for place, kind in enumerate(KINDS):
        asked = {text.replace("{}", a) for text in texts[kind].texts for a in texts[kind].arguments or ("",)}
        assert set(qa[:, 2 * place]) <= asked
        assert set(qa[:, 2 * place + 1]) <= set(texts[kind].answers)
    assert chunk.labels["detail"] == qa[:, 3].tolist()


def test_other_words_change_no_sample() -> None:
    first, other = recipe(), recipe(**questions("count", texts=["Count them."]))
    chunks = [made.tasks[TASK].make(made, TASK, "DEV", KEY, 0) for made in (first, other)]
    np.testing.assert_array_equal(chunks[0].iq, chunks[1].iq)
    np.testing.assert_array_equal(chunks[0].labels["qa"][:, 1::2][:, 1], chunks[1].labels["qa"][:, 1::2][:, 1])
    assert set(chunks[1].labels["qa"][:, 2]) == {"Count them."}


def test_the_truth_is_that_of_the_same_scenes() -> None:
    made = recipe()
    task = made.tasks[TASK]
    truth = task.truth(made, TASK, "DEV", KEY, 5)
    count = task.make(made, TASK, "DEV", KEY, 5).labels["qa"][:, 3]
    np.testing.assert_array_equal(truth[:, :4].argmax(axis=1), count.astype(int))
    # Of every scene with emitters one is the strongest.
    np.testing.assert_array_equal(truth[:, -5:].sum(axis=1), (count != "0").astype(float))
