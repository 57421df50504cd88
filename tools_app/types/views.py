"""Builds frozen values from rows. Pure."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, cast

V = TypeVar("V")


def view_of(view: Callable[..., V], row: object, **given: Any) -> V:
    """Return a frozen view (a dataclass): the given values, and the row's columns for all other fields."""
    names = [each.name for each in fields(cast(Any, view)) if each.name not in given]
    return view(**{name: getattr(row, name) for name in names}, **given)
