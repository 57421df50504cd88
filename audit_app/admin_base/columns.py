"""Columns and read-only fields of admin pages, each declared on one line of its page's class."""

from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import Any, cast

from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display

from audit_app.admin_base import links
from audit_app.admin_base.names import name_of
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten

_AGO_SECONDS = 86_400
Column = Callable[[Any, Any], Any]


def column(description: str, value: Callable[[Any], object], **options: Any) -> Column:
    """Declare a column. value: returns the content for a row."""

    @display(description=description, **options)
    def content(page: Any, row: Any) -> object:
        return value(row)

    return cast(Column, content)


def text(description: str, name: str, *, empty: str = "", **options: Any) -> Column:
    """Declare a column of an untrusted text of the row."""
    return column(description, lambda row: visible(getattr(row, name)) or empty, **options)


def time_ago(moment: datetime | None) -> str:
    """Return the time that has passed, as `3 min ago`, and the time itself; the day and time alone after a day."""
    if not moment:
        return "–"
    exact = f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}"
    seconds = (timezone.now() - moment).total_seconds()
    if not 0 <= seconds < _AGO_SECONDS:
        return exact
    minutes = int(seconds // 60)
    ago = "just now" if not minutes else f"{minutes} min ago" if minutes < 60 else f"{minutes // 60} h ago"
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact, ago)


def link(description: str, noun: str, name: str) -> Column:
    """Declare a column of links.

    noun: as registered in `links`.
    name: name of the column with the key.
    """
    return column(description, lambda row: links.link(noun, getattr(row, name)))


def named(description: str, noun: str, attribute: str, *, fallback: str = "") -> Column:
    """Declare a column of objects by name, linked to their pages; the page's class lists the attribute in `named`.

    attribute: with the key, as `a.b`.
    fallback: attribute with a text for objects without a name.
    """

    def content(row: Any) -> object:
        key = attrgetter(attribute)(row)
        text = name_of(row, attribute) or (shorten(getattr(row, fallback), 32) if fallback else "")
        return links.link(noun, key, shorten(text, 60))

    return column(description, content)


def time(description: str, name: str, **options: Any) -> Column:
    """Declare a column of local times, with the time that has passed; a dash where there is none."""

    def content(row: Any) -> str:
        return time_ago(getattr(row, name))

    return column(description, content, **options)
