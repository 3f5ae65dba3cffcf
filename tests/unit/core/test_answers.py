"""Questions as a release pins them, answers as a target, and the readout that gives them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from common.errors import InputError
from common.files import parse
from emma.data.extends import read_extended
from emma.data.release import load_release_config
from emma.metrics import METRICS
from emma.readouts import load_readout, make_readout
from emma.readouts.logistic import Logistic
from emma.tasks import TARGETS, TaskID, TaskSpec, target_of
from emma.tasks.questions import QuestionKind, grammar, question_key

CONFIG = Path(__file__).parents[3] / "config" / "releases"
QUESTIONS = {
    "where": {"texts": ["Is it in the {} half?", "The {} half: is it there?"], "arguments": ["left", "right"]}
    | {"answers": ["yes", "no"]},
    "many": {"texts": ["How many?", "Count them."], "answers": ["none", "one", "two"]},
}


def spec(**readout) -> TaskSpec:
    head = {"kind": "answers", "regularisation": [1e-4, 1e-2], "max_parameters": 7 * 2049, "questions": QUESTIONS}
    mapping = {
        "target": "answer",
        "shape": [2],
        "readout": head | readout,
        "metric": "ExactMatch",
        "unit": "1",
        "secondary_metrics": ["F1"],
        "ood_axis": "snr_regime",
        "held_out": ["low", "high"],
        "in_ood_avg": False,
        "anchors": {"minimum": 0.4, "maximum": 1.0},
    }
    return parse(TaskSpec, mapping, "r")


ANSWER = TARGETS["answer"]((), (2,))


def labels(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features that tell a place and a number, and the questions and answers ``[n, 2, 2]`` about them."""
    rng = np.random.default_rng(seed)
    side, count = rng.integers(2, size=n), rng.integers(3, size=n)
    features = np.stack([side - 0.5, count == 1, count == 2, rng.normal(size=n)], axis=1)
    features = features + 0.1 * rng.normal(size=(n, 4))
    rows = np.empty((n, 2, 2), object)
    for row, (left, number) in enumerate(zip(side, count, strict=True)):
        asked = rng.integers(2)
        text = QUESTIONS["where"]["texts"][rng.integers(2)].replace("{}", ["left", "right"][asked])
        many = QUESTIONS["many"]["texts"][rng.integers(2)]
        rows[row] = [[text, "yes" if left == asked else "no"], [many, ["none", "one", "two"][number]]]
    return features, rows


# The texts


@pytest.mark.parametrize("release", ["tiny", "v1.0"])
def test_every_text_of_a_release_is_read_as_what_it_asks(release):
    questions = load_release_config(CONFIG / f"{release}.yaml").tasks[TaskID.E_S2T_QA].readout.questions
    known = grammar(questions)
    for kind, question in questions.items():
        for argument in question.heads:
            for text in question.texts:
                asked = text.replace("{}", argument)
                assert known[question_key(asked)] == (kind, argument)
                assert known[question_key(f"  {asked.upper()} ")] == (kind, argument)
    assert len(known) == sum(len(each.texts) * len(each.heads) for each in questions.values())


@pytest.mark.parametrize("release", ["tiny", "v1.0"])
def test_the_readout_knows_the_questions_that_the_generator_asks(release):
    data = read_extended(CONFIG / f"{release}.yaml")
    asked, known = data["rfgen"]["tasks"]["E-S2T-QA"], data["tasks"]["E-S2T-QA"]
    assert asked["questions"] == known["readout"]["questions"]
    assert known["shape"] == [len(asked["questions"])]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": []}, "texts"),
        ({"texts": ["How many?", "how  many?"]}, "texts: expected distinct texts, none of them empty"),
        ({"texts": [" "]}, "texts: expected distinct texts, none of them empty"),
        ({"texts": ["How many {}?"]}, "texts: expected no {} where there are no arguments"),
        ({"arguments": ["left"]}, "texts: expected one {} in every text"),
        ({"arguments": ["left", "Left"], "texts": ["In the {}?"]}, "arguments: expected distinct texts"),
        ({"answers": ["one"]}, "answers"),
        ({"answers": ["one", "one"]}, "answers: expected distinct texts"),
        ({"words": 3}, "words: unknown key"),
    ],
)
def test_a_kind_of_question_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(InputError) as caught:
        parse(QuestionKind, QUESTIONS["many"] | change, "r")
    assert message in str(caught.value)


