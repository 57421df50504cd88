"""The `/embeddings` of the fake model server: vectors of three numbers, or of `dimensions`, in both forms."""

import base64
import struct
from typing import Any

from tests.fakes.directives import Directives


def line_of(body: dict[str, Any]) -> str:
    """Return the first input, whose directives determine the answer."""
    given = body.get("input")
    first = given[0] if isinstance(given, list) and given else given
    return first if isinstance(first, str) else ""


def problem_of(body: dict[str, Any]) -> str:
    """Return why the original refuses a request; empty if it does not."""
    if not body.get("input"):
        return "'$.input' is invalid. Please check the API reference."
    return "This model does not support more than 8 dimensions." if (body.get("dimensions") or 0) > 8 else ""


def answer(body: dict[str, Any], directives: Directives) -> dict[str, Any]:
    """Return a vector for each input: its place and its length first. The usage is left out if `nousage` is given."""
    given = body["input"]
    several = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(body, index, len(each))}
        for index, each in enumerate(several)
    ]
    usage = {} if directives.nousage else {"usage": {"prompt_tokens": 5, "total_tokens": 5}}
    return {"object": "list", "data": data[::-1], "model": body["model"], **usage}


def _vector(body: dict[str, Any], index: int, length: int) -> Any:
    numbers = [float(index), float(length), *[0.5] * ((body.get("dimensions") or 3) - 2)]
    is_base64 = body.get("encoding_format") == "base64"
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode() if is_base64 else numbers
