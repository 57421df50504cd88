"""One spelling for each JSON value, so that a digest or a MAC of it can be made again later. Pure."""

import json
from decimal import Decimal
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, the same before and after a database's JSON column had it: some of them
    store 1e3 as 1000."""
    return json.dumps(_with_exact_numbers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _with_exact_numbers(value: Any) -> Any:
    if isinstance(value, float) and (exact := Decimal(repr(value))) == exact.to_integral_value():
        return int(exact)
    if isinstance(value, dict):
        return {name: _with_exact_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_exact_numbers(item) for item in value]
    return value
