"""Semantic versions: read and compared, as semver.org has it. Pure."""

import re

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_WORD = r"(?:0|[1-9][0-9]{0,8}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_FORM = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)

Order = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def is_version(text: str) -> bool:
    """`1.2.3`, with `-pre.1` and `+build` behind it if need be."""
    return len(text) <= 60 and _FORM.fullmatch(text) is not None


def order(text: str) -> Order:
    """A key that sorts versions: a pre-release before its release, numbers by value, build words not at all."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a version")
    words = found[4].split(".") if found[4] else []
    ranked = tuple((not word.isdecimal(), int(word) if word.isdecimal() else 0, word) for word in words)
    return int(found[1]), int(found[2]), int(found[3]), not words, ranked
