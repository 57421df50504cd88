"""Parsing of JSON bodies of verified webhook requests. Pure."""

import json
import math
from collections.abc import Mapping
from typing import Any

from sessions_app.channels.base import NotReadable, WebhookRequest, WrongMediaType


def read_json(request: WebhookRequest) -> Any:
    """Return the JSON value of the body. Raises WrongMediaType, NotReadable."""
    if not request.is_json:
        raise WrongMediaType
    try:
        text = request.body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        return _storable(value) if "\\u" in text else value
    except RecursionError:
        raise NotReadable("The JSON is nested too deeply.") from None
    except ValueError:
        raise NotReadable("The body is not valid JSON in UTF-8.") from None


def read_object(request: WebhookRequest) -> Mapping[str, Any]:
    """Return the JSON object of the body. Raises WrongMediaType, NotReadable."""
    value = read_json(request)
    if not isinstance(value, dict):
        raise NotReadable("The body is not a JSON object.")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _storable(value: Any) -> Any:
    """Return the value without what databases cannot store: NUL characters and unpaired surrogates."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value
