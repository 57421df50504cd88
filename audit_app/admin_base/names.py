"""Names that admin pages show in place of keys. Each app registers how to find those of its objects."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

FindNames = Callable[[Collection[Any], Any], Mapping[Any, str]]

_finders: dict[str, list[FindNames]] = defaultdict(list)
_ATTRIBUTE = "_names_of_keys"


def register_names(noun: str, find: FindNames) -> None:
    """Register a reader of names. noun: as in `links`, or `actor`.

    find: takes keys and the user who looks at them, and returns the names that this user may see, by key.
    """
    _finders[noun].append(find)


def find_names(noun: str, keys: Collection[Any], user: Any) -> dict[Any, str]:
    """Return the names of objects by key, without those that have none or that the user may not see."""
    found: dict[Any, str] = {}
    for find in _finders[noun] if keys else ():
        found |= find(keys, user)
    return {key: name for key, name in found.items() if name}


def load_names(rows: Iterable[Any], nouns: Mapping[str, str], user: Any) -> None:
    """Read the names for all rows, with one query for each kind. nouns: kinds by attribute of the row, as `a.b`."""
    rows = list(rows)
    keys: dict[str, set[Any]] = defaultdict(set)
    for attribute, noun in nouns.items():
        keys[noun] |= {attrgetter(attribute)(row) for row in rows} - {None, ""}
    names = {noun: find_names(noun, wanted, user) for noun, wanted in keys.items()}
    for row in rows:
        loaded = {attribute: names[noun].get(attrgetter(attribute)(row), "") for attribute, noun in nouns.items()}
        setattr(row, _ATTRIBUTE, loaded)


def name_of(row: Any, attribute: str) -> str:
    """Return the loaded name for the key in this attribute; empty if there is none."""
    return str(getattr(row, _ATTRIBUTE, {}).get(attribute, ""))
