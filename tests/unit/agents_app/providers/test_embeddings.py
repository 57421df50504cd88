"""Bodies of `/embeddings`."""

import json
from typing import Any

import pytest

from agents_app.providers import embeddings
from agents_app.types import Usage
from agents_app.types.embeddings import EmbeddingRequest

TWO = EmbeddingRequest("m", ("a", "b"))


def body(*vectors: Any) -> str:
    data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return json.dumps({"data": data[::-1], "usage": {"prompt_tokens": 3, "total_tokens": 3}})


def test_vectors_are_read_in_the_order_of_the_inputs() -> None:
    found = embeddings.read(body([1, 0.5], "AAAA"), TWO)
    assert found.vectors == ([1, 0.5], "AAAA") and found.usage == Usage(3)


def test_optional_fields_are_sent_if_they_are_wanted() -> None:
    assert embeddings.encode(TWO) == {"model": "m", "input": ["a", "b"], "encoding_format": "float"}
    assert embeddings.encode(EmbeddingRequest("m", ((1, 2),), 4, True)) == {
        "model": "m",
        "input": [(1, 2)],
        "encoding_format": "base64",
        "dimensions": 4,
    }


@pytest.mark.parametrize(
    "text",
    [
        "<html>",
        "{}",
        "[]",
        body([1.0]),
        body([1.0], []),
        body([1.0], [True]),
        body([1.0], {"a": 1}),
        body([1.0], "é"),
        body([1.0], [float("nan")]),
    ],
)
def test_another_body_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        embeddings.read(text, TWO)
