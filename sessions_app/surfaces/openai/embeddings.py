"""Requests for embeddings, checked, and their answers. Pure."""

from collections.abc import Mapping
from typing import Any

from agents_app.types.embeddings import EmbeddingRequest, Embeddings, as_base64, as_numbers
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.openai.requests import LONGEST_TEXT

MOST_INPUTS, MOST_TOKENS, MOST_DIMENSIONS = 2_048, 100_000, 65_536
FORMATS = ("float", "base64")
_MOST_TOKEN = 2**31


def read(body: Any) -> tuple[str, EmbeddingRequest]:
    """Return the name in `model`, and the request without the model that it stands for. Raises InvalidInput."""
    if not isinstance(body, Mapping):
        raise InvalidInput("The body must be a JSON object.", code="invalid_body")
    name, wanted = body.get("model"), body.get("encoding_format") or "float"
    if not isinstance(name, str) or not name:
        message = "model must be the id of an agent, or the name of the embedding model of its provider."
        raise invalid_param(message, "model", "missing_required_parameter")
    if wanted not in FORMATS:
        raise invalid_param("encoding_format must be float or base64.", "encoding_format")
    dimensions = body.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or not 1 <= dimensions <= MOST_DIMENSIONS):
        raise invalid_param(f"dimensions must be a whole number from 1 to {MOST_DIMENSIONS:,}.", "dimensions")
    return name, EmbeddingRequest("", _inputs(body.get("input")), dimensions, wanted == "base64")


def whole(request: EmbeddingRequest, found: Embeddings) -> dict[str, Any]:
    """Return the answer. Raises ValueError if the server has sent vectors that cannot be read."""
    show = as_base64 if request.as_base64 else as_numbers
    data = [
        {"object": "embedding", "index": index, "embedding": show(vector)} for index, vector in enumerate(found.vectors)
    ]
    tokens = found.usage.input_tokens
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage}


def _inputs(given: Any) -> tuple[str | tuple[int, ...], ...]:
    """Return the inputs: of a string or a list of token ids one, of a list of these several."""
    several = given if isinstance(given, list) and given and not _is_token(given[0]) else [given]
    if len(several) > MOST_INPUTS:
        raise invalid_param(f"input has {len(several):,} texts; at most {MOST_INPUTS:,} are allowed.", "input")
    return tuple(_input(each, f"input[{index}]" if several is given else "input") for index, each in enumerate(several))


def _input(given: Any, param: str) -> str | tuple[int, ...]:
    if isinstance(given, str) and 0 < len(given) <= LONGEST_TEXT:
        return given
    if isinstance(given, list) and 0 < len(given) <= MOST_TOKENS and all(map(_is_token, given)):
        return tuple(given)
    message = (
        f"{param} must be a text of 1 to {LONGEST_TEXT:,} characters, or a list of 1 to {MOST_TOKENS:,} token ids."
    )
    raise invalid_param(message, param)


def _is_token(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST_TOKEN
