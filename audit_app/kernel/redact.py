"""Masks secrets and trims oversize values before anything is stored, logged or streamed."""

import re
from typing import Any

MASK = "•••"

_SECRET_NAME = re.compile(
    r"(?:^|[_\-.])(?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|apikey|authorization|credential|cookie|private[_-]?key)s?$",
    re.IGNORECASE,
)
# Shapes that are secrets wherever they stand: our own and providers' keys, bearer tokens, JWTs, URL passwords, PEM.
_SECRET_SHAPE = re.compile(
    r"sk-[A-Za-z0-9_\-]{16,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=\-]{12,}"
    r"|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+"
    r"|(?<=://)[^\s/:@]{0,256}:[^\s/@]{1,256}(?=@)"
    r"|-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.{0,8192}?-----END [A-Z ]{0,32}PRIVATE KEY-----",
    re.DOTALL,
)


def masked_text(text: str) -> str:
    """The text with every substring that has the shape of a secret replaced by the mask."""
    return _SECRET_SHAPE.sub(MASK, text)


def masked(value: Any, *, name: str = "") -> Any:
    """A JSON value with secrets masked: by the name of the field that holds them, and by their shape."""
    if isinstance(value, dict):
        return {key: masked(item, name=str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, name=name) for item in value]
    if isinstance(value, str):
        return MASK if value and _SECRET_NAME.search(name) else masked_text(value)
    return value
