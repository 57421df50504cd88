"""Recognises the optional part of a request that a server does not accept. Pure."""

import json
import re
from collections.abc import Collection

_REFUSES = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)|not (?:supported|permitted|allowed|accepted)|no longer supported"
    r"|extra (?:input|field)|additional propert|extra_forbidden|does(?: not|n't) support|forbidden"
    r"|at the same time|mutually exclusive|only one of|(?:cannot|can't|can not) (?:both|set both)",
    re.IGNORECASE,
)
# Servers reject a schema with many sentences, and not all of them name the parameter.
_SCHEMA = re.compile(r"response.?format|text.format|json.?schema|structured.?output|guided", re.IGNORECASE)
_OTHER_NAMES = {
    "response_format": _SCHEMA,
    "text": _SCHEMA,
    "encrypted_content": re.compile(r"invalid_encrypted_content|encrypted content .{0,200}could not", re.IGNORECASE),
}


def find_refused(body: object, optional: Collection[str]) -> str:
    """Return the parameter that an error response refuses; empty if it is refused for another reason.

    body: parsed JSON, text or None.
    optional: names that the request contains and can do without.
    """
    named = _named_parts(body)
    text = body if isinstance(body, str) else json.dumps(body)
    is_refusal = _REFUSES.search(text)
    if is_refusal and (name := next((name for name in named if name in optional), "")):
        return name
    for name, pattern in _OTHER_NAMES.items():
        if name in optional and pattern.search(text):
            return name
    if named or not is_refusal:
        return ""
    found = {name: match.start() for name in optional if (match := re.search(rf"\b{name}\b", text))}
    return min(found, key=lambda name: found[name], default="")


def _named_parts(body: object) -> list[str]:
    """Return the names in the path of the parameter that the error states; none if it states none."""
    error = body.get("error", body) if isinstance(body, dict) else None
    param = error.get("param") if isinstance(error, dict) else None
    return re.split(r"[.\[\]]+", param) if isinstance(param, str) else []
