"""JSON request bodies, for Django views and consumers."""

import json
import re
from typing import Any, NoReturn

from rest_framework.exceptions import APIException, ParseError

from audit_app.kernel.errors import InvalidInput

# Deep enough for any real request, shallow enough for recursive code that handles the value later.
MOST_LEVELS = 100
# May be a lone surrogate, which no database stores.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class BodyTooLarge(APIException):
    status_code = 413
    default_code = "body_too_large"
    default_detail = "The request body is too large."


def parse_json(body: bytes) -> Any:
    """Return the JSON value of a UTF-8 body.

    Raises ParseError (malformed_json), also for NaN, lone surrogates and more than MOST_LEVELS levels of nesting.
    """
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        is_deep = text.count("[") + text.count("{") > MOST_LEVELS and _is_deep(value)
    except RecursionError:
        is_deep = True
    except ValueError as error:
        raise ParseError(f"The body is not valid JSON: {error}", code="malformed_json") from None
    if is_deep:
        raise ParseError(f"The JSON is nested more than {MOST_LEVELS} levels deep.", code="malformed_json")
    return value


def clean(value: Any) -> Any:
    """Return a JSON value that every database can store: without NUL. Raises InvalidInput for unpaired surrogates."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput("A text contains an unpaired surrogate.", code="invalid_text") from None
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS):
        within = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in within for part in parts]
    return any(isinstance(part, dict | list) for part in level)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
