"""JSON request bodies, for Django views and consumers alike. Knows no surface."""

import json
from typing import Any, NoReturn

from rest_framework.exceptions import APIException, ParseError


class BodyTooLarge(APIException):
    status_code = 413
    default_code = "body_too_large"
    default_detail = "The request body is too large."


def parse_json(body: bytes) -> Any:
    """The JSON value of a UTF-8 body. Raises ParseError, also for NaN and for endless nesting."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise ParseError("The JSON is nested too deeply.", code="malformed_json") from None
    except ValueError as error:
        raise ParseError(f"The body is not valid JSON: {error}", code="malformed_json") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