def test_texts_that_ask_two_things_are_refused():
    with pytest.raises(InputError, match=r"questions: 'how many\?' is of two kinds or arguments"):
        spec(questions=QUESTIONS | {"again": {"texts": ["How MANY?"], "answers": ["a", "b"]}})


@pytest.mark.parametrize(
    ("change", "message"),
    [({"questions": None}, "questions: expected"), ({"regularisation": []}, "regularisation: expected")],
)
def test_the_readout_needs_its_keys(change, message):
    with pytest.raises(InputError) as caught:
        spec(**change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"shape": []}, "shape: expected"), ({"shape": [2, 2]}, "shape: expected one"), ({"classes": ["a"]}, "classes")],
)
def test_the_target_needs_a_number_of_questions_and_no_classes(change, message):
    with pytest.raises(InputError) as caught:
        parse(TaskSpec, spec().model_dump(mode="json", exclude_none=True) | change, "r")
    assert message in str(caught.value)


# The target


def test_labels_of_another_number_or_empty_or_endless_are_none():
    good = ["q", "a", "p", "b"]
    rows = [good, good[:3], [], ["q", None, "p", "b"], ["q", "", "p", "b"], ["q", "a", "p", "b" * 513], None]
    given = pa.chunked_array([rows[:2], rows[2:]], ANSWER.label_type)
    encoded = ANSWER.encode(given)
    assert [row is None for row in encoded.to_pylist()] == [False] + 6 * [True]
    assert encoded.type == ANSWER.encoded_type
    assert ANSWER.numbers(ANSWER.encode(given.slice(0, 1))).tolist() == [[["q", "a"], ["p", "b"]]]
    assert ANSWER.numbers(ANSWER.encode(given.slice(0, 0))).shape == (0, 2, 2)


def test_questions_are_given_and_answers_are_not():
    _, target = labels(5)
    given = ANSWER.given(target)
    assert given.shape == (5, 2)
    assert (given == target[:, :, 0]).all()


def test_every_answer_is_one_entry_of_a_scene():
    target = np.array([[["q", "2.4 GHz"], ["p", "yes"]], [["q", "-6 to -2 MHz"], ["p", "no"]]], object)
    scores = np.array([["the 2.4 ghz", "no"], ["6 to 2 MHz", "no"]], object)
    preds, accepted, entries = ANSWER.metric_inputs(METRICS["ExactMatch"], scores, target)
    assert entries == 2
    assert METRICS["ExactMatch"].sample_scores(preds, accepted)[0].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert ANSWER.form_for(METRICS["F1"]) == "answer"
    assert ANSWER.form_for(METRICS["AUC"]) is None


def test_texts_come_back_as_they_were_stored():
    _, target = labels(7)
    column = pa.chunked_array([ANSWER.stored(target[:, :, 1])])
    assert column.type == pa.list_(pa.string())
    assert (ANSWER.read(column, "r") == target[:, :, 1]).all()
    assert ANSWER.distance(target[:, :, 1], target[:, :, 1]) == 0.0
    assert ANSWER.distance(target[:, :, 1], target[:, :, 0]) == float("inf")


# The readout


def test_answers_are_those_of_one_logistic_per_kind_and_argument():
    """Each head against the library's logistic on the scenes that were asked it, features standardised by all."""
    features, target = labels(300)
    pinned = spec(regularisation=[1e-3])
    readout = make_readout(pinned).fit(features, target)
    inputs = (features - features.mean(axis=0)) / features.std(axis=0) / np.sqrt(features.shape[1])
    found = readout.scores(features, ANSWER.given(target))
    for place, kind, argument in ((0, "where", "left"), (0, "where", "right"), (1, "many", "")):
        asked = grammar(pinned.readout.questions)
        rows = np.array([asked[question_key(text)] == (kind, argument) for text in target[:, place, 0]])
        answers = QUESTIONS[kind]["answers"]
        classes = np.array([answers.index(answer) for answer in target[rows, place, 1]])
        own = Logistic(pinned.readout, TARGETS["class"](tuple(answers)))
        tensors = own._fit(inputs[rows], classes, 1e-3)
        best = (inputs[rows] @ tensors["weights"] + tensors["intercept"]).argmax(axis=1)
        assert [answers[place] for place in best] == found[rows, place].tolist()
    assert (found == target[:, :, 1]).mean() > 0.95


