"""Parsing of the bodies of verified webhook requests: JSON and forms. Pure."""

import json
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from sessions_app.platforms.base import NotReadable, WebhookRequest, WrongMediaType


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


def read_form(request: WebhookRequest) -> dict[str, str]:
    """Return the fields of a form, the last value of each. Raises WrongMediaType, NotReadable."""
    if request.media_type != "application/x-www-form-urlencoded":
        raise WrongMediaType
    try:
        pairs = parse_qsl(request.body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=200)
    except ValueError:
        raise NotReadable("The body is not a form in UTF-8.") from None
    return {name: _storable(value) for name, value in pairs}


def parse_json(text: str) -> Any:
    """Return the value of a JSON text, such as the field of a form. Raises NotReadable."""
    try:
        return _storable(json.loads(text, parse_constant=_refuse, parse_float=_finite))
    except (RecursionError, ValueError):
        raise NotReadable("A field of the body is not valid JSON.") from None


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
