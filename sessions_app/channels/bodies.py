"""Reads the JSON bodies of webhooks that have proved their origin. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from sessions_app.channels.base import NotReadable, WebhookRequest, WrongMediaType


def read_json(request: WebhookRequest) -> Any:
    """The JSON value of the body. Raises WrongMediaType, NotReadable."""
    if not request.is_json:
        raise WrongMediaType
    try:
        return json.loads(request.body.decode("utf-8"))
    except RecursionError:
        raise NotReadable("The JSON is nested too deeply.") from None
    except ValueError:
        raise NotReadable("The body is not valid JSON in UTF-8.") from None


def read_object(request: WebhookRequest) -> Mapping[str, Any]:
    """The same, when it must be an object."""
    value = read_json(request)
    if not isinstance(value, dict):
        raise NotReadable("The body is not a JSON object.")
    return value
