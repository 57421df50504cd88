"""Parser of the header `Authentication-Results` (RFC 8601), in linear time. Pure.

A sender chooses parts of it, such as the address of the envelope. They stand in values, quoted strings and comments,
and are never results; so the header is read as it was sent, with no encoded words decoded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_SPACE = re.compile(r"[ \t\r\n]*")
_IN_COMMENT = re.compile(r"[^()\\]+|\\.|[()]", re.DOTALL)
_TOKEN = re.compile(r"[^\x00-\x20\x7f()<>@,;:\\\"/\[\]?=]+")
_KEYWORD = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?", re.IGNORECASE | re.ASCII)
_NAME = re.compile(rf"{_KEYWORD.pattern}(?:\.{_KEYWORD.pattern})?", re.IGNORECASE | re.ASCII)
_VERSION = re.compile(r"[0-9]+")
# Wider than the RFC: servers write paths, `<>` and base64 unquoted.
_VALUE = re.compile(r"(?:\"[^\"\\]*(?:\\.[^\"\\]*)*\"|[^\x00-\x20\x7f();\"\\]+)*", re.DOTALL)
_QUOTING = re.compile(r"\"|\\(.)", re.DOTALL)


class NotParsable(ValueError):
    """Text that is no Authentication-Results."""


@dataclass(frozen=True)
class Result:
    """The result of one method, such as `dkim=pass`. All in lower case.

    properties: such as `header.d`, of each the first.
    """

    method: str
    verdict: str
    properties: dict[str, str] = field(default_factory=dict)


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def take(self, pattern: re.Pattern[str]) -> str:
        """Return the text that matches here, perhaps empty, and go on behind it."""
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found[0] if found else ""

    def need(self, pattern: re.Pattern[str]) -> str:
        """Return the text that matches here. Raises NotParsable."""
        if found := self.take(pattern):
            return found
        raise NotParsable

    def takes(self, character: str) -> bool:
        """Skip that character and the space behind it, if it stands here."""
        is_here = self._text.startswith(character, self._at)
        self._at += is_here
        self.skip()
        return is_here

    def skip(self) -> None:
        """Skip white space and comments, which may be nested. Raises NotParsable for a comment without an end."""
        depth = 0
        self.take(_SPACE)
        while depth or self._text.startswith("(", self._at):
            piece = self.need(_IN_COMMENT)
            depth += {"(": 1, ")": -1}.get(piece, 0)
            if not depth:
                self.take(_SPACE)

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._text)


def server_of(header: str) -> str:
    """Return the name of the server that wrote the header, in lower case; empty if it does not begin with one."""
    scanner = _Scanner(header)
    try:
        scanner.skip()
        name = scanner.take(_TOKEN).lower()
        scanner.skip()
    except NotParsable:
        return ""
    return "" if scanner.takes("=") else name


def read_results(header: str) -> tuple[Result, ...]:
    """Return the results of a header, also of one that names no server. Raises NotParsable."""
    if not server_of(header):
        return tuple(_results(_Scanner(f";{header}")))
    scanner = _Scanner(header)
    scanner.skip()
    scanner.need(_TOKEN)
    scanner.skip()
    scanner.take(_VERSION)
    scanner.skip()
    return tuple(_results(scanner))


def _results(scanner: _Scanner) -> Iterator[Result]:
    while scanner.takes(";"):
        if not (method := scanner.take(_KEYWORD).lower()):
            continue  # some servers end the header with a semicolon
        scanner.skip()
        if scanner.takes("/"):
            scanner.need(_VERSION)
            scanner.skip()
        if scanner.takes("="):
            verdict = scanner.need(_KEYWORD).lower()
            scanner.skip()
            yield Result(method, verdict, _properties(scanner))
        elif method != "none":
            raise NotParsable
    if not scanner.is_at_end:
        raise NotParsable


def _properties(scanner: _Scanner) -> dict[str, str]:
    found: dict[str, str] = {}
    while name := scanner.take(_NAME).lower():
        scanner.skip()
        if not scanner.takes("="):
            raise NotParsable
        value = scanner.take(_VALUE)
        found.setdefault(name, _QUOTING.sub(lambda match: match[1] or "", value).lower())
        scanner.skip()
    return found
