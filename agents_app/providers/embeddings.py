"""Requests and responses of `/embeddings`. Pure."""

import json
from typing import Any, NoReturn

from agents_app.providers.token_usage import read_usage
from agents_app.types.embeddings import EmbeddingRequest, Embeddings, Vector


def encode(request: EmbeddingRequest) -> dict[str, Any]:
    """Return the body of a request."""
    body: dict[str, Any] = {
        "model": request.model,
        "input": list(request.inputs),
        "encoding_format": "base64" if request.as_base64 else "float",
    }
    return body if request.dimensions is None else {**body, "dimensions": request.dimensions}


def read(text: str, request: EmbeddingRequest) -> Embeddings:
    """Return the vectors of a response. Raises ValueError, TypeError or KeyError for another body."""
    found = json.loads(text, parse_constant=_refuse_constant)
    vectors = tuple(_vector(item["embedding"]) for item in sorted(found["data"], key=lambda item: item["index"]))
    if len(vectors) != len(request.inputs):
        raise ValueError("there is not one vector for each input")
    return Embeddings(vectors, read_usage(found.get("usage")))


def _vector(value: Any) -> Vector:
    if isinstance(value, str) and value.isascii():
        return value
    if not isinstance(value, list) or not value or not all(type(number) in (int, float) for number in value):
        raise TypeError("a vector is a list of numbers, or base64")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of a vector")
