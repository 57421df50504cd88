"""Parser of mails from anybody, in time that grows with their length. Pure.

Python's parser takes quadratic time for a long header, and compares each line with the boundary of each level of parts.
So what a person's mail never has is refused before.
"""

from email import message_from_bytes, policy
from email.headerregistry import BaseHeader, HeaderRegistry
from email.message import EmailMessage
from functools import lru_cache
from typing import Any

_LONGEST_HEADER = 4096
_DEEPEST, MOST_PARTS = 10, 300
_PARSED_HEADERS = 16  # kept, since each look at a header parses it anew
_CUT = frozenset(["subject", "references"])  # others would mean something else without their end


class TooManyParts(ValueError):
    """A mail with more parts, or parts within parts, than are read."""


class _Part(EmailMessage):
    """A mail or a part of it. Knows how many parts it is within, and how many its mail has."""

    depth = 0
    count: list[None]

    def attach(self, payload: Any) -> None:
        payload.depth, payload.count = self.depth + 1, vars(self).setdefault("count", [])
        payload.count.append(None)
        if payload.depth > _DEEPEST or len(payload.count) > MOST_PARTS:
            raise TooManyParts
        super().attach(payload)


def parse(raw: bytes) -> EmailMessage:
    """Return a mail, in which headers that are too long are empty.

    Raises TooManyParts, and exceptions of many kinds for a malformed mail.
    """
    registry = HeaderRegistry()

    @lru_cache(_PARSED_HEADERS)
    def make(name: str, value: str) -> BaseHeader:
        if len(value) > _LONGEST_HEADER:
            value = value[:_LONGEST_HEADER] if name.lower() in _CUT else ""
        return registry(name, value)

    rules = policy.EmailPolicy(header_factory=make, message_factory=_Part, refold_source="none")
    return message_from_bytes(raw, policy=rules)
