"""Texts that become vectors. Pure."""

import base64
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from agents_app.types.model_calls import Usage

# Numbers, or base64 of them as 32-bit floats, little-endian: the two forms of the API.
Vector = str | Sequence[float]


@dataclass(frozen=True)
class EmbeddingRequest:
    """Inputs of one model call: texts, or the tokens of texts, which only the model's own tokeniser can have made.

    dimensions: length of the vectors; None for that of the model.
    as_base64: the form in which the vectors are wanted; a server may return the other.
    """

    model: str
    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    as_base64: bool = False


@dataclass(frozen=True)
class Embeddings:
    """The vectors of the inputs, in their order."""

    vectors: tuple[Vector, ...]
    usage: Usage = field(default_factory=Usage)


def as_base64(vector: Vector) -> str:
    if isinstance(vector, str):
        return vector
    return base64.b64encode(_little_endian(array("f", vector)).tobytes()).decode()


def as_numbers(vector: Vector) -> list[float]:
    """Return the numbers of a vector. Raises ValueError if it is no base64 of whole floats."""
    if not isinstance(vector, str):
        return list(vector)
    numbers = array("f")
    numbers.frombytes(base64.b64decode(vector, validate=True))
    return _little_endian(numbers).tolist()


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
