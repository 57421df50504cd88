"""The page that a visitor writes from, as the page itself reports it. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from audit_app.kernel.shorten import one_line

PROBLEM = "must be an object with address, title and data, an object of at most 20 short values"
_LONGEST_ADDRESS, _LONGEST_TITLE, _LONGEST_NAME, _LONGEST_VALUE, _MOST_VALUES = 2000, 300, 60, 500, 20


def read_page(given: Any) -> dict[str, Any] | None:
    """Return the address, the title and the data of a page, as far as it reports them; None if it has another form.

    The address loses what may be secret to the reader: a login and the fragment.
    """
    if not isinstance(given, Mapping) or not {*given} <= {"address", "title", "data"}:
        return None
    address, title, data = given.get("address") or "", given.get("title") or "", given.get("data") or {}
    is_text = isinstance(address, str) and isinstance(title, str) and isinstance(data, Mapping)
    if not is_text or len(data) > _MOST_VALUES or not all(map(_is_value, data.values())):
        return None
    values = {one_line(str(name), _LONGEST_NAME): one_line(str(value), _LONGEST_VALUE) for name, value in data.items()}
    page = {
        "address": _public(address),
        "title": one_line(title, _LONGEST_TITLE),
        "data": {name: value for name, value in values.items() if name and value},
    }
    return {name: value for name, value in page.items() if value}


def lines_of(page: Mapping[str, Any]) -> str:
    """Return a page as lines for the model; empty if it reports nothing."""
    named = {"Address": page.get("address"), "Title": page.get("title"), **page.get("data", {})}
    lines = [f"{name}: {value}" for name, value in named.items() if value]
    return "\n".join(["The page that the visitor writes from reports:", *lines]) if lines else ""


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _public(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https"):
        return ""
    place = parts.netloc.rpartition("@")[2]
    return one_line(urlunsplit((parts.scheme, place, parts.path, parts.query, "")), _LONGEST_ADDRESS)
