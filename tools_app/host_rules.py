"""Rules about the hosts that calls may reach. Pure."""

import re

_HOST = re.compile(r"(?:[a-z0-9*?._-]{1,253}|\[[0-9a-f:.]+\])(?::(?:\d{1,5}|\*))?", re.IGNORECASE)


class PatternError(ValueError):
    """An invalid pattern or rule. The message is for its author."""


def check_host(text: str) -> str:
    """Return a rule about hosts, in lower case, if it is valid. Raises PatternError."""
    if not _HOST.fullmatch(text):
        raise PatternError(
            f"{text[:100]!r} is not a host. Write `example.com`, `*.example.com` or `example.com:8443`, without a path."
        )
    return text.lower()
