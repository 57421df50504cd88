"""The proof of a mail's sender: the verdicts of our own mail server in `Authentication-Results` (RFC 8601). Pure.

The From header is free text. Only the topmost header of the server that we are configured to trust counts: a sender can
write such headers, too, but below it.
"""

import re
from collections.abc import Iterable

# From the strongest to the weakest.
VERIFIED, ASSERTED, UNVERIFIED = "verified", "asserted", "unverified"
LADDER = (VERIFIED, ASSERTED, UNVERIFIED)
# The server of verdicts without a name, as Microsoft 365 writes them above all others.
UNNAMED = "unnamed"
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_COMMENT = re.compile(r"\((?:\\.|[^()\\])*\)")
_RESULT = re.compile(r"\s*(dmarc|dkim|spf)\s*(?:/\s*\d+\s*)?=\s*([a-z]+)\b(.*)", re.IGNORECASE | re.DOTALL)
_PROPERTY = re.compile(r"\b(header\.d|header\.i|header\.from|smtp\.mailfrom)\s*=\s*(\S+)", re.IGNORECASE)


def proof_of(headers: Iterable[str], server: str, domain: str) -> str:
    """Return verified, asserted (no verdict) or unverified.

    headers: the values of Authentication-Results, topmost first.
    server: the name in those of ours, empty if none is trusted; UNNAMED: the topmost header is of ours, without a name.
    """
    for header in headers:
        plain = _without_comments(header)
        name, _, results = plain.partition(";")
        words = name.split()
        if server.lower() == UNNAMED:
            return _judge(plain, domain.lower()) if _RESULT.match(name) else ASSERTED
        if server and words and words[0].lower() == server.lower():
            return _judge(results, domain.lower())
    return ASSERTED


def _without_comments(header: str) -> str:
    """Return the header without quoted strings and comments: a sender can write verdicts into both."""
    text = _QUOTED.sub('""', header)
    while (shorter := _COMMENT.sub(" ", text)) != text:
        text = shorter
    return text


def _judge(results: str, domain: str) -> str:
    verdicts: dict[str, list[tuple[str, dict[str, str]]]] = {"dmarc": [], "dkim": [], "spf": []}
    for result in results.split(";"):
        if found := _RESULT.match(result):
            properties = {name.lower(): value.lower() for name, value in _PROPERTY.findall(found[3])}
            verdicts[found[1].lower()].append((found[2].lower(), properties))
    dmarc = {verdict for verdict, _ in verdicts["dmarc"]}
    if dmarc == {"pass"} and all(found.get("header.from", domain) == domain for _, found in verdicts["dmarc"]):
        return VERIFIED
    if dmarc - {"none", "bestguesspass"}:
        return UNVERIFIED
    names = [
        found.get("header.d") or found.get("header.i", "") for verdict, found in verdicts["dkim"] if verdict == "pass"
    ]
    names += [found.get("smtp.mailfrom", "") for verdict, found in verdicts["spf"] if verdict == "pass"]
    if any(_is_aligned(name.rpartition("@")[2], domain) for name in names):
        return VERIFIED
    has_failed = any(verdict in ("fail", "softfail") for name in ("dkim", "spf") for verdict, _ in verdicts[name])
    return UNVERIFIED if has_failed or not any(verdicts.values()) else ASSERTED


def _is_aligned(name: str, domain: str) -> bool:
    """Return whether a domain answers for another: the same one, or one above it. A subdomain may be a stranger's."""
    return "." in name and (name == domain or domain.endswith(f".{name}"))
