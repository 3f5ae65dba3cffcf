"""What made a model: one record, the same in metadata, JSON and memory."""

import json

import pytest

from common.errors import InputError
from common.hashing import content_hash
from emma.backbones.config import ModelConfig
from emma.data.provenance import DeclaredReadout, Pretraining, Provenance, provenance_of
from emma.tasks import TaskID

CONFIG = ModelConfig(name="m", factory="a:b", pretraining={"environments": ["E_URBAN"]})
MODEL = Provenance.of("m", CONFIG, CONFIG.pretraining, "1" * 64)
READOUTS = {TaskID.E_ID_FP: DeclaredReadout(kind="discriminant", embedding_dim=4, parameters=8)}
SUBMITTED = MODEL.model_copy(update={"readouts": READOUTS, "weights_sha256": None})


def test_it_names_config_weights_and_pretraining():
    assert MODEL.config_sha256 == content_hash(CONFIG.model_dump(mode="json", exclude_defaults=True))
    assert MODEL.weights_sha256 == "1" * 64
    assert MODEL.pretraining == Pretraining(environments=("E_URBAN",))


@pytest.mark.parametrize("record", [MODEL, SUBMITTED, MODEL.model_copy(update={"pretraining": "unknown"})])
def test_it_comes_back_from_the_metadata_of_a_table(record):
    assert provenance_of(record.metadata | {"more": "1"}, "t") == record


def test_readouts_are_said_of_submissions_alone():
    assert set(MODEL.model_dump(mode="json")) == {"name", "config_sha256", "weights_sha256", "pretraining"}
    assert SUBMITTED.model_dump(mode="json")["readouts"]["E-ID-FP"]["parameters"] == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config_sha256": "0"}, "config_sha256: "),
        ({"name": ""}, "name: "),
        ({"host": "here"}, "host: unknown key"),
        ({"pretraining": "all of it"}, "pretraining"),
    ],
)
def test_what_is_no_provenance_is_one_line(change, message):
    content = json.dumps(MODEL.model_dump(mode="json") | change)
    with pytest.raises(InputError, match=f"t.parquet: model_provenance: {message}"):
        provenance_of({"model_provenance": content}, "t.parquet")


@pytest.mark.parametrize("metadata", [{}, {"model_provenance": "{"}, {"model_provenance": "[" * 100_000}])
def test_metadata_without_it_is_one_line(metadata):
    with pytest.raises(InputError, match=r"^t\.parquet: model_provenance: expected the model's provenance"):
        provenance_of(metadata, "t.parquet")


def test_words_for_readers_move_no_hash():
    told = CONFIG.model_copy(update={"description": "a network", "link": "https://example.org/net"})
    assert Provenance.of("m", told, told.pretraining, "1" * 64) == MODEL


@pytest.mark.parametrize("link", ["http://example.org", "https://a b", 'https://a"onclick', "javascript:alert(1)"])
def test_a_link_is_https_and_nothing_else(link):
    with pytest.raises(ValueError, match="link"):
        ModelConfig(name="m", factory="a:b", pretraining={}, link=link)
