"""Calls after the commit of the current transaction."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from django.db import transaction

P = ParamSpec("P")


def after_commit(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call the function once the current transaction commits; at once outside of one, never after a rollback.

    What it raises is logged, since the caller's work is stored by then. Django logs the function's name, which a
    `partial` does not have: its AttributeError would reach the caller in place of the log line.
    """

    @wraps(function)
    def call() -> None:
        function(*args, **kwargs)

    transaction.on_commit(call, robust=True)
