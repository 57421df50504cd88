"""Data of a response that its dialect needs back with the message, such as encrypted reasoning. Pure.

It is stored with the step and never shown. It is sent to the server and the model alone that have made it: no other can
read it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from agents_app.providers.errors import Endpoint
from agents_app.providers.text_repair import repair

MAX_CHARACTERS = 2_000_000
_NOTHING: Mapping[str, Any] = {}


def state_of(dialect: str, endpoint: Endpoint, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the state to store; None if the fields are empty, too large or nested too deeply."""
    try:
        kept = {name: _storable(value) for name, value in fields.items() if value}
        is_kept = len(kept) > 0 and len(json.dumps(kept)) <= MAX_CHARACTERS
    except RecursionError:
        return None
    return {"dialect": dialect, "server": endpoint.server, "model": endpoint.model, **kept} if is_kept else None


def fields_for(state: Mapping[str, Any] | None, dialect: str, endpoint: Endpoint) -> Mapping[str, Any]:
    """Return the fields of a state; none if another dialect, server or model has made it."""
    made_by = ("dialect", dialect), ("server", endpoint.server), ("model", endpoint.model)
    if state is None or any(state.get(name) != value for name, value in made_by):
        return _NOTHING
    return state


def _storable(value: Any) -> Any:
    """Return JSON without the characters and numbers that databases reject."""
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {repair(name): _storable(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
