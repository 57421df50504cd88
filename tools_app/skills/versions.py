"""Semantic versions (semver.org 2.0.0): validated and compared. Pure."""

import re

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_WORD = r"(?:0|[1-9][0-9]{0,8}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_FORM = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)

Order = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def is_version(text: str) -> bool:
    """Return whether the text is a version: `1.2.3`, with optional `-pre.1` and `+build`."""
    return len(text) <= 60 and _FORM.fullmatch(text) is not None


def order(text: str) -> Order:
    """Return a sort key of a version (semver.org, section 11): pre-releases before releases, build metadata ignored."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a version")
    identifiers = found[4].split(".") if found[4] else []
    ranked = tuple((not word.isdecimal(), int(word) if word.isdecimal() else 0, word) for word in identifiers)
    return int(found[1]), int(found[2]), int(found[3]), not identifiers, ranked
