"""Columns and read-only fields of admin pages, each declared on one line of its page's class."""

from collections.abc import Callable
from typing import Any, cast

from django.utils import timezone
from unfold.decorators import display

from audit_app.admin_base import links
from audit_app.kernel.safe_text import visible

Column = Callable[[Any, Any], Any]


def column(description: str, value: Callable[[Any], object], **options: Any) -> Column:
    """Declare a column. value: returns the content for a row; options: those of `unfold.decorators.display`."""

    @display(description=description, **options)
    def content(page: Any, row: Any) -> object:
        return value(row)

    return cast(Column, content)


def text(description: str, name: str, *, empty: str = "", **options: Any) -> Column:
    """Declare a column of an untrusted text of the row."""
    return column(description, lambda row: visible(getattr(row, name)) or empty, **options)


def link(description: str, noun: str, name: str) -> Column:
    """Declare a column of links. noun: as registered in `links`; name: of the column with the key."""
    return column(description, lambda row: links.link(noun, getattr(row, name)))


def time(description: str, name: str, **options: Any) -> Column:
    """Declare a column of local times; a dash where there is none."""

    def content(row: Any) -> str:
        moment = getattr(row, name)
        return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}" if moment else "–"

    return column(description, content, **options)
