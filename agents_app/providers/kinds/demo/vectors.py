"""Vectors of the demo: words hashed into a vector of length 1, so that texts with the same words are close. Pure."""

import hashlib
import math
import re

from agents_app.types import Usage
from agents_app.types.embeddings import EmbeddingRequest, Embeddings

_DIMENSIONS = 256
_WORD = re.compile(r"\w+")


def embed(request: EmbeddingRequest) -> Embeddings:
    """Return the same vectors for the same inputs, whatever the process."""
    words = [_words(each) for each in request.inputs]
    size = request.dimensions or _DIMENSIONS
    return Embeddings(tuple(_vector(each, size) for each in words), Usage(sum(map(len, words))))


def _words(text: str | tuple[int, ...]) -> list[str]:
    return _WORD.findall(text.lower()) if isinstance(text, str) else list(map(str, text))


def _vector(words: list[str], size: int) -> list[float]:
    vector = [0.0] * size
    for word in words or [""]:
        digest = int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:8])
        vector[digest % size] += 1.0 if digest >> 63 else -1.0
    length = math.sqrt(sum(number * number for number in vector))
    return [number / length for number in vector] if length else [1.0, *vector[1:]]
