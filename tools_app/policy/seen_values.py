"""Values of calls that a person has seen or written: a permission for a run covers no others. Pure."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

# For approvers, behind the pattern of a permission for the run.
LIMIT = "after it has read from outside, changes only with the values of this call or of the user's messages"
Arguments = dict[str, Any]
_LEAST = 2  # characters of a value that counts as one of a person's text


def repeats(arguments: Arguments, allowed: Iterable[Arguments], own_texts: Iterable[str]) -> bool:
    """Return whether a call is made of values that a person knows.

    It has the arguments of a call that was allowed, no more and no fewer, and each value is that of an allowed call at
    the same place, or stands in a text of the person.
    """
    known = list(allowed)
    seen = {leaf for each in known for leaf in _leaves(each)}
    texts = list(own_texts)
    is_same_form = any(arguments.keys() == each.keys() for each in known)
    return is_same_form and all(leaf in seen or _is_written(leaf[1], texts) for leaf in _leaves(arguments))


def _leaves(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each single value as JSON with the names that lead to it; the places in a list are the same."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, (*place, name))
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, place)
    else:
        yield place, json.dumps(value, sort_keys=True)


def _is_written(leaf: str, texts: Iterable[str]) -> bool:
    """Return whether a text or number stands, as a whole, in one of the texts."""
    value = json.loads(leaf)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) < _LEAST:
        return False
    whole = re.compile(rf"(?<!\w){re.escape(str(value))}(?!\w)", re.IGNORECASE)
    return any(whole.search(text) for text in texts)