def test_the_fit_is_that_of_its_tensors_and_knows_no_order_of_the_release():
    features, target = labels(120)
    first, *others = QUESTIONS.items()
    backwards = spec(questions=dict([*others, first]))
    readout, other = make_readout(spec()).fit(features, target), make_readout(backwards).fit(features, target)
    for name, tensor in readout.tensors.items():
        np.testing.assert_array_equal(tensor, other.tensors[name])
    again = load_readout(spec(), readout.tensors)
    given = ANSWER.given(target)
    assert (again.scores(features, given) == readout.scores(features, given)).all()
    assert readout.regularisation in spec().readout.regularisation


def test_more_features_than_scenes_change_nothing_but_the_basis():
    features, target = labels(60)
    wide = np.hstack([features, np.random.default_rng(1).normal(size=(60, 100))])
    readout = make_readout(spec(regularisation=[1e-2])).fit(wide, target)
    assert readout.tensors["weights"].shape == (104, 7)
    doubled = make_readout(spec(regularisation=[1e-2])).fit(np.hstack([wide, wide]), target)
    given = ANSWER.given(target)
    assert (readout.scores(wide, given) == doubled.scores(np.hstack([wide, wide]), given)).mean() > 0.98


def test_without_features_each_head_gives_its_most_frequent_answer():
    _, target = labels(90)
    readout = make_readout(spec()).fit(np.zeros((90, 0)), target)
    found = readout.scores(np.zeros((90, 0)), ANSWER.given(target))
    known = grammar(spec().readout.questions)
    for place in range(2):
        heads = [known[question_key(text)] for text in target[:, place, 0]]
        for head in set(heads):
            rows = [row for row, other in enumerate(heads) if other == head]
            answers = target[rows, place, 1].astype(str)
            counts = {answer: (answers == answer).sum() for answer in QUESTIONS[head[0]]["answers"]}
            assert set(found[rows, place]) == {max(counts, key=counts.get)}


def test_of_equally_frequent_answers_the_first_that_is_pinned_is_given():
    target = np.array([[["Count them.", answer], ["How many?", answer]] for answer in ("two", "one")], object)
    readout = make_readout(spec()).fit(np.zeros((2, 0)), target)
    assert set(readout.scores(np.zeros((2, 0)), ANSWER.given(target)).ravel()) == {"one"}


def test_an_answer_that_the_fit_never_met_is_never_given():
    features, target = labels(120)
    keep = target[:, 1, 1] != "none"
    readout = make_readout(spec()).fit(features[keep], target[keep])
    assert "none" not in set(readout.scores(features, ANSWER.given(target))[:, 1])


def test_a_head_that_met_one_answer_gives_it():
    features, target = labels(60)
    keep = target[:, 1, 1] == "two"
    found = make_readout(spec()).fit(features[keep], target[keep]).scores(features, ANSWER.given(target))
    assert set(found[:, 1]) == {"two"}


def test_what_is_no_question_gets_the_most_frequent_answer_of_all():
    features, target = labels(60)
    readout = make_readout(spec()).fit(features, target)
    answers, counts = np.unique(target[:, :, 1].astype(str), return_counts=True)
    asked = ANSWER.given(target).copy()
    asked[:, 1] = "What time is it?"
    assert set(readout.scores(features, asked)[:, 1]) == {answers[counts.argmax()]}


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ((0, 1, 0), "What time is it?", "label: 'What time is it?' is none of the pinned questions"),
        ((0, 1, 1), "four", "label: 'four' answers many, expected one of"),
    ],
)
def test_a_fit_on_labels_that_are_not_pinned_is_refused(place, text, message):
    features, target = labels(20)
    target[place] = text
    with pytest.raises(InputError) as caught:
        make_readout(spec()).fit(features, target)
    assert message in str(caught.value)


def test_the_readout_never_sees_the_answers_that_it_predicts():
    features, target = labels(60)
    readout = make_readout(spec()).fit(features, target)
    before = readout.scores(features, ANSWER.given(target))
    target[:, :, 1] = "no"
    assert (readout.scores(features, ANSWER.given(target)) == before).all()


def test_the_head_is_refused_over_its_parameters():
    with pytest.raises(InputError, match="readout: 35 parameters for width 4, over the pinned 34"):
        make_readout(spec(max_parameters=34)).fit(*labels(20))
    assert make_readout(spec()).parameters(4) == 35
    assert target_of(spec()).width == 2
