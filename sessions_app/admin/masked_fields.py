"""Masks values of inbound messages for admin pages: references for replies may contain tokens. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote_plus

from audit_app.kernel.redact import LEAST_CHARACTERS, MASK, masked


def masked_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata with the adapter's reference reduced to its names: any value may be secret."""
    reference = metadata.get("reference")
    return {**metadata, "reference": dict.fromkeys(reference, MASK)} if reference else dict(metadata)


def masked_payload(raw: str, metadata: Mapping[str, Any]) -> Any:
    """Return the payload without these values and without apparent secrets; as JSON if it is JSON."""
    secrets = [text for text in _texts(metadata.get("reference")) if len(text) >= LEAST_CHARACTERS]
    try:
        payload = json.loads(raw)
    except ValueError:  # for example a form
        payload, secrets = raw, [*secrets, *map(quote_plus, secrets)]
    return _without(masked(payload), sorted(secrets, key=len, reverse=True))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _without(value: Any, hidden: list[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, hidden) for item in value]
    if isinstance(value, str):
        for text in hidden:
            value = value.replace(text, MASK)
    return value
