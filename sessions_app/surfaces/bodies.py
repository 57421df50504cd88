"""JSON request bodies, for Django views and consumers alike. Knows no surface."""

import json
import re
from typing import Any, NoReturn

from rest_framework.exceptions import APIException, ParseError

# May be half of a surrogate pair, which no database stores.
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


class BodyTooLarge(APIException):
    status_code = 413
    default_code = "body_too_large"
    default_detail = "The request body is too large."


def parse_json(body: bytes) -> Any:
    """The JSON value of a UTF-8 body. Raises ParseError, also for NaN, half characters and endless nesting."""
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
        if _HALF_CHARACTER.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except RecursionError:
        raise ParseError("The JSON is nested too deeply.", code="malformed_json") from None
    except ValueError as error:
        raise ParseError(f"The body is not valid JSON: {error}", code="malformed_json") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
