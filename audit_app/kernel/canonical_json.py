"""Canonical JSON, so that a digest or MAC of a value can be recomputed later. Pure."""

import json
from decimal import Decimal
from typing import Any


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and without spaces.

    Stable across JSON columns, some of which store 1e3 as 1000.
    """
    return json.dumps(_with_exact_numbers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _with_exact_numbers(value: Any) -> Any:
    if isinstance(value, float) and (exact := Decimal(repr(value))) == exact.to_integral_value():
        return int(exact)
    if isinstance(value, dict):
        return {name: _with_exact_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_exact_numbers(item) for item in value]
    return value
