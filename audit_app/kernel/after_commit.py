"""Calls after the commit of the current transaction."""

import logging
from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from django.db import transaction

from audit_app.kernel import valkey

P = ParamSpec("P")

logger = logging.getLogger(__name__)


class _Calls:
    """Calls of one transaction. What they post to Valkey is sent in one write."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def __call__(self) -> None:
        with valkey.in_one_write():
            for call in self.calls:
                try:
                    call()
                except Exception:
                    logger.exception("a call after the commit failed")


def after_commit(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call the function once the current transaction commits; at once outside of one, never after a rollback.

    What it raises is logged, since the caller's work is stored by then.
    """
    calls = _calls_of_savepoint()
    if is_new := calls is None:
        calls = _Calls()
    calls.calls.append(partial(function, *args, **kwargs))
    if is_new:
        transaction.on_commit(calls)


def _calls_of_savepoint() -> _Calls | None:
    """Return the calls that share the fate of one registered now: those of the same savepoints, if any are the last."""
    connection = transaction.get_connection()
    if not (connection.in_atomic_block and connection.run_on_commit):
        return None
    savepoints, last, _ = connection.run_on_commit[-1]
    is_same = savepoints - {None} == set(connection.savepoint_ids) - {None}
    return last if is_same and isinstance(last, _Calls) else None
